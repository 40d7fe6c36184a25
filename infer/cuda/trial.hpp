// The trial at start: which of a network's convolutions have to be computed in f32, so that f16 does for the rest
// (docs/adr/0039-f16-by-layer.md). The GPU computes one made picture in f32 and in f16. Where f16 is too far off, it
// computes it in f32 once for each convolution, with what that one reads, weighs and makes rounded to f16. That tells
// which ones do the harm.
//
// Threads: called while an engine is made, by one thread.
#pragma once

#include <memory>
#include <string>

#include "device/cuda/cuda_device.hpp"
#include "infer/cuda/loaded_plan.hpp"
#include "infer/engine.hpp"
#include "infer/graph/graph.hpp"

namespace camd::infer {

struct TrustedPlans {
  std::unique_ptr<const LoadedPlan> latency;
  std::unique_ptr<const LoadedPlan> throughput;  // null where nobody asked for it
};
// [setup] [blocks] An engine's plans of `options.type`, with as few convolutions in f32 as they need. `many_frames`:
// also the one for throughput, whose convolutions in f32 are the same. `path` is for the log; `input` has its size.
// Throws what make_plan() throws, and Error(kDevice).
[[nodiscard]] TrustedPlans make_trusted_plans(const Graph& graph, const std::string& path, const InputOptions& input,
                                              const cuda::PlanOptions& options, bool many_frames,
                                              device::CudaDevice& device);

}  // namespace camd::infer
