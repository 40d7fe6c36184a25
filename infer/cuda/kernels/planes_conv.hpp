// planes_conv(): the first convolution of a network in f32, from the planes of its input. No CUDA header is needed to
// include this one.
//
// Threads: as infer/cuda/kernels/launch.hpp says.
#pragma once

#include "infer/cuda/kernels/image.hpp"
#include "infer/cuda/kernels/launch.hpp"
#include "infer/graph/graph.hpp"
#include "infer/tensor.hpp"

namespace camd::infer::cuda {

inline constexpr int kMostPlanes = 4;
// Kernels of 3x3 and 6x6 with stride 2 are there.
[[nodiscard]] constexpr bool planes_conv_takes(int kernel, int stride) noexcept {
  return (kernel == 3 || kernel == 6) && stride == 2;
}

// Products and sums are f32.
struct PlanesConvArguments {
  const float* planes = nullptr;  // [c][height][width]
  int c = 3, height = 0, width = 0;
  const float* weights = nullptr;  // [c][kernel][kernel][n16], n16 = y.c rounded up to 16
  const float* bias = nullptr;     // [n16]
  Activation activation;
  int kernel = 3, stride = 2, pad_top = 1, pad_left = 1;
  Image y;
  DataType type = DataType::kF32;  // of y
};
int planes_conv(const PlanesConvArguments& arguments, const LaunchContext& context);

}  // namespace camd::infer::cuda
