// Numbers of quantised networks as bytes, and the kernels that work on them. A picture of bytes is blocked as one of
// f32 is (infer/cpu/kernels.hpp): eight channels of a pixel together, with a halo, which holds the number 0.
//
// Threads: pure functions of their arguments, [any] [no-alloc]. Several threads may run parts of one operator at once.
// Storage: a value's numbers are whole multiples of a scale, n * scale with n from `low` to `high`, at most 256 of
// them. Its *level* is n - low, from 0. The byte holds the level, with the uppermost bit turned around where products
// take signed bytes (ByteKernels::flip). Kernels see the byte as a number, unsigned or signed as products take it;
// `zero` below is that number of n = 0, `most` that of n = high.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "infer/cpu/kernels.hpp"

namespace camd::infer::cpu {

struct Bytes {
  std::uint8_t* data = nullptr;  // block 0, row 0, column 0
  std::size_t row = 0;           // bytes from a row to the next
  std::size_t block = 0;         // bytes from a block to the next
  int channels = 0, height = 0, width = 0;
};

// How a value's numbers lie in bytes.
struct ByteScale {
  float scale = 1.0F;
  int zero = 0;
  int most = 0;
};

// byte -> byte
using ByteTable = std::array<std::uint8_t, 256>;

struct ByteConvArguments {
  Bytes in, out;
  const std::int8_t* weights = nullptr;  // from pack_bytes() or pack_bytes_depthwise()
  // In whole blocks: where sums begin, which takes the input's zero away; then scale and bias, in steps of the output.
  const std::int32_t* start = nullptr;
  const float* scale = nullptr;
  const float* bias = nullptr;
  Pair2 kernel, stride, dilation;
  int top = 0, left = 0;                // pads
  ByteScale to;                         // of the result
  const std::uint8_t* table = nullptr;  // a ByteTable that comes last; null: none
};

// A sum, a * a_scale + b * b_scale, or a product, a * b * a_scale, of a and b without their zeros.
struct ByteBinary {
  bool product = false;
  int a_zero = 0, b_zero = 0;
  float a_scale = 0.0F, b_scale = 0.0F;  // in steps of the result
  ByteScale to;
};

// Which weights of a dense convolution lie together.
enum class BytePacking : std::uint8_t {
  kFours,   // four input channels of each output together
  kEights,  // eight
};

struct ByteKernels {
  const char* name;
  std::uint8_t flip;  // bits of a level that are turned around in its byte: 0 or 0x80
  BytePacking packing;
  // Dense convolution: output blocks [first, first + count), count 1 to kConvBlocks, rows [y0, y1). The first block of
  // a call is even.
  void (*conv)(const ByteConvArguments&, int first, int count, int y0, int y1) noexcept;
  void (*depthwise)(const ByteConvArguments&, int block, int y0, int y1) noexcept;
  // Both may write the halo between these rows: it is cleared afterwards.
  // The largest of windows, which are cut to the input.
  void (*max_pool)(const Bytes& in, const Bytes& out, const Pool&, int block, int y0, int y1) noexcept;
  // out[i] = table[in[i]] of a ByteTable; `in` and `out` may be the same.
  void (*look_up)(const std::uint8_t* in, std::uint8_t* out, std::size_t count, const std::uint8_t* table) noexcept;
  // `count` is a multiple of kLanes, here and below.
  void (*binary)(const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* out, std::size_t count,
                 const ByteBinary&) noexcept;
  // To the nearest level, halves to even, within the range.
  void (*from_floats)(const float* in, std::uint8_t* out, std::size_t count, const ByteScale&) noexcept;
  // A row of a block from `lanes` planes of f32, `plane` floats apart: the picture's, as the network's input has it.
  void (*from_planes)(const float* in, std::size_t plane, int lanes, std::uint8_t* out, int width,
                      const ByteScale&) noexcept;
  void (*to_floats)(const std::uint8_t* in, float* out, std::size_t count, const ByteScale&) noexcept;
};

// Weights [M,C,kh,kw] for conv, per pair of output blocks (a last odd block alone):
// kFours: [block of C][ky][kx][2][output][4 channels]; kEights: [block of C][ky][kx][output][8 channels].
[[nodiscard]] std::vector<std::int8_t> pack_bytes(const std::vector<std::int8_t>& weights, const Shape& shape,
                                                  BytePacking packing);
// From [M,1,kh,kw]: [M/8][ky][kx/4][8 channels][4 taps].
[[nodiscard]] std::vector<std::int8_t> pack_bytes_depthwise(const std::vector<std::int8_t>& weights,
                                                            const Shape& shape);

}  // namespace camd::infer::cpu
