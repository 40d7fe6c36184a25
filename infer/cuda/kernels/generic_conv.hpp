// generic_conv(): convolution of any kernel, stride, dilation and group count, with sums in f32. It takes what the
// tensor-core kernels do not, and everything in f32 mode. No CUDA header is needed to include this one.
//
// Threads: as infer/cuda/kernels/launch.hpp says.
#pragma once

#include <cstdint>

#include "infer/cuda/kernels/image.hpp"
#include "infer/cuda/kernels/launch.hpp"
#include "infer/graph/graph.hpp"
#include "infer/tensor.hpp"

namespace camd::infer::cuda {

// Which of the three kernels runs it: kDense for one group, kDepthwise for one input and one output channel a group,
// kAny for the rest and for every transposed convolution. `c` and `n`: input and output channels.
enum class GenericConvKind : std::uint8_t { kDense, kDepthwise, kAny };
[[nodiscard]] inline GenericConvKind generic_conv_kind(int groups, int c, int n, bool transposed) noexcept {
  if (transposed) return GenericConvKind::kAny;
  if (groups == 1) return GenericConvKind::kDense;
  return groups == c && c == n ? GenericConvKind::kDepthwise : GenericConvKind::kAny;
}
inline constexpr int kGenericConvColumns = 32;  // output channels in a row of weights are rounded up to it
inline constexpr int kGenericConvRows = 16;     // rows (input channels) that a dense one takes at a time

// As Conv or ConvTranspose of infer/graph/graph.hpp.
struct GenericConvArguments {
  Image x, y;
  DataType type = DataType::kF32;  // of x, y and residual
  // [kh * kw][rows][columns], zeros where there is no weight. Columns are output channels, rounded up to
  // kGenericConvColumns. Rows are the input channels
  // of a group; for a dense convolution they are rounded up to kGenericConvRows.
  // For tensor cores: pack_tf32() of infer/cuda/plan/packing.hpp.
  const float* weights = nullptr;
  const float* bias = nullptr;  // [columns]
  Image residual;               // of y's size; none where its data is null
  Pair2 kernel, stride{1, 1}, dilation{1, 1};
  int pad_top = 0, pad_left = 0;
  int groups = 1;
  // 0: no tensor cores. For a dense convolution of f32, on a GPU of sm_80 or later: 1 cuts the last 13 bits of inputs
  // and weights off (TF32), 3 loses nothing but the product of what is cut off from both.
  int products = 0;
  bool transposed = false;
  bool activation_first = false;
  Activation activation;
  // For a squeeze() behind a depthwise convolution: [depthwise_sum_parts()][sum_pitch] of f32, where element c of a
  // line is the sum of some of y's pixels in channel c. All lines together hold each pixel once. None where null.
  float* y_sums = nullptr;
  // The same of x. Only where the middle tap of pixel (y, x) is pixel (y, x) of an image of y's size.
  float* x_sums = nullptr;
  int sum_pitch = 0;
};
inline constexpr int kDepthwiseTaps = 256;  // of its kernel in shared memory, 32 KiB; more have no sums
// Blocks of a depthwise convolution with sums that share an image of `pixels`.
inline constexpr int kDepthwiseSumPixels = 32;
[[nodiscard]] constexpr int depthwise_sum_parts(int pixels) {
  return (pixels + kDepthwiseSumPixels - 1) / kDepthwiseSumPixels;
}
int generic_conv(const GenericConvArguments& arguments, const LaunchContext& context);
// The part of generic_conv() for arguments with products.
int tensor_core_f32(const GenericConvArguments& arguments, const LaunchContext& context);

}  // namespace camd::infer::cuda
