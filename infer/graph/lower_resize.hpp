// Handlers of Resize (opsets 10 to 19) and Upsample (7 to 9): every coordinate and rounding mode becomes a table of
//
// Threads: as Lowering, one thread during lower_model(). Private to infer/graph/.
#pragma once

#include <vector>

#include "infer/graph/lowering.hpp"

namespace camd::infer {

[[nodiscard]] const std::vector<HandlerEntry>& resize_handlers();

}  // namespace camd::infer
