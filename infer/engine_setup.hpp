// What every engine does with a model and its options before it prepares anything.
//
// Threads: functions of their arguments, [any].
#pragma once

#include <string>
#include <string_view>

#include "infer/engine.hpp"
#include "infer/onnx_file.hpp"

namespace camd::infer {

// Whether an input that is declared so takes its channels last, [1,H,W,3], as models from TensorFlow do. Engines of our
// own turn it round in the graph: what they are fed is planar either way.
[[nodiscard]] bool takes_pixels_last(const Shape& declared) noexcept;

// The one input of the model with all dimensions known, [1,3,H,W] f32, from the model and the options; width and
// height are written back to `options`. Throws Error(kModel) when they contradict each other or camd cannot feed it.
[[nodiscard]] TensorSpec resolve_input(const ModelDescription& model, InputOptions& options);

// Writes the resolved shape into the file's graph input, so that a dynamic model becomes a static one.
void fix_input_shape(OnnxFile& file, const TensorSpec& input);

// Another library's message in one printable line.
[[nodiscard]] std::string one_line(std::string_view text);

}  // namespace camd::infer
