// Computing single ops of a graph while it is lowered: what that costs, and the two operators that make up the time of
// a second stage with faster arithmetic than the reference's (infer/graph/reference.hpp).
//
// Threads: functions of their arguments, [any].
#pragma once

#include <vector>

#include "infer/graph/graph.hpp"
#include "infer/graph/lower_model.hpp"

namespace camd::infer {

// Steps that fold() takes for `op`, whose output has this shape; a double, since the factors come from the file.
[[nodiscard]] double folding_steps(const Graph& graph, const Op& op, const Shape& shape, const FoldOptions& options);

// As evaluate(). With FoldOptions::product sums of products are in f32. Throws Error(kModel).
[[nodiscard]] Constant fold(const Op& op, const std::vector<const Constant*>& inputs, const Shape& shape,
                            const FoldOptions& options);

}  // namespace camd::infer
