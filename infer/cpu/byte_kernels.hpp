// The instances of infer/cpu/byte_kernels.inc.
//
// Threads: [any]. Private to infer/cpu/. Only where the machine has the instructions: kernel_sets() asks.
#pragma once

#include "infer/cpu/bytes.hpp"

namespace camd::infer::cpu {

[[nodiscard]] const ByteKernels& byte_kernels_dotprod() noexcept;
[[nodiscard]] const ByteKernels& byte_kernels_i8mm() noexcept;
[[nodiscard]] const ByteKernels& byte_kernels_vnni() noexcept;

}  // namespace camd::infer::cpu
