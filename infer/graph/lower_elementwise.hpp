// Handlers of the elementwise node types and of the reductions.
//
// Threads: as Lowering, one thread during lower_model(). Private to infer/graph/.
#pragma once

#include <vector>

#include "infer/graph/lowering.hpp"

namespace camd::infer {

[[nodiscard]] const std::vector<HandlerEntry>& elementwise_handlers();

// x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))
[[nodiscard]] ValueId approximate_gelu(Lowering& l, ValueId x);

}  // namespace camd::infer
