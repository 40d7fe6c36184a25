// Handlers of sequences of tensors, whose lengths are known beforehand: what PyTorch's exporter writes for split() and
// stack() where its optimiser does not run.
//
// Threads: as Lowering, one thread during lower_model(). Private to infer/graph/.
#pragma once

#include <vector>

#include "infer/graph/lowering.hpp"

namespace camd::infer {

[[nodiscard]] const std::vector<HandlerEntry>& sequence_handlers();

}  // namespace camd::infer
