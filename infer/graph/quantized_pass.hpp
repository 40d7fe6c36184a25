// simplify_quantization(): the pass over pairs of QuantizeLinear and DequantizeLinear.
//
// Threads: rewrites its argument and shares no state, [any]. Private to infer/ but for its tests.
#pragma once

#include "infer/graph/graph.hpp"

namespace camd::infer {

// A pair rounds its input to a grid: whole multiples of the scale between two bounds. Lowering writes a pair as six
// ops; here it becomes three, y = clip(round(x / scale) * scale), of which the clip is the product's activation. A
// pair that cannot change a value is removed. Pairs with a scale or zero point for each channel are left alone.
// Every result stays equal (-0 may stand for 0): numbers on a grid are whole before they are scaled, sums of whole
// numbers below 2^24 are exact, and scaling by a positive number keeps the order, so that clipping may come after it.
//  - The two halves of a pair are brought together, where between them values are only moved or chosen (Reshape,
//    Transpose, Slice, Gather, the largest of a window, the nearest pixel), as between ops of QLinearConv's kind.
//  - The zero point goes: it is added before the clip and taken away after it, so it moves the bounds instead.
//  - Equal pairs on one input (exporters write one for each reader) become one.
//  - A pair whose input lies on its grid already is removed, also where between them values are only moved or chosen
//    (Reshape, Transpose, Slice, Gather, Concat, the largest of a window, the nearest pixel, Relu).
//  - A Relu that only a pair reads is removed: the pair's lower bound becomes at least 0.
void simplify_quantization(Graph& graph);

}  // namespace camd::infer
