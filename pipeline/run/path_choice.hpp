// Chooses how frames travel through this device. What the configuration says is kept; the rest is measured.
//
// Threads: [setup], [blocks] for less than 300 ms on a GPU, not at all on the host.
#pragma once

#include <optional>
#include <string>

#include "pipeline/core/frame_path.hpp"

namespace camd::pipeline {

struct PathChoice {
  FramePathOptions options;
  std::string figures;  // for the start line: what was measured, or why nothing was
};

// An empty `transfer` is measured. On a device that can capture graphs, StreamStrategy::kSplit becomes one graph for
// each frame in flight. It orders upload, network and downloads as the three streams would. Throws Error(kDevice |
// kModel).
[[nodiscard]] PathChoice choose_path(device::Device& device, infer::Engine& engine, PostprocessorChain& postprocessors,
                                     StreamStrategy streams, std::optional<Transfer> transfer);

}  // namespace camd::pipeline
