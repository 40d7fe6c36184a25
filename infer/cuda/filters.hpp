// Filters: what infer/filter.hpp asks for, as launches of one kernel.
//
// Threads: make() [setup]; enqueue() [dispatch].
// Invariants: what is enqueued reads outputs and writes memory that the caller of make() owns; both outlive this
// object.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "device/cuda/cuda_device.hpp"
#include "infer/cuda/kernels/filter.hpp"
#include "infer/filter.hpp"
#include "infer/tensor.hpp"

namespace camd::infer::cuda {

class Filters {
 public:
  // `outputs`: of the model, on the device; each filter has been found to be in order (problem_of()). Nothing: an
  // output that a filter names is not of f32, or a grid is too large for the kernel's arithmetic. What is enqueued
  // comes behind what this has enqueued on `stream`. Throws Error(kDevice).
  [[nodiscard]] static std::optional<Filters> make(device::CudaDevice& device, device::StreamRef stream,
                                                   std::span<const Filter> filters, std::span<const TensorView> outputs,
                                                   const FilteredTo& to);

  // Enqueues all of them. Returns a cudaError_t.
  [[nodiscard]] int enqueue(const LaunchContext& context) const;

 private:
  Filters() = default;

  device::DeviceBuffer counters_;
  std::vector<FilterArguments> launches_;
};

}  // namespace camd::infer::cuda
