// separable(): a depthwise 3x3 convolution and the 1x1 convolution behind it, as one kernel on the tensor cores, in
// f16. No CUDA header is needed to include this one.
//
// Threads: as infer/cuda/kernels/launch.hpp says.
#pragma once

#include "infer/cuda/kernels/image.hpp"
#include "infer/cuda/kernels/launch.hpp"
#include "infer/graph/graph.hpp"

namespace camd::infer::cuda {

// The result of the depthwise part stays on the chip. Weights are packed by infer/cuda/plan/packing.hpp.
struct SeparableArguments {
  Image x;  // f16
  // The image is of pairs of f16: behind the channels of a pixel, rounded up to 8, lie the differences that rounding
  // them to f16 took away. Then the image loses nothing.
  bool x_pairs = false, y_pairs = false;
  const void* depthwise = nullptr;        // f16 [c8 / 8][9][8], c8 = c rounded up to 8
  const float* depthwise_bias = nullptr;  // [c8]
  Activation depthwise_activation;
  const void* pointwise = nullptr;        // packed, k = c, n = y.c
  const float* pointwise_bias = nullptr;  // [n16], n16 = y.c rounded up to 16
  Activation activation;
  Image y;         // f16
  int stride = 1;  // of the depthwise part: 1 or 2
  int pad_top = 1, pad_left = 1;
  int tile = 0;  // index into kSeparableTiles
};
int separable(const SeparableArguments& arguments, const LaunchContext& context);

}  // namespace camd::infer::cuda
