// Handlers of the node types that hold graphs of their own: If.
//
// Threads: as Lowering, one thread during lower_model(). Private to infer/graph/.
#pragma once

#include <vector>

#include "infer/graph/lowering.hpp"

namespace camd::infer {

[[nodiscard]] const std::vector<HandlerEntry>& control_handlers();

}  // namespace camd::infer
