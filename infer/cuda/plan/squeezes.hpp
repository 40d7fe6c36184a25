// The mean of an image, two dense layers of it and the image times their result as one step. Private to the planner.
//
// Threads: a function of its arguments, [any].
#pragma once

#include "infer/cuda/plan/fusion.hpp"
#include "infer/graph/graph.hpp"

namespace camd::infer::cuda {

// Completes `fusion.squeeze_of` and `fusion.excited_by`, and adds what is in front of each step's last operator to
// `fusion.absorbed`.
void find_squeezes(const Graph& graph, const PlanOptions& options, Fusion& fusion);

}  // namespace camd::infer::cuda
