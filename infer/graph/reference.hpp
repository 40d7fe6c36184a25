// The reference evaluator: each operator of infer/graph/graph.hpp in its simplest correct form, f32 with sums in f64.
// Lowering folds constants with it, and tests compare engines with it. It is far too slow for frames.
//
// Threads: functions of their arguments, [any].
#pragma once

#include <vector>

#include "infer/graph/graph.hpp"

namespace camd::infer {

// What becomes of whole numbers and truths.
enum class Folded : std::uint8_t {
  kTyped,   // they are i64: constants of a model
  kFloats,  // they are f32, as engines have them
};

// The result of one op. inputs[i] is null where the op has kNoValue. Operators that only move data, and elementwise
// arithmetic, also take i64 constants. Throws Error(kModel) when the types do not suit the operator.
[[nodiscard]] Constant evaluate(const Op& op, const std::vector<const Constant*>& inputs, const Shape& output_shape,
                                Folded folded = Folded::kTyped);

// All outputs of the graph for an input of its shape.
[[nodiscard]] std::vector<Constant> run_reference(const Graph& graph, const std::vector<float>& input);

// f(x), in f64.
[[nodiscard]] double apply(const Activation& activation, double x) noexcept;

}  // namespace camd::infer
