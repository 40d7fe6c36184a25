// find_resized_sums(): sums with a resized image, which resize() adds while it makes that. Private to the planner.
//
// Threads: a function of its arguments, [any].
#pragma once

#include "infer/graph/graph.hpp"

namespace camd::infer::cuda {

struct Fusion;

// Adds to Fusion::resized_sums and absorbed.
void find_resized_sums(const Graph& graph, Fusion& fusion);

}  // namespace camd::infer::cuda
