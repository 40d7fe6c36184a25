// part_residuals(): residuals of depthwise convolutions that are made beside what these read. Private to the planner.
//
// Threads: a function of its arguments, [any].
#pragma once

#include "infer/graph/graph.hpp"

namespace camd::infer::cuda {

// Such a residual becomes a sum behind the convolution, if a dense convolution alone reads the result: a tile program
// adds it while it loads. So neither waits for the other. Attention adds the positions of its values in this way.
void part_residuals(Graph& graph);

}  // namespace camd::infer::cuda
