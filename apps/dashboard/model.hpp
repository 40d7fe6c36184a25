// What the dashboard knows: the newest values of every metrics line (docs/metrics.md), a short history, and
// what could not be understood.
//
// Threads: a plain object without a lock; its owner serialises feed() and the reads.
// Invariants: every string kept here is printable() and bounded, numbers are finite, and memory is bounded
// whatever is fed (cameras, plug-ins, history, changes and log lines each have a limit). feed() never throws on input.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace camd::dashboard {

enum Stage : std::size_t { kTotal, kCapture, kQueue, kH2d, kPreprocess, kInfer, kD2h, kPostprocess, kStageCount };
[[nodiscard]] std::string_view stage_name(std::size_t stage) noexcept;

// The reasons of the interface, and "other" for reasons this dashboard does not know yet.
inline constexpr std::size_t kDropReasons = 8;
[[nodiscard]] std::string_view drop_reason(std::size_t reason) noexcept;
// False for what a camera's gate holds back on purpose.
[[nodiscard]] bool is_loss(std::size_t reason) noexcept;

// Percentiles of one stage over one period, in microseconds. Meaningful when count > 0.
struct Latency {
  std::uint64_t count = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double p999 = 0;
  double max = 0;
};

struct Totals {
  std::uint64_t captured = 0;
  std::uint64_t delivered = 0;
  std::uint64_t in_flight = 0;
  std::array<std::uint64_t, kDropReasons> dropped{};

  [[nodiscard]] std::uint64_t dropped_sum() const noexcept;
  [[nodiscard]] std::uint64_t lost_sum() const noexcept;  // dropped, and no gate wanted it
  // True when captured == delivered + dropped + in flight, as every line promises.
  [[nodiscard]] bool balanced() const noexcept { return captured == delivered + dropped_sum() + in_flight; }
};

// What one frame of a camera showed, and what was counted there until then.
struct Seen {
  struct Place {
    std::string name;
    double first = 0;   // of a zone: inside; of a line: in
    double second = 0;  // of a zone: entered; of a line: out
  };
  double detections = 0;
  double tracks = 0;
  std::vector<std::string> texts;
  std::vector<Place> zones, lines;
};

struct Camera {
  std::string name;
  std::string state;
  std::string device;  // empty: not told
  double period_s = 0;
  Totals totals;
  std::uint64_t newly_dropped = 0;  // lost since the line before
  double dropped_lately = 0;        // those of the last lines: each counts four fifths of the one after it
  double fps_captured = -1;         // negative: not told
  double fps_delivered = -1;
  std::array<Latency, kStageCount> latency{};
  double h2d_bytes_per_frame = -1;
  double d2h_bytes_per_frame = -1;
  std::deque<double> p99_history;  // of total, us, a value per period, oldest first; negative: no frame
  std::optional<Seen> seen;        // nothing: no frame in the last period, or not told
  double worst_p99 = -1;           // of total, us: the worst period
  double worst_max = -1;           // of total, us: the slowest frame
};

struct Process {
  double cpu_percent = -1;  // 100 is one core; negative: not told
  double rss_bytes = -1;
  double gpu_memory_bytes = -1;
  double threads = -1;
  double allocations_per_frame = -1;
};

// One of the devices that compute frames.
struct Device {
  std::string name;     // cuda:0
  std::string product;  // NVIDIA H200
  std::string state;
  double cameras = -1;  // negative: not told, as in all that follow
  double fps = -1;
  double busy_percent = -1;
  double load_percent = -1;
  double memory_bytes = -1;
};

// One plug-in of the chain, with the numbers of its own.
struct Plugin {
  struct Number {
    std::string name;
    double value = 0;
  };
  std::uint64_t index = 0;  // its place in the chain
  std::string name;
  std::vector<Number> numbers;  // by name
};

// A change of state of a camera or of the device.
struct Change {
  std::string clock;  // 12:34:56, as the line's time says
  std::string who;
  std::string from;  // the state before, when it is known
  std::string to;
  std::string reason;
};

class Model {
 public:
  static constexpr std::size_t kMaxCameras = 4096;  // as many as a configuration may have
  static constexpr std::size_t kMaxPlugins = 64;
  static constexpr std::size_t kMaxDevices = 16;
  static constexpr std::size_t kMaxNumbers = 32;  // of a plug-in
  static constexpr std::size_t kMaxSeen = 32;     // texts, zones, and lines of a camera
  static constexpr std::size_t kMaxHistory = 240;
  static constexpr std::size_t kMaxChanges = 64;
  static constexpr std::size_t kMaxLogs = 200;

  // Takes one line of metrics. False when it changed nothing: junk, an unknown event, another schema, empty.
  bool feed(std::string_view line);
  // Takes a log line (any bytes).
  void add_log(std::string_view line);

  // From the start line; empty until it came. A second start line begins a new run and clears the old one.
  [[nodiscard]] bool started() const noexcept { return started_; }
  [[nodiscard]] const std::string& version() const noexcept { return version_; }
  [[nodiscard]] const std::string& device() const noexcept { return device_; }
  [[nodiscard]] const std::string& engine() const noexcept { return engine_; }
  [[nodiscard]] const std::string& model() const noexcept { return model_; }  // the file's name without folders
  [[nodiscard]] const std::string& transfer() const noexcept { return transfer_; }
  [[nodiscard]] const std::string& streams() const noexcept { return streams_; }

  [[nodiscard]] const std::vector<Camera>& cameras() const noexcept { return cameras_; }  // in order of appearance
  [[nodiscard]] const std::vector<Plugin>& plugins() const noexcept { return plugins_; }  // in the chain's order
  [[nodiscard]] const std::vector<Device>& devices() const noexcept { return devices_; }  // of the last process line
  [[nodiscard]] const Process& process() const noexcept { return process_; }
  [[nodiscard]] const std::deque<Change>& changes() const noexcept { return changes_; }  // oldest first
  [[nodiscard]] const std::deque<std::string>& logs() const noexcept { return logs_; }   // oldest first

  [[nodiscard]] bool stopped() const noexcept { return stopped_; }
  [[nodiscard]] std::optional<int> exit_code() const noexcept { return exit_code_; }  // of the stop line
  [[nodiscard]] const std::string& stop_reason() const noexcept { return stop_reason_; }
  [[nodiscard]] std::int64_t uptime_ns() const noexcept { return last_ns_ - first_ns_; }

  [[nodiscard]] std::uint64_t lines() const noexcept { return lines_; }      // understood
  [[nodiscard]] std::uint64_t periods() const noexcept { return periods_; }  // process lines: a period's end
  [[nodiscard]] std::uint64_t junk_lines() const noexcept { return junk_; }
  [[nodiscard]] std::uint64_t unknown_events() const noexcept { return unknown_; }
  [[nodiscard]] std::uint64_t foreign_lines() const noexcept { return foreign_; }  // of another schema
  // One sentence about input that was not understood; empty when all was.
  [[nodiscard]] std::string problem() const;

 private:
  using Json = nlohmann::json;

  void on_start(const Json& line);
  bool on_camera(const Json& line);
  bool on_plugin(const Json& line);
  bool on_outlet(const Json& line);
  void on_process(const Json& line);
  void on_state(const Json& line);
  void on_reload(const Json& line);
  void take_way(const Json& line);
  void on_stop(const Json& line);
  Camera* camera_named(const std::string& name);
  void take_totals(Camera& camera, const Json& totals);

  bool started_ = false;
  bool stopped_ = false;
  bool timed_ = false;
  std::optional<int> exit_code_;
  std::string version_, device_, engine_, model_, transfer_, streams_, stop_reason_;
  std::int64_t first_ns_ = 0;
  std::int64_t last_ns_ = 0;
  std::vector<Camera> cameras_;
  std::unordered_map<std::string, std::size_t> places_;  // of cameras_, by name
  std::vector<Device> devices_;
  std::vector<Plugin> plugins_;
  Process process_;
  std::deque<Change> changes_;
  std::deque<std::string> logs_;
  std::uint64_t lines_ = 0;
  std::uint64_t periods_ = 0;
  std::uint64_t junk_ = 0;
  std::uint64_t unknown_ = 0;
  std::uint64_t foreign_ = 0;
  std::string foreign_schema_;
};

// The mono_ns of a metrics line without reading the rest; nothing when it has none. For replaying.
[[nodiscard]] std::optional<std::int64_t> mono_ns_of(std::string_view line);

}  // namespace camd::dashboard
