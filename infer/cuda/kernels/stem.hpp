// stem(): a network's first convolution, which reads the camera's picture. On the tensor cores, in f16. No CUDA header
// is needed to include this one.
//
// Threads: as infer/cuda/kernels/launch.hpp says.
#pragma once

#include <cstdint>

#include "infer/cuda/kernels/image.hpp"
#include "infer/cuda/kernels/launch.hpp"
#include "infer/graph/graph.hpp"
#include "infer/sample.hpp"

namespace camd::infer::cuda {

// What follows a network's first convolution in the same kernel: a depthwise 3x3 (stride 1, padded by 1), then a 1x1.
struct StemBlock {
  int c = 0;                              // channels of the first convolution
  const float* depthwise = nullptr;       // [9][c8], c8 = c rounded up to 8; null: nothing follows
  const float* depthwise_bias = nullptr;  // [c8]
  Activation depthwise_activation;
  // Packed, k = 32, n = y.c. The first 16 are 16 / c8 times the same c8 channels, with the weights in f16. The other 16
  // are the same with the differences that rounding the weights to f16 took away.
  const void* pointwise = nullptr;
  const float* pointwise_bias = nullptr;  // [n16]
  Activation activation;
};

// 3x3, stride 2, 3 input channels. Reads the camera's picture as infer/sample.hpp defines it, or planes of f32 where
// there is none. Writes f16.
struct StemArguments {
  SamplePlan plan;
  PicturePlace picture;
  const float* planes = nullptr;  // [3][network_height][network_width]
  int network_width = 0, network_height = 0;
  const void* weights = nullptr;  // packed for the stem
  const float* bias = nullptr;    // [n8]
  int pad_top = 1, pad_left = 1;
  Activation activation;
  StemBlock block;
  Image y;  // f16: of the last of these layers; all have its height and width
};
// Where a block follows this is stem_block() (infer/cuda/kernels/stem_block.hpp).
int stem(const StemArguments& arguments, const LaunchContext& context);

}  // namespace camd::infer::cuda
