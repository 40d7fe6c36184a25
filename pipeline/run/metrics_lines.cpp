// Each kind of metrics line as JSON.
#include "pipeline/run/metrics_lines.hpp"

#include <fmt/chrono.h>
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

Json latency_json(const LatencySummary& latency) {
  return Json{
      {"count", latency.count},          {"p50", rounded(latency.p50, 10)},   {"p90", rounded(latency.p90, 10)},
      {"p99", rounded(latency.p99, 10)}, {"p999", rounded(latency.p999, 10)}, {"max", rounded(latency.max, 10)}};
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
  json["device"] = line.device;
  json["engine"] = line.engine;
  json["model"] = Json{{"path", line.model.path},
                       {"sha256", line.model.sha256},
                       {"inputs", tensors_json(line.inputs)},
                       {"outputs", tensors_json(line.outputs)}};
  json["transfer"] = line.transfer;
  json["streams"] = line.streams;
  json["choice"] = line.choice;
}

}  // namespace

std::string start_line(const StartLine& line, base::TimePoint now) {
  Json json = common("start", now);
  json["version"] = line.version;
  put_way(line, json);
  json["config_sha256"] = line.config_sha256;
  return dump(json);
}

std::string camera_line(const CameraLine& line, base::TimePoint now) {
  Json json = common("camera", now);
  json["camera"] = line.camera;
  json["state"] = line.state;
  json["period_s"] = rounded(line.period_s, 1e6);
  json["totals"] = totals_json(line.totals);
  json["fps"] = Json{{"captured", rounded(line.captured_fps, 100)}, {"delivered", rounded(line.delivered_fps, 100)}};
  Json latency = Json::object();
  for (std::size_t i = 0; i < kStageCount; ++i) {
    latency[std::string(to_string(static_cast<Stage>(i)))] = latency_json(line.metrics.latency[i]);
  }
  json["latency_us"] = std::move(latency);
  json["bytes_per_frame"] = Json{{"h2d", std::llround(line.metrics.h2d_bytes_per_frame)},
                                 {"d2h", std::llround(line.metrics.d2h_bytes_per_frame)}};
  json["clock"] = Json{{"source", capture::to_string(line.clock.source)},
                       {"offset_us", line.clock.offset.count() / 1000},
                       {"drift_ppm", rounded(line.clock.drift_ppm, 10)},
                       {"uncertainty_us", line.clock.uncertainty.count() / 1000},
                       {"steps", line.clock.steps}};
  json["upstream"] = Json{{"packets_lost", line.upstream.packets_lost},
                          {"frames_damaged", line.upstream.frames_damaged},
                          {"frames_missing", line.upstream.frames_missing}};
  if (!line.decoder.name.empty()) {
    json["decoder"] = Json{{"name", line.decoder.name}, {"device", line.decoder.device}};
  }
  return dump(json);
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
  if (plugin.health.isolated) {
    json["state"] = plugin.health.state;
    json["restarts"] = plugin.health.restarts;
    json["frames_lost"] = plugin.health.frames_lost;
    json["deadline_missed"] = plugin.health.deadline_missed;
    json["bytes_copied"] = plugin.health.bytes_copied;
    json["last_error"] = base::without_secrets(plugin.health.last_error);
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

std::string process_line(const ProcessStats& stats, std::size_t gpu_memory_bytes, base::TimePoint now) {
  Json json = common("process", now);
  json["cpu_percent"] = rounded(stats.cpu_percent, 10);
  json["rss_bytes"] = stats.rss_bytes;
  json["gpu_memory_bytes"] = gpu_memory_bytes;
  json["threads"] = stats.threads;
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
