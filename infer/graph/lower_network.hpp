// Handlers of convolutions, matrix products, pooling and softmax.
//
// Threads: as Lowering, one thread during lower_model(). Private to infer/graph/.
#pragma once

#include <vector>

#include "infer/graph/lowering.hpp"

namespace camd::infer {

[[nodiscard]] const std::vector<HandlerEntry>& network_handlers();

}  // namespace camd::infer
