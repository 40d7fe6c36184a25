// How a picture is fed to a model whose exporter wrote down what kind of detector it is.
//
// Threads: a function of its arguments, [any].
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "infer/tensor.hpp"

namespace camd::pipeline {

// The keys of `input:`, as "color: rgb, scale: 0.00392157"; empty where the exporter has not said it. `metadata` is
// what stands beside the graph (infer/metadata.hpp): LibreYOLO writes the family and its size (`model_family`,
// `model_size`) and which corner a picture is put into (`letterbox_pad`), Ultralytics that a network is a YOLO or
// an RT-DETR (`description`).
[[nodiscard]] std::string fed_as(const std::map<std::string, std::string>& metadata);

// The keys for a kind of detector that is usually fed with `usual`, where inputs beside the picture tell more. The
// DETRs of Hugging Face alone take a mask of pixels, which they scale as ImageNet's. RT-DETR, D-FINE and DEIM, which
// take sizes, are trained on stretched pictures.
[[nodiscard]] std::string fed_beside(const std::vector<infer::TensorSpec>& size_inputs, const std::string& usual);

// `usual`, with the order and the range of pixels that the file says in ONNX' own words (onnx/onnx, MetadataProps.md),
// as Azure's Custom Vision writes them: `Image.BitmapPixelFormat` and `Image.NominalPixelRange`.
[[nodiscard]] std::string fed_by_format(const std::map<std::string, std::string>& metadata, const std::string& usual);

// Whether Paddle2ONNX has written the model, by the name of its graph, or PaddleDetection's networks take a factor for
// each side.
[[nodiscard]] bool is_of_paddle(const std::string& graph, const std::vector<infer::TensorSpec>& size_inputs);

// How many cells a picture [1,3,h,w] has at the strides 8, 16 and so on up to `last_stride`, all together.
[[nodiscard]] std::int64_t cells_up_to(std::int64_t last_stride, const infer::Shape& picture);

// The keys for a network of PaddleDetection, all of which are trained on stretched pictures. `boxes`: how many there
// are before any is chosen, or 0. Only PicoDet has one for each cell of four strides.
[[nodiscard]] std::string fed_by_paddle(std::int64_t boxes, const infer::Shape& picture, const std::string& usual);

}  // namespace camd::pipeline
