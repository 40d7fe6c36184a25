// infer/cpu/byte_kernels.inc for ARM with products of matrices of bytes (FEAT_I8MM: smmla); this file alone is compiled
// with those flags.
#include <arm_neon.h>

#include "infer/cpu/byte_kernels.hpp"

namespace camd::infer::cpu {
namespace {

#include "infer/cpu/byte_kernels.inc"

}  // namespace

const ByteKernels& byte_kernels_i8mm() noexcept {
  static constexpr ByteKernels kTable = table("i8mm");
  return kTable;
}

}  // namespace camd::infer::cpu
