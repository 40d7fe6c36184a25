// CudaEngine: runs a Plan (infer/cuda/plan.hpp) on a CudaDevice.
//
// The network is captured once for each execution as a CUDA graph, lanes side by side, and launched as one. Inside a
// capture of the caller's (Device::begin_capture) its kernels join that graph instead.
//
// Threads: as Engine; profile() [setup].
// Memory of an execution: one arena for activations, one block for all outputs (packed in order, each at a multiple of
// 256 bytes), the input's planes. Weights lie in the engine, once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "infer/cuda/plan.hpp"
#include "infer/engine.hpp"

namespace camd::infer {

struct StepTime {
  std::string kernel;
  std::string origin;
  base::Duration alone{};  // median of one run after the other, launched from a graph
};

class CudaEngine : public Engine {
 public:
  [[nodiscard]] virtual const cuda::Plan& plan() const noexcept = 0;
  // [blocks] Runs each step `repeats` times by itself.
  [[nodiscard]] virtual std::vector<StepTime> profile(int repeats) = 0;
};

// [setup] [blocks] `graph` was lowered from the model that `model` describes, for `input`. Options' width and height
// are resolved. `device` must be a CudaDevice and outlive the engine. Throws Error(kModel | kDevice).
[[nodiscard]] std::unique_ptr<CudaEngine> make_cuda_engine(const Graph& graph, ModelDescription model,
                                                           const TensorSpec& input, const EngineOptions& options,
                                                           device::Device& device);

}  // namespace camd::infer
