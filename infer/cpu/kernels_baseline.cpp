// infer/cpu/kernels.inc for the architecture's baseline.
#include "infer/cpu/kernels_baseline.hpp"

#include "infer/cpu/kernels.hpp"
#include "infer/graph/reference.hpp"
#include "infer/graph/window.hpp"

namespace camd::infer::cpu {
namespace {

#include "infer/cpu/kernels.inc"

}  // namespace

const Kernels& baseline_kernels() noexcept {
  static constexpr Kernels kTable = table("baseline");
  return kTable;
}

}  // namespace camd::infer::cpu
