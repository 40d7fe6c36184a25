// infer/cpu/byte_kernels.inc for ARM with dot products (FEAT_DotProd: sdot); this file alone is compiled with those
// flags.
#include <arm_neon.h>

#include "infer/cpu/byte_kernels.hpp"

namespace camd::infer::cpu {
namespace {

#include "infer/cpu/byte_kernels.inc"

}  // namespace

const ByteKernels& byte_kernels_dotprod() noexcept {
  static constexpr ByteKernels kTable = table("dotprod");
  return kTable;
}

}  // namespace camd::infer::cpu
