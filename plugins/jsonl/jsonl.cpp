// The built-in `jsonl`: one JSON object per frame and line (docs/plugins.md has the fields in their order).
//
// Threads: as every plug-in (camd_plugin.h).
// Invariants: a line is there whole or not at all; after warm-up a frame costs no allocation and one write(2).
#include <fmt/compile.h>
#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/camd_plugin.hpp"
#include "plugins/json_object.hpp"
#include "plugins/jsonl/line_file.hpp"
#include "plugins/paths.hpp"
#include "plugins/tables.hpp"

namespace camd::plugins {
namespace {

using Buffer = fmt::memory_buffer;

// Room for a line of CAMD_MAX_DETECTIONS detections with a handful of keypoints each: a frame with more detections than
// any before costs no allocation. Memory that no line reaches is never touched.
constexpr std::size_t kLineBytes = std::size_t{1} << 22U;

void put(Buffer& out, std::string_view text) { out.append(text.data(), text.data() + text.size()); }

// Bytes of the character that `text` begins with (Unicode 15, table 3-7); 0 when it begins with none. `text` is not
// empty.
std::size_t utf8_bytes(std::string_view text) noexcept {
  const auto at = [text](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned lead = at(0);
  if (lead < 0x80U) return 1;
  const std::size_t bytes = lead >= 0xC2U && lead <= 0xDFU   ? 2U
                            : lead >= 0xE0U && lead <= 0xEFU ? 3U
                            : lead >= 0xF0U && lead <= 0xF4U ? 4U
                                                             : 0U;
  // What a second byte must lie in, so that nothing is longer than it needs to be, a surrogate, or above U+10FFFF.
  const unsigned low = lead == 0xE0U ? 0xA0U : lead == 0xF0U ? 0x90U : 0x80U;
  const unsigned high = lead == 0xEDU ? 0x9FU : lead == 0xF4U ? 0x8FU : 0xBFU;
  for (std::size_t i = 1; i < bytes; ++i) {
    if (at(i) < (i == 1 ? low : 0x80U) || at(i) > (i == 1 ? high : 0xBFU)) return 0;
  }
  return bytes;
}

// A JSON string (RFC 8259, section 7). Plug-ins write its bytes: each that is no UTF-8 becomes U+FFFD.
void put_string(Buffer& out, std::string_view text) {
  out.push_back('"');
  while (!text.empty()) {
    const char c = text.front();
    const auto byte = static_cast<unsigned char>(c);
    std::size_t bytes = 1;
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (byte < 0x20U) {
      fmt::format_to(std::back_inserter(out), FMT_COMPILE("\\u{:04x}"), byte);
    } else if (byte < 0x80U) {
      out.push_back(c);
    } else if (bytes = utf8_bytes(text); bytes > 0) {
      put(out, text.substr(0, bytes));
    } else {
      put(out, "\xEF\xBF\xBD");
      bytes = 1;
    }
    text.remove_prefix(bytes);
  }
  out.push_back('"');
}

// Pixels to a hundredth: finer than any detector, and a third of the bytes.
void put_pixels(Buffer& out, float value) {
  const double rounded = std::round(static_cast<double>(value) * 100.0) / 100.0;
  fmt::format_to(std::back_inserter(out), FMT_COMPILE("{}"), rounded == 0.0 ? 0.0 : rounded);
  // fmt writes 12.0 as "12": a number all the same.
}

// 0 from a camd that does not tell.
std::int64_t uncertainty_us(const camd_frame& frame) {
  return CAMD_HAS_MEMBER(camd_frame, &frame, captured_uncertainty_ns) ? frame.captured_uncertainty_ns / 1000 : 0;
}

// RFC 3339 in UTC with microseconds.
void put_time(Buffer& out, std::int64_t unix_ns) {
  std::int64_t seconds = unix_ns / 1'000'000'000, rest = unix_ns % 1'000'000'000;
  if (rest < 0) {
    rest += 1'000'000'000;
    --seconds;
  }
  const std::time_t time = seconds;
  std::tm utc{};
  gmtime_r(&time, &utc);
  fmt::format_to(std::back_inserter(out), FMT_COMPILE("\"{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z\""),
                 utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, rest / 1000);
}

void put_detection(Buffer& out, const camd_detection& detection) {
  put(out, "{\"class\":");
  put_string(out, detection.class_name);
  if (detection.track_id != 0)
    fmt::format_to(std::back_inserter(out), FMT_COMPILE(",\"track_id\":{}"), detection.track_id);
  if (detection.text[0] != '\0') {
    put(out, ",\"text\":");
    put_string(out, detection.text);
  }
  fmt::format_to(std::back_inserter(out), FMT_COMPILE(",\"class_id\":{},\"score\":{:.4f},\"box\":["),
                 detection.class_id, detection.score);
  for (int i = 0; i < 4; ++i) {
    if (i > 0) out.push_back(',');
    put_pixels(out, detection.box[i]);
  }
  put(out, "],\"keypoints\":[");
  for (int k = 0; k < detection.keypoint_count; ++k) {
    put(out, k > 0 ? ",[" : "[");
    put_pixels(out, detection.keypoints[k][0]);
    out.push_back(',');
    put_pixels(out, detection.keypoints[k][1]);
    out.push_back(']');
  }
  put(out, "]}");
}

void put_event(Buffer& out, const camd_event& event) {
  put(out, "{\"name\":");
  put_string(out, event.name);
  if (event.track_id != 0) fmt::format_to(std::back_inserter(out), FMT_COMPILE(",\"track_id\":{}"), event.track_id);
  if (event.zone[0] != '\0') {
    put(out, ",\"zone\":");
    put_string(out, event.zone);
  }
  for (int i = 0; i < event.number_count; ++i) {
    put(out, i > 0 ? "," : ",\"numbers\":{");
    put_string(out, event.numbers[i].name);
    fmt::format_to(std::back_inserter(out), FMT_COMPILE(":{}"), event.numbers[i].value);
  }
  put(out, event.number_count > 0 ? "}}" : "}");
}

class Jsonl final : public camd::plugin::Postprocessor {
 public:
  Jsonl(camd::plugin::Host host, std::string_view config_json) : host_(host), events_(host.events()) {
    JsonObject config("config", config_json);
    const auto path = config.text("path");
    if (!config.has("path") || (path && path->empty())) {
      config.fail("path", "is needed: the file to write, e.g. out/detections.jsonl");
    }
    path_ = path.value_or("");
    if (const std::string problem = time_problem(path_); !problem.empty()) config.fail("path", problem);
    append_ = config.boolean("append").value_or(true);
    config.finish();
    line_.reserve(kLineBytes);
    if (path_ == "-") {
      throw std::invalid_argument("config.path: '-' is stdout, which carries the metrics: name a file");
    }
    // Without a camera in its name there is one file: opened now, so that the reason is said as early as can be.
    if (path_.find("{camera}") == std::string::npos)
      files_.push_back(std::make_unique<LineFile>(path_, append_, host_.reloads()));
  }

  void outputs(const camd_model& model, camd::plugin::Needs& needs) override {
    static_cast<void>(needs);  // reads `results` alone
    per_camera_ = files_.empty();
    if (!per_camera_) return;
    for (const std::string& part : camera_parts(model)) {
      if (part.empty()) {  // nobody has that place
        files_.push_back(nullptr);
        continue;
      }
      files_.push_back(std::make_unique<LineFile>(camera_path(path_, part, true), append_, host_.reloads()));
    }
  }

  void process(const camd_frame& frame, const camd::plugin::Tensors& tensors, camd::plugin::Results& results) override {
    static_cast<void>(tensors);
    const std::int64_t now_ns = host_.now_mono_ns();
    line_.clear();
    put(line_, "{\"camera\":");
    put_string(line_, frame.camera);
    fmt::format_to(std::back_inserter(line_), FMT_COMPILE(",\"seq\":{},\"captured_mono_ns\":{},\"time\":"),
                   frame.sequence, frame.captured_mono_ns);
    put_time(line_, frame.captured_unix_ns);
    fmt::format_to(std::back_inserter(line_),
                   FMT_COMPILE(",\"latency_us\":{},\"captured_uncertainty_us\":{},\"width\":{},\"height\":{},"
                               "\"detections\":["),
                   (now_ns - frame.captured_mono_ns) / 1000, uncertainty_us(frame), frame.width, frame.height);
    bool first = true;
    for (const camd_detection& detection : results) {
      if (!first) line_.push_back(',');
      first = false;
      put_detection(line_, detection);
    }
    put(line_, "]");
    first = true;
    for (const camd_event& event : events_) {
      put(line_, first ? ",\"events\":[" : ",");
      first = false;
      put_event(line_, event);
    }
    put(line_, first ? "}\n" : "]}\n");
    LineFile& file = *files_.at(per_camera_ ? static_cast<std::size_t>(frame.camera_index) : 0);
    if (const std::string told = file.follow(now_ns); !told.empty()) host_.log(CAMD_LOG_WARN, "jsonl: " + told);
    file.append(std::string_view(line_.data(), line_.size()));
  }

  void reopen() override {
    std::string problems;
    for (const auto& file : files_) {
      try {
        if (file) file->reopen();
      } catch (const std::exception& problem) {
        problems += (problems.empty() ? "" : "; ") + std::string(problem.what());
      }
    }
    if (!problems.empty()) throw std::runtime_error(problems);
  }

  void finish() override {
    for (const auto& file : files_) {
      if (file) file->close();
    }
  }

  std::unique_ptr<Camera> open_camera(int /*index*/, const char* name) override {
    if (!per_camera_) return nullptr;
    auto opened = std::make_unique<OneFile>();
    opened->file = std::make_unique<LineFile>(camera_path(path_, file_part(name), true), append_, host_.reloads());
    return opened;
  }
  std::unique_ptr<Camera> exchange_camera(int index, std::unique_ptr<Camera> camera) noexcept override {
    if (!per_camera_) return camera;
    const auto place = static_cast<std::size_t>(index);
    if (files_.size() <= place) files_.resize(place + 1);
    auto before = std::make_unique<OneFile>();
    before->file = std::move(files_[place]);
    if (camera) files_[place] = std::move(static_cast<OneFile&>(*camera).file);
    return before;
  }

 private:
  struct OneFile final : Camera {
    void finish() override {
      if (file) file->close();
    }
    std::unique_ptr<LineFile> file;
  };

  camd::plugin::Host host_;
  camd::plugin::Events events_;
  std::string path_;
  bool append_ = true;
  bool per_camera_ = false;
  std::vector<std::unique_ptr<LineFile>> files_;  // one, or one per camera
  Buffer line_;
};

}  // namespace

const camd_plugin* jsonl_table() noexcept {
  static constexpr camd_plugin kTable =
      camd::plugin::make_table<Jsonl>("jsonl", "1.0.0", "writes one JSON object per frame into a file");
  return &kTable;
}

}  // namespace camd::plugins
