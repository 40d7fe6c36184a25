// Models that take grey pictures, made to take coloured ones: camd feeds three channels.
//
// Threads: a function of its arguments, [any].
#pragma once

#include "infer/engine.hpp"
#include "infer/onnx/file.hpp"

namespace camd::infer {

// Where the one input is [1,1,H,W] or [1,H,W,1], it becomes [1,3,H,W] or [1,H,W,3], and a convolution in front of the
// graph weighs the channels as ITU-R BT.601 does (0.299 R + 0.587 G + 0.114 B), as OpenCV, Pillow and Edge Impulse do.
// Does nothing to other models. `color`: the order in which the channels come.
void take_grey_pictures(OnnxFile& file, ColorOrder color);

}  // namespace camd::infer
