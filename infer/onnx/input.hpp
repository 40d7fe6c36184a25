// The one input of a model: its shape, and whether camd can feed it. Every engine asks this first.
//
// Threads: functions of their arguments, [any].
#pragma once

#include "infer/engine.hpp"
#include "infer/onnx/file.hpp"

namespace camd::infer {

// The one input of the model with all dimensions known, [1,3,H,W] f32, from the model and the options; width and
// height are written back to `options`. Throws Error(kModel) when they contradict each other or camd cannot feed it.
[[nodiscard]] TensorSpec resolve_input(const ModelDescription& model, InputOptions& options);

// Writes the resolved shape into the file's graph input, so that a dynamic model becomes a static one.
void fix_input_shape(OnnxFile& file, const TensorSpec& input);

}  // namespace camd::infer
