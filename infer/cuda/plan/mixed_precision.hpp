// Mixed precision: which of a network's convolutions are computed in f32, so that f16 does for the rest. Some networks
// amplify what f16 rounds in some of their layers a thousandfold. When an engine is made, it computes one picture
// in f16 and in f32 and compares the outputs (infer/cuda/trial.hpp, docs/adr/0039-f16-by-layer.md).
//
// Threads: functions of their arguments, [any]; called while an engine is made. No GPU is needed.
#pragma once

#include <cstddef>
#include <vector>

#include "infer/cuda/plan/plan.hpp"
#include "infer/graph/graph.hpp"
#include "infer/graph/trial.hpp"

namespace camd::infer::cuda {

// The graph with its convolutions' weights as f16 has them.
[[nodiscard]] Graph with_rounded_weights(const Graph& graph);

// What was measured for a plan's steps, for each of the graph's convolutions; 0 for one that has no step of its own.
[[nodiscard]] std::vector<float> of_convolutions(const Graph& graph, const Plan& plan, const std::vector<float>& steps);

// The convolutions of `in_f32` and those that others of f32 surround: a value that crosses from one type to the other
// costs a kernel, and a small convolution takes hardly longer in f32. Convolutions are added where that leaves fewer
// such values.
[[nodiscard]] std::vector<bool> with_fewer_conversions(const Graph& graph, std::vector<bool> in_f32);

// For each of the graph's operators, whether it is computed in f32 where these of its convolutions are
// (PlanOptions::f32_convolutions). Empty: none.
[[nodiscard]] std::vector<bool> f32_ops(const Graph& graph, const std::vector<bool>& wanted);

}  // namespace camd::infer::cuda
