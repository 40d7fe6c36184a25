// infer/cpu/kernels.inc compiled for what every machine of this architecture runs.
//
// Threads: [any]. Private to infer/cpu/.
#pragma once

namespace camd::infer::cpu {

struct Kernels;

[[nodiscard]] const Kernels& baseline_kernels() noexcept;

}  // namespace camd::infer::cpu
