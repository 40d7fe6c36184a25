#include "config/key_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace camd::config {
namespace {

using enum ValueType;

constexpr std::string_view kLiveTypes = "v4l2|rtsp|gstreamer";
// The largest side that the H.264 decoders and the preprocessing kernels take.
constexpr std::string_view kMaxSide = "16384";

constexpr std::array kConfigKeys = {
    KeyRow{.path = "device",
           .type = kDevice,
           .fallback = "auto",
           .help = "Where the model runs. auto takes the first CUDA device that works, else the host."},
    KeyRow{.path = "devices",
           .type = kWordOrList,
           .example = "[cuda:0, cuda:1]",
           .min = "1",
           .max = "16",
           .words = "all",
           .help = "Several devices, instead of `device`. The cameras are spread over them by load; those of a device "
                   "that is lost go on with the others. all: every GPU, or the host where there is none."},
    KeyRow{.path = "devices[]", .type = kDevice},

    KeyRow{.path = "model", .type = kMap, .required = true, .help = "The detector."},
    KeyRow{.path = "model.path",
           .type = kFile,
           .required = true,
           .example = "models/marker-640x360.onnx",
           .help = "The ONNX file."},
    KeyRow{.path = "model.card",
           .type = kFile,
           .example = "models/marker.yaml",
           .help =
               "The model card, a YAML file that says how the model is fed and read. Not said: NAME.yaml beside the "
               "model, where NAME is the model's file name without .onnx, or without -WxH.onnx."},
    KeyRow{.path = "model.engine",
           .type = kWord,
           .fallback = "auto",
           .words = "auto|cuda|cpu|opencv",
           .help = "What runs the model. auto: cuda on a CUDA device; on the host cpu, and opencv for what cpu cannot "
                   "run."},
    KeyRow{.path = "model.precision",
           .type = kWord,
           .fallback = "auto",
           .words = "auto|f16|bf16|tf32|f32",
           .help =
               "What the network is computed in. auto: f16 on engine cuda, f32 on the host. f16, on engine cuda with "
               "sums in f32, is several times faster; convolutions that it would spoil are computed in f32. Engine "
               "cpu takes f16 for convolutions where the processor computes with it (ARM with FEAT_FP16), else f32. "
               "bf16, of engine cpu: likewise on processors with AVX512_BF16 or FEAT_BF16; engine cuda takes f16. "
               "tf32, of engine cuda: f32 whose convolutions multiply numbers of 11 binary digits; GPUs before "
               "Ampere compute in f32."},
    KeyRow{
        .path = "model.cut_at",
        .type = kList,
        .example = "[scores, boxes]",
        .min = "1",
        .max = "64",
        .help =
            "Tensors of the model's graph that become its outputs, in this order. What lies behind them is left out, "
            "such as a choice of boxes that no engine here runs. Not said: the model's own outputs."},
    KeyRow{.path = "model.cut_at[]", .type = kText},
    KeyRow{
        .path = "model.input",
        .type = kMap,
        .help = "How a picture is fed to the model. What is not said comes from the model card, then from the model."},
    KeyRow{.path = "model.input.width",
           .type = kInteger,
           .example = "640",
           .min = "1",
           .max = kMaxSide,
           .unit = "px",
           .help = "Width of the network's input, for models that leave it open."},
    KeyRow{.path = "model.input.height",
           .type = kInteger,
           .example = "360",
           .min = "1",
           .max = kMaxSide,
           .unit = "px",
           .help = "Height of the network's input, for models that leave it open."},
    KeyRow{.path = "model.input.color",
           .type = kWord,
           .example = "bgr",
           .words = "bgr|rgb",
           .help = "Order of the network's channels."},
    KeyRow{.path = "model.input.mean",
           .type = kList,
           .example = "[0, 0, 0]",
           .min = "3",
           .max = "3",
           .help = "Subtracted from each channel (0..255), in the order of color."},
    KeyRow{.path = "model.input.mean[]", .type = kNumber, .min = "-1000", .max = "1000"},
    KeyRow{.path = "model.input.scale",
           .type = kNumberOrList,
           .example = "0.00392157",
           .min = "3",
           .max = "3",
           .help = "Multiplies each channel after the mean was subtracted; one number, or one for each channel."},
    KeyRow{.path = "model.input.scale[]", .type = kNumber, .min = "1e-06", .max = "1000"},
    KeyRow{.path = "model.input.resize",
           .type = kWord,
           .example = "letterbox",
           .words = "letterbox|stretch",
           .help = "letterbox keeps the picture's shape and pads, stretch fills the input."},
    KeyRow{.path = "model.input.position",
           .type = kWord,
           .example = "centre",
           .words = "centre|top_left",
           .help = "Where a letterboxed picture lies in the input; the rest is padding."},
    KeyRow{.path = "model.input.pad",
           .type = kNumber,
           .example = "114",
           .min = "0",
           .max = "255",
           .help = "Padding beside a letterboxed picture, as a pixel's value before mean and scale."},

    KeyRow{.path = "pipeline", .type = kMap, .help = "How frames travel."},
    KeyRow{.path = "pipeline.slots",
           .type = kInteger,
           .fallback = "3",
           .min = "3",
           .max = "64",
           .help = "Page-locked pictures in each camera's ring: one to fill, one ready, one read, and more."},
    KeyRow{.path = "pipeline.transfer",
           .type = kWord,
           .fallback = "auto",
           .words = "auto|pinned|direct|mapped|pageable",
           .help =
               "How pictures and outputs cross the bus. pinned: copied from and to page-locked memory; direct: "
               "outputs are written there by the network itself, the lowest latency, fewer frames a second; mapped: "
               "pictures are also read there, nothing is copied; pageable: copied from and to ordinary memory. auto "
               "measures at start and logs its choice: the way in which a frame takes least with so many cameras."},
    KeyRow{.path = "pipeline.streams",
           .type = kWord,
           .fallback = "split",
           .words = "split|per_frame|single",
           .help = "split: one stream each for copy, compute and download; per_frame: one stream a frame in flight; "
                   "single: one for all."},
    KeyRow{.path = "pipeline.max_age",
           .type = kDuration,
           .fallback = "200ms",
           .min = "1ms",
           .max = "1h",
           .help = "Older frames are dropped before they cost GPU time."},

    KeyRow{.path = "cameras", .type = kList, .required = true, .min = "1", .max = "4096", .help = "The cameras."},
    KeyRow{.path = "cameras[]", .type = kMap},
    KeyRow{.path = "cameras[].name",
           .type = kName,
           .required = true,
           .example = "door",
           .help = "Names the camera in metrics and detections; no two are the same."},
    KeyRow{.path = "cameras[].max_megapixels",
           .type = kInteger,
           .fallback = "64",
           .min = "1",
           .max = "269",
           .help = "Larger pictures are refused, and the camera fails. A megapixel is 1,000,000 pixels."},
    KeyRow{.path = "cameras[].decode",
           .type = kWord,
           .fallback = "auto",
           .words = "auto|gpu|cpu",
           .help = "Where compressed pictures are decoded. `gpu`: by the decoders of the GPU that `device` names, and "
                   "they stay there; a camera that they cannot decode fails. `auto`: so where they can, else on the "
                   "CPU."},
    KeyRow{.path = "cameras[].damaged",
           .type = kWord,
           .fallback = "keep",
           .words = "keep|drop",
           .help = "Pictures of which something was lost or wrong on their way, up to the next key frame. `keep`: they "
                   "are marked (`damaged` in lines of `jsonl`). `drop`: they are dropped as `source_error`; "
                   "then Vulkan Video, which does not tell them, does not decode this camera."},
    KeyRow{.path = "cameras[].gate",
           .type = kWordOrMap,
           .fallback = "none",
           .words = "none|motion",
           .help = "Which frames are worth the network. `motion`: those whose picture changed; the others are counted "
                   "as `gated`. A map sets how. Its pictures are decoded on the CPU."},
    KeyRow{.path = "cameras[].gate.motion", .type = kMap, .help = "What counts as a change."},
    KeyRow{.path = "cameras[].gate.motion.threshold",
           .type = kInteger,
           .fallback = "4",
           .min = "1",
           .max = "255",
           .unit = "grey levels",
           .help = "How far a block of the picture, a fortieth of its width, differs on average from the last frame "
                   "that passed."},
    KeyRow{.path = "cameras[].gate.motion.region",
           .type = kList,
           .example = "[[0, 0.4], [1, 0.4], [1, 1], [0, 1]]",
           .min = "3",
           .max = "64",
           .help = "The corners of a polygon, as shares of the picture from its top left: changes elsewhere do not "
                   "count. The network still sees the whole picture."},
    KeyRow{.path = "cameras[].gate.motion.region[]", .type = kList, .min = "2", .max = "2"},
    KeyRow{.path = "cameras[].gate.motion.region[][]", .type = kNumber, .min = "0", .max = "1"},
    KeyRow{.path = "cameras[].gate.longest",
           .type = kDuration,
           .fallback = "500ms",
           .min = "10ms",
           .max = "10s",
           .help = "The longest pause: a frame passes when the last one that did is so much older, whether anything "
                   "moves or not."},
    KeyRow{.path = "cameras[].source", .type = kMap, .required = true, .help = "Where its frames come from."},
    KeyRow{.path = "cameras[].source.type",
           .type = kWord,
           .required = true,
           .example = "file",
           .words = "file|v4l2|rtsp|gstreamer|test",
           .help = "The kind of source: decides which other keys there are."},
    KeyRow{.path = "cameras[].source.path",
           .type = kFile,
           .required = true,
           .example = "demo.mp4",
           .types = "file",
           .help = "The video file."},
    KeyRow{.path = "cameras[].source.loop",
           .type = kBool,
           .fallback = "false",
           .types = "file",
           .help = "Starts again at the end."},
    KeyRow{.path = "cameras[].source.device",
           .type = kText,
           .fallback = "/dev/video0",
           .types = "v4l2",
           .help = "The Video4Linux device. A path under /dev/v4l/by-id stays the same when cameras are replugged."},
    KeyRow{.path = "cameras[].source.url",
           .type = kUrl,
           .required = true,
           .example = "\"rtsp://camera.example/stream\"",
           .types = "rtsp",
           .help = "Address of the stream, rtsp:// or rtsps://."},
    KeyRow{.path = "cameras[].source.latency",
           .type = kDuration,
           .fallback = "50ms",
           .min = "0ms",
           .max = "10s",
           .types = "rtsp",
           .help = "Length of the jitter buffer: every frame is this much older."},
    KeyRow{.path = "cameras[].source.transport",
           .type = kWord,
           .fallback = "tcp",
           .words = "tcp|udp",
           .types = "rtsp",
           .help = "tcp loses nothing, udp does not wait for what is lost."},
    KeyRow{.path = "cameras[].source.pipeline",
           .type = kText,
           .required = true,
           .example = "\"videotestsrc is-live=true ! video/x-raw,width=1280,height=720,framerate=30/1\"",
           .types = "gstreamer",
           .help = "A gst-launch pipeline without its sink; camd appends its own."},
    KeyRow{.path = "cameras[].source.width",
           .type = kInteger,
           .fallback = "1280",
           .min = "16",
           .max = kMaxSide,
           .unit = "px",
           .types = "v4l2|test",
           .help = "Width of the picture."},
    KeyRow{.path = "cameras[].source.height",
           .type = kInteger,
           .fallback = "720",
           .min = "16",
           .max = kMaxSide,
           .unit = "px",
           .types = "v4l2|test",
           .help = "Height of the picture."},
    KeyRow{.path = "cameras[].source.fps",
           .type = kNumber,
           .fallback = "30",
           .min = "0.1",
           .max = "1000",
           .unit = "frames/s",
           .types = "v4l2|test",
           .help = "Frames a second."},
    KeyRow{.path = "cameras[].source.format",
           .type = kWord,
           .fallback = "bgr",
           .words = "bgr|rgb|nv12|i420|yuy2|gray8",
           .types = "test",
           .help = "Pixel format."},
    KeyRow{.path = "cameras[].source.frames",
           .type = kInteger,
           .fallback = "0",
           .min = "0",
           .max = "1000000000000",
           .types = "test",
           .help = "Ends after so many frames; 0: never."},
    KeyRow{.path = "cameras[].source.realtime",
           .type = kBool,
           .fallback = "true",
           .types = "file|test",
           .help = "false: as fast as the pipeline takes the frames, and none is dropped."},
    KeyRow{.path = "cameras[].source.timeout",
           .type = kDuration,
           .fallback = "5s",
           .min = "100ms",
           .max = "1h",
           .types = kLiveTypes,
           .help = "Without a frame for so long the camera is stalled and its source is opened anew."},
    KeyRow{.path = "cameras[].source.reconnect",
           .type = kMap,
           .types = kLiveTypes,
           .help = "Waits between attempts to open the source; the wait doubles each time."},
    KeyRow{.path = "cameras[].source.reconnect.initial",
           .type = kDuration,
           .fallback = "500ms",
           .min = "10ms",
           .max = "1h",
           .types = kLiveTypes,
           .help = "The first wait."},
    KeyRow{.path = "cameras[].source.reconnect.max",
           .type = kDuration,
           .fallback = "1500ms",
           .min = "10ms",
           .max = "1h",
           .types = kLiveTypes,
           .help = "The longest wait, not shorter than initial."},

    KeyRow{.path = "postprocess",
           .type = kList,
           .max = "64",
           .help = "The plug-ins that turn outputs into detections and send them on, in this order."},
    KeyRow{.path = "postprocess[]", .type = kMap},
    KeyRow{
        .path = "postprocess[].plugin",
        .type = kPlugin,
        .required = true,
        .example = "detections",
        .help = "A built-in's name, or the path of a .so or .py: what ends in one of them or contains a / is a path."},
    KeyRow{.path = "postprocess[].config",
           .type = kFree,
           .help = "The plug-in's own keys. Those of detections are completed from the model card."},
    KeyRow{.path = "postprocess[].isolation",
           .type = kWord,
           .example = "process",
           .words = "process|none",
           .help =
               "process: it runs in a process of its own, which costs two wake-ups a frame, and a fault in it costs "
               "that process and no more. none: in camd's. What is left out counts as process for a path, as none "
               "for a built-in."},
    KeyRow{.path = "postprocess[].instances",
           .type = kWord,
           .fallback = "shared",
           .words = "shared|camera",
           .help =
               "shared: one instance for all cameras, or a few that any frame may go to where the plug-in keeps "
               "nothing from frame to frame. camera: each has its own, and with isolation: process its own process, "
               "unless worker: names one. A fault then costs frames of one camera alone."},
    KeyRow{.path = "postprocess[].worker",
           .type = kName,
           .example = "mine",
           .help = "With isolation: process. Plug-ins of one name share a process; without it each has its own."},
    KeyRow{.path = "postprocess[].deadline",
           .type = kDuration,
           .fallback = "1s",
           .min = "1ms",
           .max = "10min",
           .help = "With isolation: process. A call of process() that takes longer is ended, with the process."},
    KeyRow{.path = "postprocess[].memory",
           .type = kSize,
           .fallback = "2GiB",
           .min = "16MiB",
           .max = "1024GiB",
           .help = "With isolation: process. A process that takes more memory of its own is ended."},
    KeyRow{.path = "postprocess[].nice",
           .type = kInteger,
           .fallback = "0",
           .min = "0",
           .max = "19",
           .help = "With isolation: process. How far the process stands behind camd where cores are short: 0 as camd "
                   "itself, 19 last of all."},
    KeyRow{.path = "postprocess[].on_failure",
           .type = kWord,
           .fallback = "drop_frames",
           .words = "drop_frames|pass_through|stop",
           .help =
               "With isolation: process. What becomes of frames while the plug-in has no process. drop_frames: they "
               "are dropped as plugin_error. pass_through: they go on without it, marked as incomplete. stop: "
               "dropped, and camd stops once the plug-in is given up."},
    KeyRow{.path = "postprocess[].allow",
           .type = kList,
           .example = "[network, \"files: out/\"]",
           .max = "64",
           .help = "With isolation: process. What the plug-in may do beyond computing and reading: use the network, "
                   "use the GPU (gpu), write the file or below the folder (whose name ends with /) behind `files:`."},
    KeyRow{.path = "postprocess[].allow[]", .type = kGrant},
    KeyRow{.path = "postprocess[].python",
           .type = kText,
           .example = "./venv/bin/python",
           .help = "The interpreter of a plug-in in Python; else python3."},

    KeyRow{.path = "metrics", .type = kMap, .help = "The metrics on stdout."},
    KeyRow{.path = "metrics.period",
           .type = kDuration,
           .fallback = "1s",
           .min = "10ms",
           .max = "1h",
           .help = "Time between two reports."},

    KeyRow{.path = "http",
           .type = kMap,
           .help = "The HTTP server: figures for Prometheus, health, and what the cameras do. There is none without "
                   "`listen`."},
    KeyRow{.path = "http.listen",
           .type = kAddress,
           .example = "127.0.0.1:8088",
           .help = "Where it listens. Port 0 takes a free one, which the log names. An address that other machines "
                   "reach needs a token."},
    KeyRow{.path = "http.token",
           .type = kText,
           .example = "\"${file:/etc/camd/token}\"",
           .help = "The secret that a client has to know, 16 characters or more. It is never shown."},
    KeyRow{.path = "http.token_file",
           .type = kText,
           .example = "/etc/camd/token",
           .help = "Instead of `token`: the file that holds it, on one line. A reload reads it again."},
};

constexpr std::array kModelCardKeys = {
    KeyRow{.path = "name", .type = kText, .example = "marker", .help = "The model's name."},
    KeyRow{.path = "cut_at",
           .type = kList,
           .example = "[scores, boxes]",
           .min = "1",
           .max = "64",
           .help = "As model.cut_at."},
    KeyRow{.path = "cut_at[]", .type = kText},
    KeyRow{.path = "input", .type = kMap, .help = "Defaults of model.input."},
    KeyRow{.path = "input.color", .type = kWord, .example = "bgr", .words = "bgr|rgb", .help = "As model.input.color."},
    KeyRow{.path = "input.mean",
           .type = kList,
           .example = "[0, 0, 0]",
           .min = "3",
           .max = "3",
           .help = "As model.input.mean."},
    KeyRow{.path = "input.mean[]", .type = kNumber, .min = "-1000", .max = "1000"},
    KeyRow{.path = "input.scale",
           .type = kNumberOrList,
           .example = "0.00392157",
           .min = "3",
           .max = "3",
           .help = "As model.input.scale."},
    KeyRow{.path = "input.scale[]", .type = kNumber, .min = "1e-06", .max = "1000"},
    KeyRow{.path = "input.resize",
           .type = kWord,
           .example = "letterbox",
           .words = "letterbox|stretch",
           .help = "As model.input.resize."},
    KeyRow{.path = "input.position",
           .type = kWord,
           .example = "centre",
           .words = "centre|top_left",
           .help = "As model.input.position."},
    KeyRow{.path = "input.pad",
           .type = kNumber,
           .example = "114",
           .min = "0",
           .max = "255",
           .help = "As model.input.pad."},
};

std::string_view parent_of(std::string_view path) noexcept {
  if (path.ends_with("[]")) return path.substr(0, path.size() - 2);
  const auto dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

std::string range(const KeyRow& row) {
  std::string unit = row.unit.empty() ? "" : fmt::format(" {}", row.unit);
  if (row.min.empty() && row.max.empty()) return unit;
  if (row.max.empty()) return fmt::format(" from {}{}", row.min, unit);
  return fmt::format(" from {} to {}{}", row.min, row.max, unit);
}

std::string count(const KeyRow& row) {
  if (row.min == row.max) return fmt::format("{}", row.min);
  return fmt::format("{} to {}", row.min.empty() ? "0" : row.min, row.max);
}

std::string list_of(Table table, const KeyRow& row) {
  const KeyRow* element = find_row(table, std::string(row.path) + "[]");
  if (element == nullptr) return fmt::format("a list of {}", count(row));
  switch (element->type) {
    case kMap: return fmt::format("a list of {} maps", count(row));
    case kList: return fmt::format("a list of {} lists of {} numbers", count(row), count(*element));
    case kInteger: return fmt::format("a list of {} integers{}", count(row), range(*element));
    case kDevice: return fmt::format("a list of {} devices", count(row));
    case kNumber: return fmt::format("a list of {} numbers{}", count(row), range(*element));
    default: return fmt::format("a list of {} texts", count(row));
  }
}

}  // namespace

Table config_keys() noexcept { return kConfigKeys; }
Table model_card_keys() noexcept { return kModelCardKeys; }

std::vector<const KeyRow*> rows_under(Table table, std::string_view parent, std::string_view source_type) {
  std::vector<const KeyRow*> rows;
  for (const KeyRow& row : table) {
    if (row.path.empty() || row.path.ends_with("[]") || parent_of(row.path) != parent) continue;
    if (source_type.empty() || row.types.empty() || has_word(row.types, source_type)) rows.push_back(&row);
  }
  return rows;
}

const KeyRow* find_row(Table table, std::string_view path, std::string_view source_type) {
  for (const KeyRow& row : table) {
    if (row.path != path) continue;
    if (source_type.empty() || row.types.empty() || has_word(row.types, source_type)) return &row;
  }
  return nullptr;
}

std::string_view leaf(std::string_view path) noexcept {
  const auto dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

std::vector<std::string_view> split_words(std::string_view words) {
  std::vector<std::string_view> parts;
  while (!words.empty()) {
    const auto bar = words.find('|');
    parts.push_back(words.substr(0, bar));
    words = bar == std::string_view::npos ? std::string_view() : words.substr(bar + 1);
  }
  return parts;
}

bool has_word(std::string_view words, std::string_view word) {
  const auto parts = split_words(words);
  return std::find(parts.begin(), parts.end(), word) != parts.end();
}

std::string allowed(Table table, const KeyRow& row) {
  switch (row.type) {
    case kMap: return "a map of keys";
    case kList: return list_of(table, row);
    case kNumberOrList:
      return fmt::format("a number{}, or {}", range(*find_row(table, std::string(row.path) + "[]")),
                         fmt::format("a list of {}", count(row)));
    case kWordOrList: return fmt::format("{}, or {}", fmt::join(split_words(row.words), ", "), list_of(table, row));
    case kWordOrMap: return fmt::format("one of {}, or a map of keys", fmt::join(split_words(row.words), ", "));
    case kFree: return "a map of the plug-in's keys";
    case kAny: return std::string(row.words);
    case kText: return "text";
    case kName: return "a name of 1 to 64 letters, digits, '-', '_' and '.'";
    case kUrl: return "an address that begins with rtsp:// or rtsps://";
    case kAddress: return "a numeric address and a port, such as 127.0.0.1:8088 or [::1]:8088";
    case kFile: return "the path of a file";
    case kPlugin: return "a built-in's name or the path of a .so or .py";
    case kWord: return fmt::format("one of {}", fmt::join(split_words(row.words), ", "));
    case kDevice: return "auto, cuda, cuda:N (N from 0 to 127) or host";
    case kInteger: return fmt::format("an integer{}", range(row));
    case kNumber: return fmt::format("a number{}", range(row));
    case kBool: return "true or false";
    case kDuration: return fmt::format("a duration{}", range(row));
    case kSize: return fmt::format("a size{}", range(row));
    case kGrant: return "network, gpu or \"files: PATH\"";
  }
  return {};
}

}  // namespace camd::config
