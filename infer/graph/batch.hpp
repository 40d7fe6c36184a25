// Models that were exported with a fixed batch of several pictures, made to take one.
//
// Threads: a function of its arguments, [any].
#pragma once

#include "infer/engine.hpp"
#include "infer/onnx/file.hpp"

namespace camd::infer {

// Rewrites a model whose only input has a fixed batch N > 1 to a batch of one: the input's first dimension, and N where
// it stands first in the constant target of a Reshape. Does nothing to other models.
// The graph's tensors are worked out for both batches. Only if each is as before but for a first dimension that is N
// times smaller, the pictures of a batch do not mix, and the first one's outputs are what the model gives for it alone.
// Throws Error(kModel) saying so where that is not the case. `options` gives the size that the model leaves open.
void take_single_pictures(OnnxFile& file, const InputOptions& options);
// The same, and before it take_pictures_without_batch() and take_grey_pictures(): afterwards the model takes one
// picture as camd feeds it, or resolve_input() refuses it.
void take_camera_pictures(OnnxFile& file, const InputOptions& options);

}  // namespace camd::infer
