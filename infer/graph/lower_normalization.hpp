// Handlers of the normalisations.
//
// Threads: as Lowering, one thread during lower_model(). Private to infer/graph/.
#pragma once

#include <vector>

#include "infer/graph/lowering.hpp"

namespace camd::infer {

[[nodiscard]] const std::vector<HandlerEntry>& normalization_handlers();

}  // namespace camd::infer
