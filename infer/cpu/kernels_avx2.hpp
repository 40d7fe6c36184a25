// infer/cpu/kernels.inc compiled for AVX2 with FMA.
//
// Threads: [any]. Private to infer/cpu/.
#pragma once

namespace camd::infer::cpu {

struct Kernels;

// Only where the machine has these instructions: kernel_sets() asks.
[[nodiscard]] const Kernels& avx2_kernels() noexcept;

}  // namespace camd::infer::cpu
