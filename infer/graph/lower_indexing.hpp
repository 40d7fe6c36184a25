// Handlers of the node types that pick elements by indices.
//
// Threads: as Lowering, one thread during lower_model(). Private to infer/graph/.
#pragma once

#include <vector>

#include "infer/graph/lowering.hpp"

namespace camd::infer {

// GatherElements with indices that need not be known beforehand.
[[nodiscard]] ValueId pick_along(Lowering& l, ValueId x, ValueId indices, int axis);

[[nodiscard]] const std::vector<HandlerEntry>& indexing_handlers();

}  // namespace camd::infer
