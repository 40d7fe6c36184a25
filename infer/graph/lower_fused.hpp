// Handlers of operators that are several others in one: attention, normalisations with what stands in front, and those
// that ONNX Runtime's optimisers write (its domain com.microsoft).
//
// Threads: as Lowering, one thread during lower_model(). Private to infer/graph/.
#pragma once

#include <vector>

#include "infer/graph/lowering.hpp"

namespace camd::infer {

[[nodiscard]] const std::vector<HandlerEntry>& fused_handlers();

}  // namespace camd::infer
