// Operators that compute each element alone: where they are computed. Private to the planner.
//
// Threads: functions of their arguments, [any].
#pragma once

#include "infer/cuda/plan/fusion.hpp"
#include "infer/graph/graph.hpp"

namespace camd::infer::cuda {

// f(concat(a, b)) = concat(f(a), f(b)): moves functions, and operators whose other input is a constant that repeats
// along the concatenation, in front of a Concat where the operators that make its inputs then compute them for nothing.
// Changes `graph`.
void move_before_concats(Graph& graph);

// Completes `fusion.computed_where_read`, and adds its operators to `fusion.absorbed`. What other kernels compute must
// be known.
void find_computed_where_read(const Graph& graph, Fusion& fusion);

}  // namespace camd::infer::cuda
