// Selections of channels, as networks that shuffle channels are full of them. Private to the planner.
//
// Threads: a function of its arguments, [any].
#pragma once

#include "infer/graph/graph.hpp"

namespace camd::infer::cuda {

// Takes selections of channels off the way from one convolution to the next. Changes `graph`:
//  - A 1x1 convolution of some channels of an image reads the whole image, with weights of 0 for the others.
//  - A depthwise convolution of channels in another order computes them in theirs; what reads it finds them there.
//  - The parts of a concatenation begin at multiples of 8 channels, so that kernels can write them where they belong.
//    What fills the gaps has weights of 0.
void fold_selections(Graph& graph);

}  // namespace camd::infer::cuda
