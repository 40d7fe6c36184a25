// infer/cpu/kernels.inc for the architecture's baseline.
#include "infer/cpu/kernels_baseline.hpp"

#include "infer/cpu/kernels.hpp"
#include "infer/graph/reference.hpp"
#include "infer/graph/window.hpp"

#if defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace camd::infer::cpu {
namespace {

#include "infer/cpu/kernels.inc"

#if defined(__ARM_NEON)
constexpr const char* kName = "neon";
#else
constexpr const char* kName = "baseline";
#endif

}  // namespace

const Kernels& baseline_kernels() noexcept {
  static constexpr Kernels kTable = table(kName);
  return kTable;
}

}  // namespace camd::infer::cpu
