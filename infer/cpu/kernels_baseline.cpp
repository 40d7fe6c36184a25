// infer/cpu/kernels.inc for the architecture's baseline.
#include "infer/cpu/kernels.hpp"
#include "infer/reference.hpp"

namespace camd::infer::cpu {
namespace {

#include "infer/cpu/kernels.inc"

}  // namespace

const Kernels& baseline_kernels() noexcept {
  static constexpr Kernels kTable = table("baseline");
  return kTable;
}

}  // namespace camd::infer::cpu
