// The settings of camd as plain structs: what the YAML file says, checked, with defaults filled in.
//
// Threads: plain values; written once by load(), read by [any].
// Invariants of a Config that came from load(): every value is inside its declared range, camera names are unique,
// there is at least one camera (but in a shard, see shard.hpp), paths are resolved (relative ones against the
// configuration file's folder).
// The initialisers below repeat the defaults of the key table (config/key_table.hpp); a test compares the two.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/picture.hpp"
#include "config/model_card.hpp"
#include "config/place.hpp"

namespace camd::config {

using base::Duration;

enum class DeviceKind { kAuto, kCuda, kHost };

struct DeviceChoice {
  DeviceKind kind = DeviceKind::kAuto;
  int index = -1;  // the N of cuda:N; -1: not said, the first usable one

  friend bool operator==(const DeviceChoice&, const DeviceChoice&) = default;
};

enum class EngineChoice { kAuto, kCuda, kCpu, kOpencv };
enum class Precision { kAuto, kF16, kBf16, kTf32, kF32 };
enum class TransferMode { kAuto, kPinned, kDirect, kMapped, kPageable };
enum class StreamMode { kSplit, kPerFrame, kSingle };
enum class RtspTransport { kTcp, kUdp };
enum class DecodeMode { kAuto, kGpu, kCpu };
enum class DamagedMode { kKeep, kDrop };
enum class Isolation { kProcess, kNone };
enum class Instances { kShared, kCamera };
enum class OnFailure { kDropFrames, kPassThrough, kStop };

// The spelling of the configuration file.
[[nodiscard]] std::string to_string(const DeviceChoice& device);
[[nodiscard]] std::string_view to_string(EngineChoice engine) noexcept;
[[nodiscard]] std::string_view to_string(Precision precision) noexcept;
[[nodiscard]] std::string_view to_string(TransferMode mode) noexcept;
[[nodiscard]] std::string_view to_string(StreamMode mode) noexcept;
[[nodiscard]] std::string_view to_string(RtspTransport transport) noexcept;
[[nodiscard]] std::string_view to_string(DecodeMode mode) noexcept;
[[nodiscard]] std::string_view to_string(DamagedMode mode) noexcept;
[[nodiscard]] std::string_view to_string(Isolation isolation) noexcept;
[[nodiscard]] std::string_view to_string(Instances instances) noexcept;
[[nodiscard]] std::string_view to_string(OnFailure choice) noexcept;

struct Model {
  std::filesystem::path path;                   // the ONNX file
  std::optional<std::filesystem::path> card{};  // the model card that was read, asked for or found beside the model
  std::string card_json = "{}";                 // the card's keys for the plug-in `detections`, as one JSON object
  EngineChoice engine = EngineChoice::kAuto;
  Precision precision = Precision::kAuto;
  // What the file says, completed from the card. Empty: neither says it, the model or the engine decides.
  std::vector<std::string> cut_at{};  // tensors that become the model's outputs
  ModelInput input{};

  friend bool operator==(const Model&, const Model&) = default;
};

struct PipelineOptions {
  int slots = 3;  // of a camera's ring
  TransferMode transfer = TransferMode::kAuto;
  StreamMode streams = StreamMode::kSplit;
  Duration max_age = std::chrono::milliseconds(200);

  friend bool operator==(const PipelineOptions&, const PipelineOptions&) = default;
};

// How a live source comes back: common to v4l2, rtsp and gstreamer.
struct Recovery {
  Duration timeout = std::chrono::seconds(5);  // no frame for so long: stalled, the source is opened anew
  Duration reconnect_initial = std::chrono::milliseconds(500);  // wait before the first attempt; doubles each time
  Duration reconnect_max = std::chrono::milliseconds(1500);     // longest wait between two attempts

  friend bool operator==(const Recovery&, const Recovery&) = default;
};

struct FileSource {
  std::filesystem::path path;
  bool loop = false;
  bool realtime = true;  // false: as fast as the pipeline takes it, nothing is dropped

  friend bool operator==(const FileSource&, const FileSource&) = default;
};

struct V4l2Source {
  std::filesystem::path device = "/dev/video0";
  int width = 1280;   // px
  int height = 720;   // px
  double fps = 30.0;  // frames a second
  Recovery recovery{};

  friend bool operator==(const V4l2Source&, const V4l2Source&) = default;
};

struct RtspSource {
  std::string url;
  Duration latency = std::chrono::milliseconds(50);  // of the jitter buffer
  RtspTransport transport = RtspTransport::kTcp;
  Recovery recovery{};

  friend bool operator==(const RtspSource&, const RtspSource&) = default;
};

struct GStreamerSource {
  std::string pipeline;  // gst-launch text without its sink
  Recovery recovery{};

  friend bool operator==(const GStreamerSource&, const GStreamerSource&) = default;
};

// Deterministic pictures whose pixels carry the sequence number.
struct TestSource {
  int width = 1280;   // px
  int height = 720;   // px
  double fps = 30.0;  // frames a second
  base::PixelFormat format = base::PixelFormat::kBgr;
  std::int64_t frames = 0;  // 0: endless
  bool realtime = true;     // false: as fast as the pipeline takes it, nothing is dropped

  friend bool operator==(const TestSource&, const TestSource&) = default;
};

using Source = std::variant<FileSource, V4l2Source, RtspSource, GStreamerSource, TestSource>;

// file | v4l2 | rtsp | gstreamer | test
[[nodiscard]] std::string_view type_name(const Source& source) noexcept;

// Lets the frames through whose picture changed (capture/motion_gate.hpp).
struct MotionGate {
  int threshold = 4;                                  // grey levels
  std::vector<std::array<double, 2>> region{};        // corners, as shares of the picture; empty: all of it
  Duration longest = std::chrono::milliseconds(500);  // pause between two frames that pass

  friend bool operator==(const MotionGate&, const MotionGate&) = default;
};

struct Camera {
  std::string name;
  Source source;
  // Where `source:` stands and its dotted key, so that capture can say what cannot be opened, by
  // located(camera.place, camera.key, message).
  SourcePlace place{};
  std::string key{};
  int max_megapixels = 64;  // of a picture; a megapixel is 1,000,000 pixels
  DecodeMode decode = DecodeMode::kAuto;
  DamagedMode damaged = DamagedMode::kKeep;  // what becomes of pictures that came in part
  std::optional<MotionGate> gate{};          // none: every frame passes

  // Where its compressed pictures may be decoded: a gate looks at them in the CPU's memory.
  [[nodiscard]] DecodeMode decodes() const noexcept { return gate ? DecodeMode::kCpu : decode; }

  // True for the same camera with the same settings. Its place in the file does not count.
  friend bool operator==(const Camera& a, const Camera& b) {
    return a.name == b.name && a.source == b.source && a.max_megapixels == b.max_megapixels && a.decode == b.decode &&
           a.damaged == b.damaged && a.gate == b.gate;
  }
};

struct Postprocessor {
  std::string plugin;  // a built-in's name, or the path of a .so or .py (then it contains a '/')
  // The `config:` block as one JSON object ("{}" when absent), for the plug-in to read and check.
  std::string config_json = "{}";
  // Where the entry stands and its dotted key, for located().
  SourcePlace place{};
  std::string key{};
  Isolation isolation = Isolation::kNone;  // not written: process for a path
  Instances instances = Instances::kShared;
  std::string worker{};  // of whom it shares the process; empty: it has its own
  Duration deadline = std::chrono::seconds(1);
  std::int64_t memory_bytes = std::int64_t{2} << 30;
  std::int64_t nice = 0;  // of its process
  OnFailure on_failure = OnFailure::kDropFrames;
  std::vector<std::string> allow{};  // "network", "files: PATH"
  std::string python{};              // the interpreter; empty: python3

  friend bool operator==(const Postprocessor& a, const Postprocessor& b) {
    return a.plugin == b.plugin && a.config_json == b.config_json && a.isolation == b.isolation &&
           a.instances == b.instances && a.nice == b.nice && a.worker == b.worker && a.deadline == b.deadline &&
           a.memory_bytes == b.memory_bytes && a.on_failure == b.on_failure && a.allow == b.allow &&
           a.python == b.python;
  }
};

struct Metrics {
  Duration period = std::chrono::seconds(1);

  friend bool operator==(const Metrics&, const Metrics&) = default;
};

// The HTTP server: figures, health and pictures for other programs, and the live page.
struct Http {
  std::string listen{};  // an address and a port, as parse_endpoint() takes it; empty: there is no server
  std::string token{};   // empty: none is asked for; then `listen` is an address of this machine alone

  friend bool operator==(const Http&, const Http&) = default;
};

// Which part of the file's cameras `cameras` has: see shard.hpp.
struct Shard {
  int index = 0;  // 0 to count - 1
  int count = 1;  // 1: all of them
  friend bool operator==(const Shard&, const Shard&) = default;
};

struct Config {
  DeviceChoice device;
  // Instead of `device`: every GPU, or those that are named, each as often as it is named. Neither: `device` counts.
  bool all_devices = false;
  std::vector<DeviceChoice> devices;
  Model model;
  PipelineOptions pipeline;
  std::vector<Camera> cameras;
  std::vector<Postprocessor> postprocess;
  Metrics metrics;
  Http http;
  Shard shard;
  std::size_t cameras_in_file = 0;  // of all shards

  // Where each value stands, by dotted key ("cameras.0.source.path", "postprocess.1.config.path"). Values that the
  // user did not write are absent, those that came from the model card or from --set carry that place.
  std::map<std::string, SourcePlace, std::less<>> places;
  // The file itself: the place of last resort.
  SourcePlace file;

  // The place of `key` or, when the user did not write it, of the nearest enclosing key.
  [[nodiscard]] const SourcePlace& place_of(std::string_view key) const;
  // "FILE:LINE:COL: KEY: message", for rooms that find out later that a value cannot be used.
  [[nodiscard]] std::string at(std::string_view key, std::string_view message) const;
  // The same as an exception: throw config.error(base::ErrorKind::kModel, "model.path", "...").
  [[nodiscard]] base::Error error(base::ErrorKind kind, std::string_view key, std::string_view message) const;
};

// The effective configuration, every value spelled out, as JSON (which is YAML: load_text() reads it back).
// The same settings give the same text, whatever the order or the comments of the file were.
[[nodiscard]] std::string effective_text(const Config& config);
// 64 hexadecimal digits: SHA-256 of effective_text() and, where there is a model card, of its keys for `detections`.
[[nodiscard]] std::string effective_sha256(const Config& config);

}  // namespace camd::config
