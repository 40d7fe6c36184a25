// The passes of lower_model(). Each changes a Graph so that it computes the same with less work.
//
// Threads: functions of their arguments, [any]. Private to infer/ but for its tests.
// Invariants: the graph's input, its outputs (order, shapes, meaning) and the invariants of infer/graph/graph.hpp stay.
#pragma once

#include "infer/graph/lower_model.hpp"

namespace camd::infer {

// All passes in their order, or only remove_unused() when !options.optimize.
void run_passes(Graph& graph, const LowerOptions& options);

// Multiplication and addition per channel after a Conv, ConvTranspose or MatMul go into its weight and bias.
void fold_channel_arithmetic(Graph& graph);
// Zero padding goes into the convolution or average pooling that reads it, padding by the lowest number into the max
// pooling.
void fold_padding(Graph& graph);
// x*sigmoid(x), x*clip(x+3, 0, 6)/6, x*(1+erf(x/sqrt(2)))/2 and their like become one function.
void recognise_functions(Graph& graph);
// Op::activation.
void fuse_activations(Graph& graph);
// A number times a bounded result, and plus a number, becomes other weights and other bounds: f(max(x, 0)) is
// max(f(x), f(0)). For networks with a learned number behind each ReLU.
void fold_behind_bounds(Graph& graph);
// Conv's residual.
void fuse_residuals(Graph& graph);

}  // namespace camd::infer
