// Handlers of the node types that move data or compute shapes.
//
// Threads: as Lowering, one thread during lower_model(). Private to infer/graph/.
#pragma once

#include <vector>

#include "infer/graph/lowering.hpp"

namespace camd::infer {

[[nodiscard]] const std::vector<HandlerEntry>& movement_handlers();

}  // namespace camd::infer
