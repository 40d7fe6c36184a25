// Each kind of metrics line as JSON.
#include "pipeline/run/metrics_lines.hpp"

#include <fmt/chrono.h>
#include <fmt/compile.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/secrets.hpp"

namespace camd::pipeline {
namespace {

using Json = nlohmann::ordered_json;

std::string rfc3339_now() {
  const auto now = std::chrono::system_clock::now();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(now)), ms);
}

Json common(const char* event, base::TimePoint now) {
  return Json{{"event", event}, {"schema", 1}, {"time", rfc3339_now()}, {"mono_ns", base::to_ns(now)}};
}

// Names come from users and models: what is not UTF-8 is replaced, never thrown at.
std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

double rounded(double value, double steps_per_unit) { return std::round(value * steps_per_unit) / steps_per_unit; }

Json totals_json(const Totals& totals) {
  Json dropped = Json::object();
  for (int i = 0; i < kDropReasonCount; ++i) {
    dropped[std::string(to_string(static_cast<DropReason>(i)))] = totals.dropped[static_cast<std::size_t>(i)];
  }
  return Json{{"captured", totals.captured},
              {"delivered", totals.delivered},
              {"in_flight", totals.in_flight},
              {"dropped", std::move(dropped)}};
}

Json tensors_json(const std::vector<infer::TensorSpec>& tensors) {
  Json list = Json::array();
  for (const infer::TensorSpec& tensor : tensors) {
    list.push_back(Json{{"name", tensor.name}, {"shape", tensor.shape}, {"type", infer::to_string(tensor.type)}});
  }
  return list;
}

// What computes the frames, and how they get there.
void put_way(const StartLine& line, Json& json) {
  const StartLine::Device& first = line.devices.front();
  json["device"] = first.name;
  json["engine"] = line.engine;
  json["model"] = Json{{"path", line.model.path},
                       {"sha256", line.model.sha256},
                       {"inputs", tensors_json(line.inputs)},
                       {"outputs", tensors_json(line.outputs)}};
  json["transfer"] = first.transfer;
  json["streams"] = first.streams;
  json["choice"] = first.choice;
  Json& devices = json["devices"] = Json::array();
  for (const StartLine::Device& device : line.devices) {
    devices.push_back(Json{{"device", device.device},
                           {"name", device.name},
                           {"transfer", device.transfer},
                           {"streams", device.streams},
                           {"choice", device.choice},
                           {"in_flight", device.in_flight}});
    if (device.frames_per_second > 0) devices.back()["frames_per_second"] = std::round(device.frames_per_second);
  }
}

// Lists and objects that would be empty are left out: most cameras have neither codes nor zones.
Json seen_json(const Sight& seen) {
  Json json{{"detections", seen.detections}, {"tracks", seen.tracks}};
  if (!seen.texts.empty()) json["texts"] = seen.texts;
  for (const Sight::Zone& zone : seen.zones) {
    json["zones"][zone.name] = Json{{"inside", zone.inside}, {"entered", zone.entered}};
  }
  for (const Sight::Gate& gate : seen.lines) json["lines"][gate.name] = Json{{"in", gate.in}, {"out", gate.out}};
  return json;
}

}  // namespace

std::string start_line(const StartLine& line, base::TimePoint now) {
  Json json = common("start", now);
  json["version"] = line.version;
  put_way(line, json);
  json["config_sha256"] = line.config_sha256;
  if (line.shard.count > 1) {
    json["shard"] = Json{{"index", line.shard.index},
                         {"count", line.shard.count},
                         {"cameras", line.cameras},
                         {"cameras_in_file", line.cameras_in_file}};
  }
  return dump(json);
}

namespace {

// Lines of cameras are written as text, by formats that the compiler has read: one for each camera and period, they are
// most of what metrics cost.
class TextWriter {
 public:
  template <class Format, class... Values>
  void add(Format format, const Values&... values) {
    fmt::format_to(fmt::appender(text_), format, values...);
  }
  void camera(const CameraNow& now) {
    add(FMT_COMPILE(R"("camera":{},"state":{})"), dump(now.camera), dump(now.state));
    if (!now.device.empty()) add(FMT_COMPILE(R"(,"device":{})"), dump(now.device));
  }
  void totals(const Totals& totals) {
    add(FMT_COMPILE(R"(,"totals":{{"captured":{},"delivered":{},"in_flight":{},"dropped":{{)"), totals.captured,
        totals.delivered, totals.in_flight);
    for (std::size_t i = 0; i < totals.dropped.size(); ++i) {
      add(FMT_COMPILE(R"({}"{}":{})"), i == 0 ? "" : ",", to_string(static_cast<DropReason>(i)), totals.dropped[i]);
    }
    add(FMT_COMPILE("}}}}"));
  }
  void origin(const CameraNow& now) {
    add(FMT_COMPILE(R"(,"clock":{{"source":"{}","offset_us":{},"drift_ppm":{:.1f},"uncertainty_us":{},"steps":{}}})"),
        capture::to_string(now.clock.source), now.clock.offset.count() / 1000, now.clock.drift_ppm,
        now.clock.uncertainty.count() / 1000, now.clock.steps);
    add(FMT_COMPILE(R"(,"upstream":{{"packets_lost":{},"frames_damaged":{},"frames_missing":{}}})"),
        now.upstream.packets_lost, now.upstream.frames_damaged, now.upstream.frames_missing);
    add(FMT_COMPILE(R"(,"copied_bytes":{})"), now.copied_bytes);
    if (!now.decoder.name.empty()) {
      add(FMT_COMPILE(R"(,"decoder":{{"name":{},"device":{}}})"), dump(now.decoder.name), dump(now.decoder.device));
    }
  }
  void latency(std::string_view stage, const LatencySummary& of) {
    add(FMT_COMPILE(R"("{}":{{"count":{},"p50":)"), stage, of.count);
    tenths(of.p50);
    add(FMT_COMPILE(R"(,"p90":)"));
    tenths(of.p90);
    add(FMT_COMPILE(R"(,"p99":)"));
    tenths(of.p99);
    add(FMT_COMPILE(R"(,"p999":)"));
    tenths(of.p999);
    add(FMT_COMPILE(R"(,"max":)"));
    tenths(of.max);
    add(FMT_COMPILE("}}"));
  }
  [[nodiscard]] std::string text() const { return fmt::to_string(text_); }

 private:
  // A number of 0 or more with one decimal: as integers, which takes less than half the time of a double.
  void tenths(double value) {
    const long long number = std::llround(value * 10);
    add(FMT_COMPILE("{}.{}"), number / 10, number % 10);
  }

  fmt::memory_buffer text_;
};

}  // namespace

std::string camera_line(const CameraLine& line, base::TimePoint now) {
  TextWriter text;
  text.add(FMT_COMPILE(R"({{"event":"camera","schema":1,"time":"{}","mono_ns":{},)"), rfc3339_now(), base::to_ns(now));
  text.camera(line);
  text.add(FMT_COMPILE(R"(,"period_s":{})"), rounded(line.period_s, 1e6));
  text.totals(line.totals);
  text.add(FMT_COMPILE(R"(,"fps":{{"captured":{:.2f},"delivered":{:.2f}}},"latency_us":{{)"), line.captured_fps,
           line.delivered_fps);
  for (std::size_t i = 0; i < kStageCount; ++i) {
    if (i > 0) text.add(FMT_COMPILE(","));
    text.latency(to_string(static_cast<Stage>(i)), line.metrics.latency[i]);
  }
  text.add(FMT_COMPILE(R"(}},"bytes_per_frame":{{"h2d":{},"d2h":{}}})"), std::llround(line.metrics.h2d_bytes_per_frame),
           std::llround(line.metrics.d2h_bytes_per_frame));
  text.origin(line);
  if (line.seen) text.add(FMT_COMPILE(R"(,"seen":{})"), dump(seen_json(*line.seen)));
  text.add(FMT_COMPILE("}}"));
  return text.text();
}

std::string camera_json(const CameraNow& camera) {
  TextWriter text;
  text.add(FMT_COMPILE("{{"));
  text.camera(camera);
  if (!camera.reason.empty()) text.add(FMT_COMPILE(R"(,"reason":{})"), dump(base::without_secrets(camera.reason)));
  text.totals(camera.totals);
  text.origin(camera);
  text.add(FMT_COMPILE("}}"));
  return text.text();
}

std::string plugin_line(std::size_t index, const PluginNumbers& plugin, base::TimePoint now) {
  Json json = common("plugin", now);
  json["name"] = plugin.name;
  json["index"] = index;
  Json counters = Json::object();
  for (const CounterValue& counter : plugin.counters) {
    Json& value = counters[std::string(counter.name)];
    if (counter.kind == CAMD_GAUGE) {
      value = counter.level;
    } else {
      value = counter.count;
    }
  }
  json["counters"] = std::move(counters);
  const auto tell = [](Json& to, const PluginHealth& health) {
    to["state"] = health.state;
    to["restarts"] = health.restarts;
    to["frames_lost"] = health.frames_lost;
    to["deadline_missed"] = health.deadline_missed;
    to["bytes_copied"] = health.bytes_copied;
    to["last_error"] = base::without_secrets(health.last_error);
  };
  if (plugin.health.isolated) tell(json, plugin.health);
  for (const CameraHealth& one : plugin.cameras) {
    Json camera{{"camera", one.camera}};
    tell(camera, one.health);
    json["cameras"].push_back(std::move(camera));
  }
  return dump(json);
}

std::string outlet_line(std::size_t index, std::string_view name, const OutletRow& row, base::TimePoint now) {
  Json json = common("outlet", now);
  json["name"] = name;
  json["index"] = index;
  json["camera"] = row.camera;
  json["taken"] = row.taken;
  json["acknowledged"] = row.acknowledged;
  json["waiting"] = row.waiting;
  json["spooled"] = row.spooled;
  Json dropped = Json::object();
  for (const auto& [reason, count] : row.dropped) dropped[reason] = count;
  json["dropped"] = std::move(dropped);
  return dump(json);
}

std::string process_line(const ProcessStats& stats, const std::vector<LaneView>& lanes, base::TimePoint now) {
  Json json = common("process", now);
  json["cpu_percent"] = rounded(stats.cpu_percent, 10);
  json["rss_bytes"] = stats.rss_bytes;
  std::size_t gpu_memory_bytes = 0;
  for (const LaneView& lane : lanes) gpu_memory_bytes += lane.memory_bytes;
  json["gpu_memory_bytes"] = gpu_memory_bytes;
  json["threads"] = stats.threads;
  Json& devices = json["devices"] = Json::array();
  for (const LaneView& lane : lanes) {
    devices.push_back(Json{{"device", lane.name},
                           {"name", lane.device},
                           {"state", lane.lost ? "lost" : "running"},
                           {"cameras", lane.cameras},
                           {"fps", rounded(lane.completed, 100)},
                           {"busy_percent", rounded(100 * lane.busy, 10)},
                           {"load_percent", rounded(100 * lane.load, 10)},
                           {"memory_bytes", lane.memory_bytes}});
  }
  return dump(json);
}

std::string state_line(const std::string& what, const std::string& name, const std::string& state,
                       const std::string& reason, base::TimePoint now) {
  Json json = common("state", now);
  json[what] = name;
  json["state"] = state;
  json["reason"] = base::without_secrets(reason);
  return dump(json);
}

std::string reload_line(const ReloadLine& line, base::TimePoint now) {
  Json json = common("reload", now);
  json["result"] = line.errors.empty() ? "accepted" : "refused";
  json["changed"] = line.changed;
  json["duration_us"] = line.duration.count() / 1000;
  json["errors"] = Json::array();
  for (const std::string& error : line.errors) json["errors"].push_back(base::without_secrets(error));
  if (line.start) put_way(*line.start, json);
  json["config_sha256"] = line.config_sha256;
  return dump(json);
}

std::string stop_line(const StopLine& line, base::TimePoint now) {
  Json json = common("stop", now);
  json["exit_code"] = line.exit_code;
  json["reason"] = base::without_secrets(line.reason);
  json["uptime_s"] = rounded(line.uptime_s, 1000);
  json["totals"] = totals_json(line.totals);
  Json cameras = Json::array();
  for (const StopLine::Camera& camera : line.cameras) {
    cameras.push_back(Json{{"camera", camera.name}, {"totals", totals_json(camera.totals)}});
  }
  json["cameras"] = std::move(cameras);
  if (line.removed.captured > 0) json["removed"] = totals_json(line.removed);
  return dump(json);
}

}  // namespace camd::pipeline
