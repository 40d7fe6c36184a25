// Models that take pictures in another form than camd feeds them, made to take them in that one.
//
// Threads: functions of their arguments, [any].
#pragma once

#include "infer/engine.hpp"
#include "infer/onnx/file.hpp"

namespace camd::infer {

// Where the one input is [3,H,W], [H,W,3], or either with one channel, it becomes [1,3,H,W] and so on, and a Squeeze in
// front of the graph takes the batch away. Torchvision's own example exports its detectors so. Does nothing to other
// models.
void take_pictures_without_batch(OnnxFile& file);
// Where the one input is [1,1,H,W] or [1,H,W,1], it becomes [1,3,H,W] or [1,H,W,3], and a convolution in front of the
// graph weighs the channels as ITU-R BT.601 does (0.299 R + 0.587 G + 0.114 B), as OpenCV, Pillow and Edge Impulse do.
// Does nothing to other models. `color`: the order in which the channels come.
void take_grey_pictures(OnnxFile& file, ColorOrder color);

}  // namespace camd::infer
