// infer/cpu/kernels.inc compiled for ARM processors that compute in half precision (FEAT_FP16).
//
// Threads: [any]. Private to infer/cpu/.
#pragma once

namespace camd::infer::cpu {

struct Kernels;

// Only where the machine has these instructions: half_kernels() asks.
[[nodiscard]] const Kernels& fp16_kernels() noexcept;

}  // namespace camd::infer::cpu
