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

// Room for the longest line there can be, or nearly: a frame with more detections than any before costs no allocation.
// Memory that no line reaches is never touched.
constexpr std::size_t kLineBytes = std::size_t{1} << 19U;

void put(Buffer& out, std::string_view text) { out.append(text.data(), text.data() + text.size()); }

// A JSON string (RFC 8259, section 7). Bytes above 0x7F pass as they are: names are UTF-8.
void put_string(Buffer& out, std::string_view text) {
  out.push_back('"');
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (byte < 0x20U) {
      fmt::format_to(std::back_inserter(out), FMT_COMPILE("\\u{:04x}"), byte);
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

// Pixels to a hundredth: finer than any detector, and a third of the bytes.
void put_pixels(Buffer& out, float value) {
  const double rounded = std::round(static_cast<double>(value) * 100.0) / 100.0;
  fmt::format_to(std::back_inserter(out), FMT_COMPILE("{}"), rounded == 0.0 ? 0.0 : rounded);
  // fmt writes 12.0 as "12": a number all the same.
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

class Jsonl final : public camd::plugin::Postprocessor {
 public:
  Jsonl(camd::plugin::Host host, std::string_view config_json) : host_(host) {
    JsonObject config("config", config_json);
    const auto path = config.text("path");
    if (!config.has("path") || (path && path->empty())) {
      config.fail("path", "is needed: the file to write, e.g. out/detections.jsonl");
    }
    path_ = path.value_or("");
    append_ = config.boolean("append").value_or(false);
    config.finish();
    line_.reserve(kLineBytes);
    if (path_ == "-") {
      throw std::invalid_argument("config.path: '-' is stdout, which carries the metrics: name a file");
    }
    // Without a camera in its name there is one file: opened now, so that the reason is said as early as can be.
    if (path_.find("{camera}") == std::string::npos) files_.push_back(std::make_unique<LineFile>(path_, append_));
  }

  void outputs(const camd_model& model, camd::plugin::Needs& needs) override {
    static_cast<void>(needs);  // reads `results` alone
    per_camera_ = files_.empty();
    if (!per_camera_) return;
    for (const std::string& part : camera_parts(model)) {
      files_.push_back(std::make_unique<LineFile>(camera_path(path_, part, true), append_));
    }
  }

  void process(const camd_frame& frame, const camd::plugin::Tensors& tensors, camd::plugin::Results& results) override {
    static_cast<void>(tensors);
    line_.clear();
    put(line_, "{\"camera\":");
    put_string(line_, frame.camera);
    fmt::format_to(std::back_inserter(line_), FMT_COMPILE(",\"seq\":{},\"captured_mono_ns\":{},\"time\":"),
                   frame.sequence, frame.captured_mono_ns);
    put_time(line_, frame.captured_unix_ns);
    fmt::format_to(std::back_inserter(line_),
                   FMT_COMPILE(",\"latency_us\":{},\"width\":{},\"height\":{},\"detections\":["),
                   (host_.now_mono_ns() - frame.captured_mono_ns) / 1000, frame.width, frame.height);
    bool first = true;
    for (const camd_detection& detection : results) {
      if (!first) line_.push_back(',');
      first = false;
      put_detection(line_, detection);
    }
    put(line_, "]}\n");
    LineFile& file = *files_.at(per_camera_ ? static_cast<std::size_t>(frame.camera_index) : 0);
    file.append(std::string_view(line_.data(), line_.size()));
  }

  void finish() override {
    for (const auto& file : files_) file->close();
  }

 private:
  camd::plugin::Host host_;
  std::string path_;
  bool append_ = false;
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
