// What a file's name says of a model's format.
//
// Threads: a function of its arguments, [any].
#pragma once

#include <array>
#include <string_view>
#include <utility>

namespace camd::base {

// Whose format a file with this extension, as ".pt", is, for messages; "" for others. camd reads none of them: models
// come as ONNX.
[[nodiscard]] constexpr std::string_view foreign_model_format(std::string_view extension) noexcept {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 19> kFormats{{
      {".pt", "PyTorch"},
      {".pth", "PyTorch"},
      {".pt2", "PyTorch"},
      {".ckpt", "PyTorch"},
      {".torchscript", "PyTorch"},
      {".safetensors", "Hugging Face"},
      {".tflite", "TensorFlow Lite"},
      {".h5", "Keras"},
      {".keras", "Keras"},
      {".engine", "TensorRT"},
      {".trt", "TensorRT"},
      {".plan", "TensorRT"},
      {".pdmodel", "PaddlePaddle"},
      {".pdiparams", "PaddlePaddle"},
      {".mlmodel", "Core ML"},
      {".caffemodel", "Caffe"},
      {".rknn", "Rockchip"},
      {".hef", "Hailo"},
      {".weights", "Darknet"},
  }};
  for (const auto& [known, format] : kFormats) {
    if (known == extension) return format;
  }
  return "";
}

}  // namespace camd::base
