// Bench: the frame's path measured host to host, every way to move the data in one run, the outputs compared.
//
// Threads: run_bench() [any], [blocks].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/picture.hpp"
#include "config/config.hpp"
#include "pipeline/plugin/plugin_instance.hpp"
#include "pipeline/run/path_probe.hpp"

namespace camd::pipeline {

struct BenchOptions {
  std::string model;
  std::string device = "auto";
  config::EngineChoice engine = config::EngineChoice::kAuto;
  config::Precision precision = config::Precision::kAuto;
  int width = 0;  // of the pictures, px; 0: the network's. Also the network's, where the model leaves it open.
  int height = 0;
  base::PixelFormat format = base::PixelFormat::kBgr;
  bool half_outputs = false;            // f16 outputs, where the engine has them: half the bytes back
  std::vector<std::string> strategies;  // empty: all
  int frames = 300;
  int warmup = 30;
  double pace_fps = 0;  // 0: the next frame starts when the one before has ended
  PluginSpec plugin{};  // is called behind each frame; without a name: none
};

struct BenchRow {
  std::string strategy;
  std::string skipped;  // why this device cannot run it; the rest is empty then
  ProbeResult times;
  double fps = 0;  // with three frames in flight; 0 when paced
  int frames = 0;
  std::uint64_t bytes_copied = 0;  // on the host, for a plug-in in a process, by all frames
};

struct BenchResult {
  std::string device;
  std::string engine;
  std::string model;
  int width = 0, height = 0;
  std::string format;
  double pace_fps = 0;
  std::string plugin;     // empty: none
  bool isolated = false;  // it has a process of its own
  // Of all outputs of the probe's pictures, which are the same for every strategy. Where two devices have the same,
  // they compute the same bit by bit. Empty: nothing was measured.
  std::string outputs_sha256;
  std::vector<BenchRow> rows;
};

// The names, in the order of the table: pageable-sync, pinned-async, per-frame-streams, split-streams, mapped, graph,
// graph-direct.
[[nodiscard]] std::vector<std::string> bench_strategies();

// Throws Error(kUsage) for an unknown strategy, Error(kDevice | kModel) for what cannot be used, and Error(kInternal)
// when the outputs of two strategies differ. Error(kPlugin): the plug-in refuses, or fails at a frame.
[[nodiscard]] BenchResult run_bench(const BenchOptions& options);

[[nodiscard]] std::string bench_table(const BenchResult& result);
[[nodiscard]] std::string bench_json(const BenchResult& result);

}  // namespace camd::pipeline
