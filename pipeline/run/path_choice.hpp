// Chooses how frames travel through this device. What the configuration says is kept; the rest is measured.
//
// Threads: [setup], [blocks] for less than 500 ms on a GPU, not at all on the host.
#pragma once

#include <optional>
#include <string>

#include "pipeline/core/frame_path.hpp"

namespace camd::pipeline {

struct PathChoice {
  FramePathOptions options;
  std::string figures;           // for the start line: what was measured, or why nothing was
  int in_flight = 0;             // frames to have on the device at once; 0: DeviceInfo::default_depth
  double frames_per_second = 0;  // with so many; 0: not measured
};

// An empty `transfer` is measured by `clock`. On a device that can capture graphs, StreamStrategy::kSplit becomes one
// graph for each frame in flight. It orders upload, network and downloads as the three streams would. Throws
// Error(kDevice | kModel).
[[nodiscard]] PathChoice choose_path(const base::Clock& clock, device::Device& device, infer::Engine& engine,
                                     PostprocessorChain& postprocessors, StreamStrategy streams,
                                     std::optional<Transfer> transfer);

// How many frames a device that works by itself should have at once: one more for as long as that brings kWorthIt more
// frames a second. Each keeps memory of the device, so one that is not worth it is one too many. Where memory for one
// more cannot be had, there are enough. On the host it is not measured: there whoever waits for a frame computes it,
// and a second one would only wait. [setup] [blocks]
inline constexpr double kWorthIt = 0.03;
void choose_in_flight(const base::Clock& clock, device::Device& device, infer::Engine& engine,
                      PostprocessorChain& postprocessors, PathChoice& choice);

}  // namespace camd::pipeline
