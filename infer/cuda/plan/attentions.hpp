// Attention as one step each. Private to the planner.
//
// Threads: a function of its arguments, [any].
#pragma once

#include <cstddef>

#include "infer/cuda/plan/fusion.hpp"
#include "infer/graph/graph.hpp"

namespace camd::infer::cuda {

// Completes `fusion.attention_of`, and adds what is in front of each product with v to `fusion.absorbed`. `graph` is
// changed: a factor in front of the scores' product is passed by. Reads `fusion.f32_ops`.
// `shared_bytes`: what a block may have.
void find_attentions(Graph& graph, std::size_t shared_bytes, Fusion& fusion);

}  // namespace camd::infer::cuda
