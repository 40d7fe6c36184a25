// group_layers(): which layers share a tile program. Private to the planner.
//
// Threads: a function of its arguments, [any].
#pragma once

#include <vector>

#include "infer/cuda/plan/fusion.hpp"
#include "infer/cuda/plan/plan.hpp"
#include "infer/graph/graph.hpp"

namespace camd::infer::cuda {

// `seeds`: sets of operators, each of which may become a program. Programs are then joined for as long as that shortens
// the network. Writes Fusion's programs, program_at, absorbed and order; seeds that fit no program stay as they are.
void group_layers(const Graph& graph, const PlanOptions& options, const std::vector<std::vector<int>>& seeds,
                  Fusion& fusion);

}  // namespace camd::infer::cuda
