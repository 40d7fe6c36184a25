// The pass for convolutions beside each other whose results are added, as networks are trained with (RepVGG,
// MobileOne).
//
// Threads: a function of its argument, [any]. Private to infer/.
#pragma once

#include "infer/graph/graph.hpp"

namespace camd::infer {

// The sum of two convolutions of one value, or of a convolution and a line per channel of its input, becomes one
// convolution with the sum of their weights. Where one window does not lie within the other, or a branch has another
// reader or an activation, they stay two. Says whether anything changed.
bool join_branches(Graph& graph);

}  // namespace camd::infer
