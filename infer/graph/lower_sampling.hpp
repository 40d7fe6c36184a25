// Handlers of the node types that look at a picture between its pixels, at places that the picture itself decides.
//
// Threads: as Lowering, one thread during lower_model(). Private to infer/graph/.
#pragma once

#include <vector>

#include "infer/graph/lowering.hpp"

namespace camd::infer {

[[nodiscard]] const std::vector<HandlerEntry>& sampling_handlers();

}  // namespace camd::infer
