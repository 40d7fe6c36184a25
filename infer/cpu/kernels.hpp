// The inner loops of the CPU engine. One source, kernels.inc, is compiled for several instruction sets. kernels()
// returns the best set that this machine runs.
//
// Threads: pure functions of their arguments, [any] [no-alloc]. Several threads may run parts of one operator at once.
// Storage: a *blocked* picture keeps eight channels together, [ceil(C/8)][rows][columns][8] f32, so that one vector is
// one pixel of eight channels. Around each block is a halo of zeros. It is as wide as the convolutions that read the
// picture reach, so they need no bounds checks. Lanes beyond channel C hold arbitrary numbers; only lanes beyond C are
// computed from them. *Plain* storage is row-major in the order of the model's dimensions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "infer/graph/graph.hpp"
#include "infer/half.hpp"

namespace camd::infer::cpu {

inline constexpr int kLanes = 8;
inline constexpr std::int64_t kMostPickedFrom = 1 << 24;  // below that f32 tells all positions apart
inline constexpr int kConvBlocks = 4;  // output blocks of a dense convolution that a kernel is given at most

// Sizes and offsets are computed as signed numbers. at() makes one an index, number() an int.
[[nodiscard, gnu::always_inline]] constexpr std::size_t at(std::int64_t i) noexcept {
  return static_cast<std::size_t>(i);
}
[[nodiscard, gnu::always_inline]] constexpr int number(std::int64_t i) noexcept { return static_cast<int>(i); }

struct Blocked {
  float* data = nullptr;  // block 0, row 0, column 0
  std::size_t row = 0;    // floats from a row to the next
  std::size_t block = 0;  // floats from a block to the next
  int channels = 0, height = 0, width = 0;
};

// A pair of QuantizeLinear and DequantizeLinear: x becomes min(max(round(x / divisor) * scale, low), high).
struct Requantize {
  float divisor = 0.0F;  // 0: x is whole already
  float scale = 0.0F;    // 0: there is no pair
  float low = 0.0F, high = 0.0F;
};

struct ConvArguments {
  Blocked in, out;
  // Packed, see pack_dense() and pack_depthwise(): f32, or Kernels::half for its `conv`.
  const void* weights = nullptr;
  const float* bias = nullptr;  // padded to whole blocks
  Pair2 kernel, stride, dilation;
  int top = 0, left = 0;  // pads
  Activation activation;
  bool activation_first = false;
  const float* residual = nullptr;  // as `out`
  std::size_t residual_row = 0, residual_block = 0;
  Requantize requantize;  // after all else
};

struct PoolArguments {
  Blocked in, out;
  Pool pool;
};

struct ResizeArguments {
  Blocked in, out;
  const Resize* resize = nullptr;
};

// y = f((x - mean) / sqrt(variance + epsilon) * gain + offset), with mean and variance over `group` neighbouring
// channels of the whole picture.
struct NormalizeArguments {
  Blocked in, out;
  const float* gain = nullptr;    // per channel, padded to whole blocks
  const float* offset = nullptr;  // likewise
  int group = 1;
  float epsilon = 0.0F;
  Activation activation;
};

struct ByteKernels;  // infer/cpu/bytes.hpp

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
  // Blocks [first, first + count), in which groups of channels lie whole; `scratch` holds 2 * count * kLanes floats.
  void (*normalize)(const NormalizeArguments&, int first, int count, float* scratch) noexcept;
  // out[i] = reduction of in[k * inner + i] over k in [0, size), for i in [0, inner). Sum, mean, sum of squares,
  // largest and smallest only.
  void (*reduce)(Reduce::Kind, const float* in, float* out, std::size_t size, std::size_t inner) noexcept;
  // out[k * inner + i] = softmax over k in [0, size) of in[k * inner + i], for i in [i0, i1); log: its logarithm.
  void (*softmax)(const float* in, float* out, std::size_t size, std::size_t inner, std::size_t i0, std::size_t i1,
                  bool log) noexcept;
  // out = exp(in - largest), where the largest is that of in; returns their sum. `out` may be `in`.
  float (*exponentials)(const float* in, float* out, std::size_t size) noexcept;
  // values = f(values)
  void (*activate)(float* values, std::size_t count, const Activation&) noexcept;
  void (*requantize)(float* values, std::size_t count, const Requantize&) noexcept;
  // out = f(a op b); a step of 0 repeats one number.
  void (*binary)(Binary::Kind, const float* a, int a_step, const float* b, int b_step, float* out, std::size_t count,
                 const Activation&) noexcept;
  // Like binary, with eight numbers of `b` repeated for every pixel; swapped: b op a.
  void (*binary_lanes)(Binary::Kind, const float* a, const float* b, bool swapped, float* out, std::size_t pixels,
                       const Activation&) noexcept;
  // out[i] = from[indices[i]] of `size` numbers, at most kMostPickedFrom; indices as those of Pick.
  void (*pick)(const float* from, int size, const float* indices, float* out, std::size_t count) noexcept;
  // Rows [m0, m1) of out[M,N] = f(a[M,K] * b[K,N] + bias); bias may be null, its strides 0 or those of the output;
  // `scratch` holds matmul_scratch() floats or is null.
  void (*matmul)(const float* a, const float* b, const float* bias, std::size_t bias_row, int bias_step, float* out,
                 int m0, int m1, int k, int n, const Activation&, float* scratch) noexcept;
  // out[c * out_row + r] = in[r * in_row + c]
  void (*transpose)(const float* in, std::size_t in_row, float* out, std::size_t out_row, int rows,
                    int columns) noexcept;
  // From and to plain [C][H][W], one block.
  void (*to_blocked)(const float* plain, const Blocked& out, int block) noexcept;
  void (*to_plain)(const Blocked& in, float* plain, int block) noexcept;
  // What `conv` takes its weights in and multiplies; nothing: f32. All else is in f32 always.
  std::optional<HalfType> half{};
  int together = 1;  // input channels of an output whose weights `conv` wants side by side, see pack_dense()
  // For quantised networks; null where the processor has no dot products of bytes: then they run in f32.
  const ByteKernels* bytes = nullptr;
};

// What this machine runs, the best first.
[[nodiscard]] std::vector<const Kernels*> kernel_sets();
[[nodiscard]] const Kernels& kernels();  // the best of them
// The best of them with `conv` in half precision; null: this processor does not compute with that type.
[[nodiscard]] const Kernels* half_kernels(HalfType type);

// Forced inline: it is also compiled with wider instruction sets.
[[nodiscard, gnu::always_inline]] inline int blocks(int channels) noexcept { return (channels + kLanes - 1) / kLanes; }

// Floats of scratch that matmul uses: two of the widest registers for each row of b.
[[nodiscard, gnu::always_inline]] constexpr std::size_t matmul_scratch(int k) noexcept {
  return static_cast<std::size_t>(k) * 4 * kLanes;
}

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
// together: so many of the eight channels of a lane lie side by side, [8 / together][lanes][together].
[[nodiscard]] std::vector<float> pack_dense(const Constant& weight, int together = 1);
// 36 times what pack_dense() makes of a 1x1 convolution: the 3x3 weights at each frequency.
[[nodiscard]] std::vector<float> pack_winograd(const Constant& weight);
// [M/8][ky][kx][8] from [M,1,kh,kw] (also of transposed depthwise convolutions, whose shape is the same).
[[nodiscard]] std::vector<float> pack_depthwise(const Constant& weight);
// Transposed [C,M,kh,kw]: [M/8][ky][kx][C][8].
[[nodiscard]] std::vector<float> pack_transposed(const Constant& weight);
[[nodiscard]] std::vector<float> pad_to_blocks(const std::vector<float>& values);

}  // namespace camd::infer::cpu
