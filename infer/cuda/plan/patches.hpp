// Convolutions of patches of pixels that lie behind each other as channels. Private to the planner.
//
// Threads: a function of its arguments, [any].
#pragma once

#include "infer/graph/graph.hpp"

namespace camd::infer::cuda {

// A Concat of every other pixel of a value, once for each of four places (the "Focus" of YOLOv5 and YOLOX), and the
// convolution that alone reads it, become one convolution of the value itself, twice as wide, with twice the stride:
// the same products without the copies. A second call changes nothing.
[[nodiscard]] Graph with_convolved_patches(const Graph& graph);

}  // namespace camd::infer::cuda
