// Deformable attention as one step each. Private to the planner.
//
// Threads: a function of its arguments, [any].
#pragma once

#include "infer/cuda/plan/fusion.hpp"
#include "infer/graph/graph.hpp"

namespace camd::infer::cuda {

// Completes `fusion.deformable_of`, and adds what is in front of each sum to `fusion.absorbed`. `graph` may not change
// afterwards.
void find_deformables(const Graph& graph, Fusion& fusion);

}  // namespace camd::infer::cuda
