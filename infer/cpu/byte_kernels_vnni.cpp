// infer/cpu/byte_kernels.inc for AVX-512 with VNNI (vpdpbusd); this file alone is compiled with those flags.
#include <immintrin.h>

#include "infer/cpu/byte_kernels.hpp"

namespace camd::infer::cpu {
namespace {

#include "infer/cpu/byte_kernels.inc"

}  // namespace

const ByteKernels& byte_kernels_vnni() noexcept {
  static constexpr ByteKernels kTable = table("vnni");
  return kTable;
}

}  // namespace camd::infer::cpu
