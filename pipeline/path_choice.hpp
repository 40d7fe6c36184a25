// Chooses how frames travel on this device: what the configuration fixes is kept, the rest is measured.
//
// Threads: [setup], [blocks] for less than 300 ms on a GPU, not at all on the host.
#pragma once

#include <optional>
#include <string>

#include "pipeline/frame_path.hpp"

namespace camd::pipeline {

struct PathChoice {
  FramePathOptions options;
  std::string figures;  // for the start line: what was measured, or why nothing was
};

// `transfer` empty: measured. On a GPU that can capture graphs StreamStrategy::kSplit becomes one graph for each frame
// in flight, in which upload, network and downloads are ordered as the three streams would order them.
// Throws Error(kDevice | kModel).
[[nodiscard]] PathChoice choose_path(device::Device& device, infer::Engine& engine, const PluginHost& plugins,
                                     StreamStrategy streams, std::optional<Transfer> transfer);

}  // namespace camd::pipeline
