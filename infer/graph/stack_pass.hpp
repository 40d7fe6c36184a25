// The pass for values that are stacked only to be summed: BiFPN's fusion of levels, as exporters write it.
//
// Threads: a function of its argument, [any]. Private to infer/.
#pragma once

#include "infer/graph/graph.hpp"

namespace camd::infer {

// A sum, a largest or a smallest along the axis on which a Concat puts single elements side by side, where wanted each
// multiplied by a constant, becomes a Binary of the parts themselves, in the parts' own shape: a picture stays a
// picture. Says whether anything changed.
bool unstack_reductions(Graph& graph);

}  // namespace camd::infer
