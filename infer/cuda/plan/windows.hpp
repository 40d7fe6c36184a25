// Convolutions of windows smaller than 3x3. Private to the planner.
//
// Threads: a function of its arguments, [any].
#pragma once

#include "infer/graph/graph.hpp"

namespace camd::infer::cuda {

// A convolution of 2x2, 1x2, 1x3 and the like becomes one of 3x3 whose other weights are zero: the tensor cores'
// kernels know 1x1 and 3x3. A second call changes nothing.
[[nodiscard]] Graph with_whole_windows(const Graph& graph);

}  // namespace camd::infer::cuda
