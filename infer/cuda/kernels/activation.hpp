// Which activation functions the kernels apply. No CUDA header is needed to include this one.
//
// Threads: functions of their arguments, [any].
#pragma once

#include "infer/graph/graph.hpp"

namespace camd::infer::cuda {

// The function only bounds its values: from below, from above, or not at all.
[[nodiscard]] constexpr bool bounds_only(Function function) noexcept {
  return function == Function::kNone || function == Function::kRelu || function == Function::kClip;
}

// The tensor-core kernels apply this function themselves. Others need a step of their own.
[[nodiscard]] inline bool tensor_core_activation(Function function) noexcept {
  switch (function) {
    case Function::kNone:
    case Function::kRelu:
    case Function::kClip:
    case Function::kLeakyRelu:
    case Function::kSigmoid:
    case Function::kSilu:
    case Function::kHardSwish: return true;
    default: return false;
  }
}

}  // namespace camd::infer::cuda
