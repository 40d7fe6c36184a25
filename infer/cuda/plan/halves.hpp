// Which row-major values are f16. Private to the planner.
//
// Threads: a function of its arguments, [any].
#pragma once

#include "infer/cuda/plan/fusion.hpp"
#include "infer/graph/graph.hpp"

namespace camd::infer::cuda {

// Completes `fusion.halves`: what convolutions and attentions of both kinds in f16 read of values that no convolution
// makes. So it is not converted on the way.
void find_halves(const Graph& graph, Fusion& fusion);

}  // namespace camd::infer::cuda
