// Snapshot: how everything is at one moment, for whoever shows it: metrics lines, Prometheus, the live page.
//
// Threads: plain values, [any]. Each camera's totals belong together; different cameras are read one after the other.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "capture/camera_clock.hpp"
#include "capture/frame_source.hpp"
#include "capture/picture_losses.hpp"
#include "pipeline/core/ledger.hpp"
#include "pipeline/core/metrics.hpp"
#include "pipeline/core/pipeline.hpp"
#include "pipeline/plugin/plugin_instance.hpp"
#include "pipeline/run/process_stats.hpp"

namespace camd::pipeline {

struct CameraNow {
  std::string camera;
  std::string state;   // as capture::to_string() has it, or "removed"
  std::string reason;  // of its state; empty: none was given
  std::string device;  // empty: none works for it
  Totals totals;
  capture::ClockStatus clock;
  capture::UpstreamLosses upstream;
  capture::DecoderStatus decoder;
  std::uint64_t copied_bytes = 0;  // of pictures, into slots
};

struct CameraSnapshot : CameraNow {
  std::array<DurationTotals, kStageCount> stages;  // since the camera was added
};

struct PluginSnapshot {
  struct Counter {
    std::string name;
    camd_counter_kind kind = CAMD_COUNTER;
    std::uint64_t count = 0;  // of a counter
    double level = 0;         // of a gauge, as it was in the last metrics line
  };
  std::string name;
  std::vector<Counter> counters;
  std::vector<OutletRow> outlet;
  PluginHealth health;
};

struct Snapshot {
  std::vector<CameraSnapshot> cameras;  // in the order of their slots
  std::vector<PluginSnapshot> plugins;  // in their order
  std::vector<LaneView> lanes;
  ProcessStats process;
};

// All states that a camera can be in, but "removed".
[[nodiscard]] std::vector<std::string_view> camera_states();
[[nodiscard]] CameraNow camera_now(const Pipeline& pipeline, const CameraView& camera);

}  // namespace camd::pipeline
