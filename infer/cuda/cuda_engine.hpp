// CudaEngine: runs a network on an NVIDIA GPU, as a Plan of kernels (infer/cuda/plan/plan.hpp).
//
// Each execution captures the network once as a CUDA graph, with the plan's lanes beside each other, and launches that
// graph for each frame. Inside of a capture of the caller's (Device::begin_capture()) the network's kernels become part
// of the caller's graph instead.
//
// Threads: as Engine; profile() [setup].
// Memory: the engine owns the weights. An execution owns the arena for activations, the input's planes, and one block
// for all outputs, in their order and each aligned to 256 bytes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "infer/cuda/plan/plan.hpp"
#include "infer/engine.hpp"

namespace camd::infer {

// How long a step takes alone.
struct StepTime {
  std::string kernel;
  std::string origin;      // the operators that the kernel computes
  base::Duration alone{};  // median; the runs follow each other in one graph
};

class CudaEngine : public Engine {
 public:
  [[nodiscard]] virtual const cuda::Plan& plan() const noexcept = 0;
  // [setup] [blocks] Runs each step `repeats` times alone. Throws Error(kDevice | kDeviceLost).
  [[nodiscard]] virtual std::vector<StepTime> profile(int repeats) = 0;
};

// [setup] [blocks] `graph` is the lowered model that `model` describes; `input` is its input. The options' width and
// height are resolved. `device` must be a CudaDevice and must outlive the engine. Throws Error(kModel | kDevice |
// kDeviceLost).
[[nodiscard]] std::unique_ptr<CudaEngine> make_cuda_engine(const Graph& graph, ModelDescription model,
                                                           const TensorSpec& input, const EngineOptions& options,
                                                           device::Device& device);

}  // namespace camd::infer
