// infer/cpu/kernels.inc for half precision (this file alone is compiled with those flags).
#include "infer/cpu/kernels_fp16.hpp"

#include <arm_neon.h>

#include "infer/cpu/kernels.hpp"
#include "infer/graph/reference.hpp"
#include "infer/graph/window.hpp"

namespace camd::infer::cpu {
namespace {

#include "infer/cpu/kernels.inc"

constexpr Kernels half_table() noexcept {
  Kernels kernels = table("fp16");
  kernels.half = true;
  return kernels;
}

}  // namespace

const Kernels& fp16_kernels() noexcept {
  static constexpr Kernels kTable = half_table();
  return kTable;
}

}  // namespace camd::infer::cpu
