// The graph passes of lower_model(): each rewrites a Graph into an equal, cheaper one.
//
// Threads: functions of their arguments, [any]. Private to infer/ but for its tests.
// Invariants: the graph's input, its outputs (order, shapes, meaning) and the invariants of infer/graph.hpp stay.
#pragma once

#include "infer/graph.hpp"

namespace camd::infer {

// All passes in their order, or only remove_unused() when !options.optimize.
void run_passes(Graph& graph, const LowerOptions& options);

// Multiplication and addition per channel after a Conv, ConvTranspose or MatMul go into its weight and bias.
void fold_channel_arithmetic(Graph& graph);
// Zero padding goes into the convolution or average pooling that reads it.
void fold_padding(Graph& graph);
// x*sigmoid(x), x*clip(x+3, 0, 6)/6 and their like become one function.
void recognise_functions(Graph& graph);
// Chains of data movement: no-ops vanish, neighbours merge, and what only selects or permutes whole channels becomes
// one Gather or Slice over axis 1.
void simplify_movement(Graph& graph);
// Op::activation.
void fuse_activations(Graph& graph);
// Conv's residual.
void fuse_residuals(Graph& graph);
// Drops ops that no output needs, and values that no op mentions.
void remove_unused(Graph& graph);

}  // namespace camd::infer
