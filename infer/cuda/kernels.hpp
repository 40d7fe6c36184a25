// The kernels of the CUDA engine as host functions. No CUDA header is needed to include this one.
//
// Memory. An Image is channels-last (NHWC, N = 1): pixel (y, x) starts at (y * w + x) * pitch elements, pitch a
// multiple of 8 and the memory 16-byte aligned, so that 8 channels are one 16-byte access. The elements between
// `c` and the next multiple of 8 are padding: kernels may write anything finite there, and weights that meet them are
// zero. A channel slice of a larger image is an Image with `data` moved and the pitch kept. Everything else is f32,
// row-major, as the model orders its dimensions.
//
// Threads: every function enqueues one kernel and does not synchronise; [no-alloc] unless the context says `prepare`;
// one thread at a time a stream. They answer a cudaError_t (0 is success). Arguments are not checked: the planner
// (plan.hpp) makes them right. Weights are packed by infer/cuda/packing.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "infer/cuda/tile_program.hpp"
#include "infer/graph.hpp"
#include "infer/sample.hpp"
#include "infer/tensor.hpp"

namespace camd::infer::cuda {

struct LaunchContext {
  void* stream = nullptr;  // cudaStream_t
  // The kernel may start before the one in front of it in the stream, and in a capture before all that it waits for,
  // have ended (it waits inside, after having fetched its weights). Only where it waits for kernels and nothing else.
  bool overlap_previous = false;
  // Before the first launch without it: also allows the kernel, whatever picture it will read, the shared memory that
  // it uses here, for which the driver allocates. [setup]
  bool prepare = false;
  // A kernel of so many blocks, or more than half as many, has its blocks ask for `spread_bytes` of shared memory at
  // least: of so much a multiprocessor has no room for two, and they go to as many multiprocessors as they are. Left to
  // itself a GPU gives two to some and none to others. 0: no kernel does.
  int spread_over = 0;
  std::size_t spread_bytes = 0;
};

struct Image {
  void* data = nullptr;  // f16 or f32, as the function says
  int h = 0, w = 0, c = 0;
  int pitch = 0;  // elements from one pixel to the next
};

// Where a range of a convolution's output channels goes. Ranges start at multiples of 16.
struct Sink {
  void* data = nullptr;
  int pitch = 0;
  int first = 0;   // the first output channel that goes here
  int stored = 0;  // channels to store, a multiple of 8
  Activation activation;
};
inline constexpr int kMaxSinks = 4;

// Functions that are two bounds at most.
[[nodiscard]] constexpr bool bounds_only(Function function) noexcept {
  return function == Function::kNone || function == Function::kRelu || function == Function::kClip;
}

// Functions that the tensor-core kernels fuse; others run as a step of their own.
[[nodiscard]] inline bool tensor_core_activation(Function function) noexcept {
  switch (function) {
    case Function::kNone:
    case Function::kRelu:
    case Function::kClip:
    case Function::kLeakyRelu:
    case Function::kSigmoid:
    case Function::kSilu:
    case Function::kHardSwish: return true;
    default: return false;
  }
}

// ---- f16 on tensor cores -------------------------------------------------------------------------------------------

// Depthwise 3x3 (pad as given), then 1x1, the intermediate never leaving the chip. Stride 1 or 2.
struct SeparableArguments {
  Image x;  // f16
  // Whether an image is of pairs of f16: behind a pixel's channels, rounded up to 8, lies what rounding them took.
  bool x_pairs = false, y_pairs = false;
  const void* depthwise = nullptr;        // f16 [c8 / 8][9][8], c8 = c rounded up to 8
  const float* depthwise_bias = nullptr;  // [c8]
  Activation depthwise_activation;
  const void* pointwise = nullptr;        // packed, k = c, n = y.c
  const float* pointwise_bias = nullptr;  // [n16], n16 = y.c rounded up to 16
  Activation activation;
  Image y;  // f16
  int stride = 1;
  int pad_top = 1, pad_left = 1;
  int tile = 0;  // kSeparableTiles
};
int separable(const SeparableArguments& arguments, const LaunchContext& context);

// Layers that a block runs one after the other on its tile (tile_program.hpp).
int tile_program(const TileProgramArguments& arguments, const LaunchContext& context);

// Dense convolution, 1x1 or 3x3, stride 1 or 2, dilation 1, with up to kMaxSinks destinations. `add`, when its data is
// given, is read at (y * add.h / h, x * add.w / w) and added before or after the activation (sink 0 only). For layers
// whose weights are more than a tile program can keep.
struct ConvArguments {
  Image x;                        // f16
  const void* weights = nullptr;  // packed, taps outermost
  const float* bias = nullptr;    // [n16]
  int kernel = 3;
  int stride = 1;
  int pad_top = 1, pad_left = 1;
  int h = 0, w = 0;  // of the output
  int n = 0;         // output channels, multiple of 16
  int sink_count = 0;
  Sink sinks[kMaxSinks];
  Image add;
  bool activation_first = false;
  int tile = 0;                                       // kConvTiles
  std::size_t shared_bytes = std::size_t{48} * 1024;  // that a block may have on this GPU
};
int conv(const ConvArguments& arguments, const LaunchContext& context);

// What follows a network's first convolution in the same kernel: depthwise 3x3 (stride 1, padded by 1), then 1x1.
struct StemBlock {
  int c = 0;                              // channels of the first convolution
  const float* depthwise = nullptr;       // [9][c8], c8 = c rounded up to 8; null: nothing follows
  const float* depthwise_bias = nullptr;  // [c8]
  Activation depthwise_activation;
  // Packed, k = 32, n = y.c: for 16 / c8 times the same c8 channels the weights in f16, then what f16 took of them.
  const void* pointwise = nullptr;
  const float* pointwise_bias = nullptr;  // [n16]
  Activation activation;
};

// First convolution of a network, 3x3 with stride 2 and 3 input channels: reads the camera's picture as
// infer/sample.hpp defines it (or planes of f32 where `picture` is null), writes f16.
struct StemArguments {
  SamplePlan plan;
  const std::uint8_t* picture = nullptr;
  const float* planes = nullptr;  // [3][network_height][network_width]
  int network_width = 0, network_height = 0;
  const void* weights = nullptr;  // packed for the stem
  const float* bias = nullptr;    // [n8]
  int pad_top = 1, pad_left = 1;
  Activation activation;
  StemBlock block;
  Image y;  // f16: of the last of these layers; all have its height and width
  // Rows of y to make: from a multiple of stem_rows() (tiles.hpp) on, and those before `end_row`, 0: all.
  int first_row = 0, end_row = 0;
};
int stem(const StemArguments& arguments, const LaunchContext& context);
// stem() where a block follows.
int stem_block(const StemArguments& arguments, const LaunchContext& context);

// ---- Any type, any size --------------------------------------------------------------------------------------------

// Picture to planes [3][network_height][network_width] of f32.
struct PreprocessArguments {
  SamplePlan plan;
  const std::uint8_t* picture = nullptr;
  float* planes = nullptr;
};
int preprocess(const PreprocessArguments& arguments, const LaunchContext& context);

// How a plain convolution is computed.
enum class PlainConvKind : std::uint8_t { kDense, kDepthwise, kAny };
[[nodiscard]] inline PlainConvKind plain_conv_kind(int groups, int c, int n, bool transposed) noexcept {
  if (transposed) return PlainConvKind::kAny;
  if (groups == 1) return PlainConvKind::kDense;
  return groups == c && c == n ? PlainConvKind::kDepthwise : PlainConvKind::kAny;
}
inline constexpr int kPlainConvColumns = 32;  // its weights' rows are a multiple of so many output channels
inline constexpr int kPlainConvRows = 16;     // and, where it is dense, so many rows are multiplied at a time

// Convolution of any kernel, stride, dilation and group count, as infer/graph.hpp's Conv or ConvTranspose.
struct PlainConvArguments {
  Image x, y;
  DataType type = DataType::kF32;  // of x, y and residual
  // [kh * kw][rows][columns], zeros where there is no weight: columns are output channels, rows the input channels of a
  // group, where it is dense rounded up to kPlainConvRows.
  const float* weights = nullptr;
  const float* bias = nullptr;  // [columns]
  Image residual;               // of y's size where its data is given
  Pair2 kernel, stride{1, 1}, dilation{1, 1};
  int pad_top = 0, pad_left = 0;
  int groups = 1;
  bool transposed = false;
  bool activation_first = false;
  Activation activation;
};
int plain_conv(const PlainConvArguments& arguments, const LaunchContext& context);

struct PoolArguments {
  Image x, y;
  DataType type = DataType::kF32;
  Pool pool;
};
int pool(const PoolArguments& arguments, const LaunchContext& context);

// y[i][j] = sum over taps of x[rows[i][a]][columns[j][b]] * row_weights[i][a] * column_weights[j][b].
struct ResizeArguments {
  Image x, y;
  DataType type = DataType::kF32;
  int row_taps = 1, column_taps = 1;
  const int* rows = nullptr;  // [y.h][row_taps]
  const float* row_weights = nullptr;
  const int* columns = nullptr;  // [y.w][column_taps]
  const float* column_weights = nullptr;
};
int resize(const ResizeArguments& arguments, const LaunchContext& context);

inline constexpr int kMaxRank = 6;

// A tensor of any layout: strides in elements for each of the model's dimensions; 0 repeats.
struct Strided {
  void* data = nullptr;
  DataType type = DataType::kF32;  // f32 or f16
  std::int64_t strides[kMaxRank] = {};
};

// y[i0, i1, ..] = activation(x[p0, p1, ..]) with p = start + i * step, or table[i] along `table_axis`. Where p lies
// outside [0, size): `pad_mode` says what is read. Copies, changes of layout and type, transposes, slices, gathers,
// padding and functions of one argument are all this.
struct MoveArguments {
  Strided x, y;
  int rank = 0;
  std::int64_t shape[kMaxRank] = {};  // of y
  std::int64_t start[kMaxRank] = {};
  std::int64_t step[kMaxRank] = {};
  std::int64_t size[kMaxRank] = {};  // of x, in y's order of dimensions
  int table_axis = -1;
  const std::int64_t* table = nullptr;
  Pad::Mode pad_mode = Pad::Mode::kConstant;
  float pad_value = 0.0F;
  Activation activation;
};
int move(const MoveArguments& arguments, const LaunchContext& context);

struct BinaryArguments {
  Binary::Kind kind = Binary::Kind::kAdd;
  Strided a, b, y;
  int rank = 0;
  std::int64_t shape[kMaxRank] = {};
  Activation activation;
};
int binary(const BinaryArguments& arguments, const LaunchContext& context);

// Over the middle dimension of [outer][axis][inner]; f32.
struct SoftmaxArguments {
  const float* x = nullptr;
  float* y = nullptr;
  std::int64_t outer = 1, axis = 1, inner = 1;
  bool log = false;
};
int softmax(const SoftmaxArguments& arguments, const LaunchContext& context);

// y keeps its dimensions; `count[d]` elements of x are reduced along each (1 where nothing is).
struct ReduceArguments {
  Reduce::Kind kind = Reduce::Kind::kMean;
  Strided x, y;
  int rank = 0;
  std::int64_t shape[kMaxRank] = {};  // of y
  std::int64_t count[kMaxRank] = {};
};
int reduce(const ReduceArguments& arguments, const LaunchContext& context);

// y[.., m, n] = activation(sum over k of a[.., m, k] b[.., k, n] + bias); all broadcast over y's shape.
struct MatMulArguments {
  Strided a, b, y;
  Strided bias;  // data may be null
  int rank = 0;
  std::int64_t shape[kMaxRank] = {};  // of y
  std::int64_t k = 0;
  std::int64_t a_k_stride = 0, b_k_stride = 0;
  Activation activation;
};
int matmul(const MatMulArguments& arguments, const LaunchContext& context);

}  // namespace camd::infer::cuda
