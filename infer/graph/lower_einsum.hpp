// Handlers of the node types that multiply and sum over named dimensions.
//
// Threads: as Lowering, one thread during lower_model(). Private to infer/graph/.
#pragma once

#include <vector>

#include "infer/graph/lowering.hpp"

namespace camd::infer {

[[nodiscard]] const std::vector<HandlerEntry>& einsum_handlers();

}  // namespace camd::infer
