// The picture that a model takes: its shape, and whether camd can feed it. Every engine asks this first. And inputs
// beside it that say how large it is.
//
// Threads: functions of their arguments, [any].
#pragma once

#include <optional>
#include <string_view>

#include "infer/engine.hpp"
#include "infer/onnx/file.hpp"

namespace camd::infer {

// The one input of the model with all dimensions known, [1,3,H,W] f32, from the model and the options; width and
// height, and where InputOptions::scale_by_type has it mean and scale, are written back to `options`. Throws
// Error(kModel) when they contradict each other or camd cannot feed it.
[[nodiscard]] TensorSpec resolve_input(const ModelDescription& model, InputOptions& options);

// An input beside the picture that is 1 where there is picture, and 0 where a batch was filled up.
inline constexpr std::string_view kPixelMask = "pixel_mask";

// The value of an input that says how large the picture is, how it was scaled, or where it is; nothing for other
// inputs. Graphs that are told a size put boxes out in pixels of that size. camd tells them the network's own, so boxes
// are in the network's pixels, as those of all other models. `picture` is [1,3,H,W]. By name, of f32, i32 or i64, as
// exporters write it:
// - orig_target_sizes [1,2]: width, height (RT-DETR, D-FINE, DEIM: github.com/lyuwenyu/RT-DETR, tools/export_onnx.py)
// - im_shape [1,2]: height, width; scale_factor [1,2]: 1, 1 (github.com/PaddlePaddle/PaddleDetection, deploy/)
// - image_shape [1,2]: height, width (YOLOv3 of github.com/onnx/models)
// - pixel_mask [1,h,w]: ones, also as truths; open sizes are the picture's (DETR and its kind in
//   github.com/huggingface/transformers, whose exporter leaves h and w at 64)
[[nodiscard]] std::optional<onnx::TensorProto> size_input(const onnx::ValueInfoProto& input, const Shape& picture);

// Writes the resolved shape into the file's graph input, so that a dynamic model becomes a static one, and gives
// size_input()s their values.
void fix_input_shape(OnnxFile& file, const TensorSpec& input);

}  // namespace camd::infer
