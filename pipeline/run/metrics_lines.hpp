// The metrics lines of stdout: one JSON object a line, schema 1 (docs/metrics.md).
//
// Threads: functions of their arguments, [any].
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "capture/camera_clock.hpp"
#include "capture/frame_source.hpp"
#include "capture/picture_losses.hpp"
#include "config/config.hpp"
#include "infer/model.hpp"
#include "pipeline/core/ledger.hpp"
#include "pipeline/core/metrics.hpp"
#include "pipeline/core/pipeline.hpp"
#include "pipeline/run/plugin_host.hpp"
#include "pipeline/run/process_stats.hpp"
#include "pipeline/run/snapshot.hpp"

namespace camd::pipeline {

struct StartLine {
  struct Device {
    std::string device, name, transfer, streams, choice;  // `choice`: the measured figures behind transfer
    int in_flight = 0;                                    // the most frames on it at once
    double frames_per_second = 0;                         // measured with so many; 0: not measured
  };
  std::string version, engine;
  std::vector<Device> devices;  // one or more
  infer::ModelDescription model;
  std::vector<infer::TensorSpec> inputs, outputs;  // as resolved by the engine
  std::string config_sha256;
  config::Shard shard;  // of one: not told
  std::size_t cameras = 0, cameras_in_file = 0;
};

struct CameraLine : CameraNow {
  double period_s = 0;
  double captured_fps = 0;
  double delivered_fps = 0;
  CameraMetrics metrics;
  std::optional<Sight> seen;  // nothing where no frame was delivered in the period
};

struct ReloadLine {
  base::Duration duration{0};        // from the request until the new configuration runs, or is refused
  std::vector<std::string> changed;  // what the new configuration changes: config::Difference::names()
  std::string config_sha256;         // of what runs now
  std::optional<StartLine> start;    // where device, model or path are others now
  std::vector<std::string> errors;   // why it was refused, a line each; empty: it was accepted
};

struct StopLine {
  struct Camera {
    std::string name;
    Totals totals;
  };
  std::vector<Camera> cameras;
  Totals removed;  // of cameras that reloads have removed
  Totals totals;   // of all
  double uptime_s = 0;
  int exit_code = 0;
  std::string reason;
};

// Each returns one line without its newline. `now` is stamped as "time" (RFC 3339, UTC) and "mono_ns".
[[nodiscard]] std::string start_line(const StartLine& line, base::TimePoint now);
[[nodiscard]] std::string camera_line(const CameraLine& line, base::TimePoint now);
// A camera without its period, as a JSON object: fields of the camera line under the same names, and `reason` where its
// state has one.
[[nodiscard]] std::string camera_json(const CameraNow& camera);
// `index` is the plug-in's place in the chain, from 0.
[[nodiscard]] std::string plugin_line(std::size_t index, const PluginNumbers& plugin, base::TimePoint now);
// One camera of an outlet; name and index are its plug-in's.
[[nodiscard]] std::string outlet_line(std::size_t index, std::string_view name, const OutletRow& row,
                                      base::TimePoint now);
[[nodiscard]] std::string process_line(const ProcessStats& stats, const std::vector<LaneView>& lanes,
                                       base::TimePoint now);
// `what` is "camera" (then `name` is the camera's) or "device".
[[nodiscard]] std::string state_line(const std::string& what, const std::string& name, const std::string& state,
                                     const std::string& reason, base::TimePoint now);
[[nodiscard]] std::string reload_line(const ReloadLine& line, base::TimePoint now);
[[nodiscard]] std::string stop_line(const StopLine& line, base::TimePoint now);

}  // namespace camd::pipeline
