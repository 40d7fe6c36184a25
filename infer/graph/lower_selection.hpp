// Handlers of the node types that choose by values: the best of a line, boxes, what is not zero; and running sums.
//
// Threads: as Lowering, one thread during lower_model(). Private to infer/graph/.
#pragma once

#include <vector>

#include "infer/graph/lowering.hpp"

namespace camd::infer {

[[nodiscard]] const std::vector<HandlerEntry>& selection_handlers();

}  // namespace camd::infer
