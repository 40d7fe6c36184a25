// run(): launches the kernel of a plan's step. Only where kernels are built: for the GPU or under emulation.
//
// Threads: as infer/cuda/kernels/launch.hpp says; kernel_name() [any].
#pragma once

#include <string_view>

#include "infer/cuda/kernels/launch.hpp"
#include "infer/cuda/plan/plan.hpp"

namespace camd::infer::cuda {

// Enqueues the kernel that `arguments`, with addresses (bind()), are for. Returns a cudaError_t.
int run(const Arguments& arguments, const LaunchContext& context);

// For tables: "conv", "separable".
[[nodiscard]] std::string_view kernel_name(const Arguments& arguments) noexcept;

}  // namespace camd::infer::cuda
