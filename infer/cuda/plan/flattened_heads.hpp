// Heads whose channels become lines of a tensor that joins all levels: tile programs write them there. Private to the
// planner.
//
// Threads: functions of their arguments, [any].
#pragma once

#include <map>

#include "infer/graph/graph.hpp"

namespace camd::infer::cuda {

struct Fusion;

// Convolutions, by their index in Graph::ops, whose result nothing but a Reshape to [1, channels, pixels] reads, and
// nothing but a concatenation along the pixels reads that. With what the Reshape makes.
[[nodiscard]] std::map<int, ValueId> find_flattened_heads(const Graph& graph);

// Leaves those of Fusion::flattened_heads that a program computes as heads (1x1), and adds their Reshapes to
// Fusion::absorbed.
void absorb_flattenings(const Graph& graph, Fusion& fusion);

}  // namespace camd::infer::cuda
