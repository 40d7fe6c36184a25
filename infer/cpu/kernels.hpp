// The inner loops of the CPU engine. One source (kernels.inc) is compiled for several instruction sets; kernels() gives
// the best that this machine runs.
//
// Threads: pure functions of their arguments, [any]; several threads run parts of one operator at once.
// Storage. A *blocked* picture keeps eight channels together: [ceil(C/8)][rows][columns][8] f32, so that one vector is
// one pixel of eight channels. Around each block lies a halo of zeros as wide as the convolutions that read it reach,
// so that they need no bounds checks. Lanes beyond C hold nothing of meaning; nobody reads them but to write such
// lanes. *Plain* storage is row-major in the model's order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "infer/graph.hpp"

namespace camd::infer::cpu {

inline constexpr int kLanes = 8;
inline constexpr int kConvBlocks = 4;  // output blocks of a dense convolution that a kernel is given at most

// Sizes and offsets are signed where they are computed; these name the conversions.
[[nodiscard]] constexpr std::size_t at(std::int64_t i) noexcept { return static_cast<std::size_t>(i); }
[[nodiscard]] constexpr int number(std::int64_t i) noexcept { return static_cast<int>(i); }

struct Blocked {
  float* data = nullptr;  // block 0, row 0, column 0
  std::size_t row = 0;    // floats from a row to the next
  std::size_t block = 0;  // floats from a block to the next
  int channels = 0, height = 0, width = 0;
};

struct ConvArguments {
  Blocked in, out;
  const float* weights = nullptr;  // packed, see pack_dense() and pack_depthwise()
  const float* bias = nullptr;     // padded to whole blocks
  Pair2 kernel, stride, dilation;
  int top = 0, left = 0;  // pads
  Activation activation;
  bool activation_first = false;
  const float* residual = nullptr;  // as `out`
  std::size_t residual_row = 0, residual_block = 0;
};

struct PoolArguments {
  Blocked in, out;
  Pool pool;
};

struct ResizeArguments {
  Blocked in, out;
  const Resize* resize = nullptr;
};

struct Kernels {
  const char* name;
  // Dense convolution: output blocks [first, first + count), count 1 to kConvBlocks, rows [y0, y1).
  void (*conv)(const ConvArguments&, int first, int count, int y0, int y1) noexcept;
  // The same with `in` plain ([C][H][W], in.row = W, in.block = H*W) and without halo; `scratch` holds
  // conv_planar_scratch() floats.
  void (*conv_planar)(const ConvArguments&, int first, int count, int y0, int y1, float* scratch) noexcept;
  // A 3x3 convolution of stride 1 by Winograd's F(4x4, 3x3): 4x4 tiles [first, last), all output blocks.
  // `in` has a halo for whole tiles; `scratch` holds winograd_scratch() floats, weights come from pack_winograd().
  void (*winograd)(const ConvArguments&, int first, int last, float* scratch) noexcept;
  // Depthwise convolution of one block, rows [y0, y1).
  void (*depthwise)(const ConvArguments&, int block, int y0, int y1) noexcept;
  // Transposed convolutions, dense and depthwise, of one output block; no halo needed.
  void (*transposed)(const ConvArguments&, int block, int y0, int y1) noexcept;
  void (*transposed_depthwise)(const ConvArguments&, int block, int y0, int y1) noexcept;
  void (*pool)(const PoolArguments&, int block, int y0, int y1) noexcept;
  void (*resize)(const ResizeArguments&, int block, int y0, int y1) noexcept;
  // values = f(values)
  void (*activate)(float* values, std::size_t count, const Activation&) noexcept;
  // out = f(a op b); a step of 0 repeats one number.
  void (*binary)(Binary::Kind, const float* a, int a_step, const float* b, int b_step, float* out, std::size_t count,
                 const Activation&) noexcept;
  // Like binary, with eight numbers of `b` repeated for every pixel; swapped: b op a.
  void (*binary_lanes)(Binary::Kind, const float* a, const float* b, bool swapped, float* out, std::size_t pixels,
                       const Activation&) noexcept;
  // Rows [m0, m1) of out[M,N] = f(a[M,K] * b[K,N] + bias); bias may be null, its strides 0 or those of the output.
  void (*matmul)(const float* a, const float* b, const float* bias, std::size_t bias_row, int bias_step, float* out,
                 int m0, int m1, int k, int n, const Activation&) noexcept;
  // From and to plain [C][H][W], one block.
  void (*to_blocked)(const float* plain, const Blocked& out, int block) noexcept;
  void (*to_plain)(const Blocked& in, float* plain, int block) noexcept;
};

// What this machine runs, the best first.
[[nodiscard]] std::vector<const Kernels*> kernel_sets();
[[nodiscard]] const Kernels& kernels();                    // the best of them
[[nodiscard]] const Kernels& baseline_kernels() noexcept;  // what every machine of this architecture runs

// Forced inline: it is also compiled with wider instruction sets.
[[nodiscard, gnu::always_inline]] inline int blocks(int channels) noexcept { return (channels + kLanes - 1) / kLanes; }

// Floats of scratch that conv_planar needs.
[[nodiscard]] std::size_t conv_planar_scratch(const ConvArguments& arguments) noexcept;

// Floats from one frequency to the next. An odd number of cache lines: a tile's 36 numbers must not fall into few sets
// of the cache.
[[nodiscard, gnu::always_inline]] inline std::size_t winograd_plane(std::size_t tiles, int blocks) noexcept {
  constexpr std::size_t kCacheLine = 16;
  return ((tiles * static_cast<std::size_t>(blocks) * kLanes + kCacheLine - 1) / kCacheLine | 1U) * kCacheLine;
}
[[nodiscard]] std::size_t winograd_scratch(const ConvArguments& arguments, int tiles) noexcept;

// Weights [M,C,kh,kw] for conv: per pair of output blocks (a last odd block alone)
// [input channel][ky][kx][8 or 16 output lanes] with channels in whole blocks: [block of C][ky][kx][8][lanes].
[[nodiscard]] std::vector<float> pack_dense(const Constant& weight);
// 36 times what pack_dense() makes of a 1x1 convolution: the 3x3 weights at each frequency.
[[nodiscard]] std::vector<float> pack_winograd(const Constant& weight);
// [M/8][ky][kx][8] from [M,1,kh,kw] (also of transposed depthwise convolutions, whose shape is the same).
[[nodiscard]] std::vector<float> pack_depthwise(const Constant& weight);
// Transposed [C,M,kh,kw]: [M/8][ky][kx][C][8].
[[nodiscard]] std::vector<float> pack_transposed(const Constant& weight);
[[nodiscard]] std::vector<float> pad_to_blocks(const std::vector<float>& values);

}  // namespace camd::infer::cpu
