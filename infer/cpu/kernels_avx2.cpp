// infer/cpu/kernels.inc for AVX2 with FMA (this file alone is compiled with those flags).
#include "infer/cpu/kernels_avx2.hpp"

#include "infer/cpu/kernels.hpp"
#include "infer/graph/reference.hpp"
#include "infer/graph/window.hpp"

namespace camd::infer::cpu {
namespace {

#include "infer/cpu/kernels.inc"

}  // namespace

const Kernels& avx2_kernels() noexcept {
  static constexpr Kernels kTable = table("avx2");
  return kTable;
}

}  // namespace camd::infer::cpu
