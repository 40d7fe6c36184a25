// simplify_movement(): the pass over Reshape, Transpose, Slice, Gather, Concat, Pad and Resize.
//
// Threads: a function of its argument, [any]. Private to infer/ but for its tests.
#pragma once

#include "infer/graph/graph.hpp"

namespace camd::infer {

// Chains of data movement become shorter: no-ops vanish, neighbours merge, and what only selects or permutes whole
// channels becomes one Gather or Slice over axis 1.
void simplify_movement(Graph& graph);

}  // namespace camd::infer
