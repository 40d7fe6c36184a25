// infer/cpu/kernels.inc for AVX-512 with its parts F, DQ, BW and VL (this file alone is compiled with those flags).
#include "infer/cpu/kernels_avx512.hpp"

#include "infer/cpu/kernels.hpp"
#include "infer/graph/reference.hpp"
#include "infer/graph/window.hpp"

namespace camd::infer::cpu {
namespace {

#include "infer/cpu/kernels.inc"

}  // namespace

const Kernels& avx512_kernels() noexcept {
  static constexpr Kernels kTable = table("avx512");
  return kTable;
}

}  // namespace camd::infer::cpu
