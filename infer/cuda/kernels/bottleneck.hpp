// bottleneck(): a 1x1 convolution, a depthwise 3x3 one and another 1x1 one behind each other, as one kernel on the
// tensor cores, in f16. No CUDA header is needed to include this one.
//
// Threads: as infer/cuda/kernels/launch.hpp says.
#pragma once

#include <cstdint>

#include "infer/cuda/kernels/image.hpp"
#include "infer/cuda/kernels/launch.hpp"
#include "infer/graph/graph.hpp"

namespace camd::infer::cuda {

// What lies between the convolutions stays on the chip. Weights are packed by infer/cuda/plan/packing.hpp.
struct BottleneckArguments {
  Image x;  // f16
  // [front_groups + kept_groups + kept.c rounded up to 8]: which groups of 8 channels of x the first convolution reads;
  // which ones `kept` is made of; and for each channel of `kept` its place in those.
  const std::uint16_t* table = nullptr;
  int front_groups = 0, kept_groups = 0;
  const void* front = nullptr;        // packed, k = 8 * front_groups, n = c
  const float* front_bias = nullptr;  // [c rounded up to 16]
  Activation front_activation;
  int c = 0;                              // channels between the convolutions
  const void* depthwise = nullptr;        // f16 [c8 / 8][9][8], c8 = c rounded up to 8
  const float* depthwise_bias = nullptr;  // [c8]
  Activation depthwise_activation;
  const void* pointwise = nullptr;        // packed, k = c, n = y.c
  const float* pointwise_bias = nullptr;  // [y.c rounded up to 16]
  Activation activation;
  Image y;         // f16
  int stride = 1;  // of the depthwise part: 1 or 2
  int pad_top = 1, pad_left = 1;
  // x is added to the result; then it has as many pixels and channels, and front_groups has all of them in their order.
  bool adds_x = false, activation_first = false;
  // Channels of x that are copied elsewhere, as networks do that shuffle channels; or no data. Then the stride is 1 and
  // the pads are.
  Image kept;
  int tile = 0;  // index into kBottleneckTiles
};
int bottleneck(const BottleneckArguments& arguments, const LaunchContext& context);

}  // namespace camd::infer::cuda
