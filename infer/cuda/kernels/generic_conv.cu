// Convolution of any kernel, stride, dilation and group count. Sums are f32. The bias is added after the products:
// added to a large bias, they would lose digits.
#include "infer/cuda/kernels/generic_conv.hpp"

#include "infer/cuda/kernels/generic_conv.cuh"
#include "infer/cuda/kernels/launch.cuh"

namespace camd::infer::cuda {
namespace {

// ---- Dense: a product of a matrix of pixels with one of output channels, tap after tap. A thread sums 4 pixels of 4
// channels.

constexpr int kDenseThreads = 128;
constexpr int kStages = 4;  // what is multiplied, and what travels meanwhile

// kDepth: input channels of one tap in a stage.
template <typename T, int kChannels, int kDepth>
struct DenseTile {
  static constexpr int kLanesOfChannels = kChannels / 4;
  static constexpr int kLanesOfPixels = kDenseThreads / kLanesOfChannels;
  static constexpr int kPixels = 4 * kLanesOfPixels;
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  static constexpr int kRow = kDepth + kVector;  // neighbouring rows begin in different banks
  static constexpr int kVectorsOfRow = kDepth / kVector;
  static constexpr int kVectors = kPixels * kVectorsOfRow;
  static constexpr int kCopies = (kVectors + kDenseThreads - 1) / kDenseThreads;  // a thread's
  T pixels[kStages][kPixels * kRow];
  float weights[kStages][kDepth * kChannels];
};

template <typename T, int kChannels, int kDepth>
CAMD_KERNEL(kDenseThreads, 1)
dense_kernel(const GenericConvArguments p) {
  using Tile = DenseTile<T, kChannels, kDepth>;
  CAMD_SHARED(memory);
  Tile& tile = *reinterpret_cast<Tile*>(memory);
  const int thread = static_cast<int>(threadIdx.x);
  const int first_pixel = static_cast<int>(blockIdx.x) * Tile::kPixels;
  const int first_channel = static_cast<int>(blockIdx.y) * kChannels;
  const int pixels = p.y.h * p.y.w;
  const int weight_pitch = columns_of(p);
  const int slices = (p.x.c + kDepth - 1) / kDepth;
  const int tap_size = (p.x.c + kGenericConvRows - 1) / kGenericConvRows * kGenericConvRows * weight_pitch;

  // The pixels whose channels this thread copies, by where their first tap lies.
  int top[Tile::kCopies], left[Tile::kCopies];
#pragma unroll
  for (int i = 0; i < Tile::kCopies; ++i) {
    const int pixel = first_pixel + (thread + i * kDenseThreads) / Tile::kVectorsOfRow;
    top[i] = pixel < pixels ? pixel / p.y.w * p.stride.y - p.pad_top : -0x40000000;  // outside of every image
    left[i] = pixel % p.y.w * p.stride.x - p.pad_left;
  }
  int ky = 0, kx = 0, slice = 0;  // of what is copied next
  const float* tap = p.weights + first_channel;
  const auto copy_next = [&](int stage) {
#pragma unroll
    for (int i = 0; i < Tile::kCopies; ++i) {
      const int v = thread + i * kDenseThreads;
      if (Tile::kVectors % kDenseThreads != 0 && v >= Tile::kVectors) break;
      const int part = v % Tile::kVectorsOfRow * Tile::kVector;
      const int y = top[i] + ky * p.dilation.y, x = left[i] + kx * p.dilation.x;
      const int c = slice * kDepth + part;
      const bool inside = y >= 0 && y < p.x.h && x >= 0 && x < p.x.w && c < padded(p.x.c);
      copy16_async(&tile.pixels[stage][v / Tile::kVectorsOfRow * Tile::kRow + part],
                   inside ? at<T>(p.x, y, x, c) : static_cast<const T*>(p.x.data), inside);
    }
    if (thread < kDepth * kChannels / 4) {
      const int row = thread / Tile::kLanesOfChannels, column = thread % Tile::kLanesOfChannels * 4;
      copy16_async(&tile.weights[stage][row * kChannels + column], tap + (slice * kDepth + row) * weight_pitch + column,
                   true);
    }
    if (++slice == slices) {
      slice = 0;
      tap += tap_size;
      if (++kx == p.kernel.x) {
        kx = 0;
        ++ky;
      }
    }
  };

  const int channel = thread % Tile::kLanesOfChannels * 4;
  const int pixel = thread / Tile::kLanesOfChannels;
  const bool exists = first_channel + channel < padded(p.y.c);
  float bias[4];
  load4(bias, p.bias + (exists ? first_channel + channel : 0));
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int steps = p.kernel.y * p.kernel.x * slices;
  for (int step = 0; step < kStages - 1; ++step) {
    if (step < steps) copy_next(step);
    copy_commit();
  }
  float sum[4][4] = {};
  for (int step = 0; step < steps; ++step) {
    const int stage = step % kStages;
    copy_wait_but<kStages - 2>();
    block_sync();
    if (step + kStages - 1 < steps) copy_next((step + kStages - 1) % kStages);
    copy_commit();
#pragma unroll
    for (int k = 0; k < kDepth; k += 4) {
      float values[4][4];
#pragma unroll
      for (int j = 0; j < 4; ++j)
        load4(values[j], &tile.pixels[stage][(pixel + j * Tile::kLanesOfPixels) * Tile::kRow + k]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float w[4];
        load4(w, &tile.weights[stage][(k + i) * kChannels + channel]);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
          for (int n = 0; n < 4; ++n) sum[j][n] = fmaf(values[j][i], w[n], sum[j][n]);
        }
      }
    }
  }
  if (!exists) return;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int o = first_pixel + pixel + j * Tile::kLanesOfPixels;
    if (o < pixels) finish4<T>(p, sum[j], bias, o / p.y.w, o % p.y.w, first_channel + channel);
  }
}

// ---- Depthwise: a thread makes 4 channels of a pixel.

constexpr int kDepthwiseThreads = 128;
constexpr int kLanesOfColumns = kGenericConvColumns / 4;
constexpr int kDepthwisePixels = kDepthwiseThreads / kLanesOfColumns;  // of a block

// Four neighbouring channels, or zeros. There is no branch, so that many loads are on their way at once.
CAMD_DEVICE void load4_if(bool inside, float (&to)[4], const float* from) {
  const float4 v = inside ? *reinterpret_cast<const float4*>(from) : make_float4(0.0F, 0.0F, 0.0F, 0.0F);
  to[0] = v.x;
  to[1] = v.y;
  to[2] = v.z;
  to[3] = v.w;
}
CAMD_DEVICE void load4_if(bool inside, float (&to)[4], const __half* from) {
  const uint2 v = inside ? *reinterpret_cast<const uint2*>(from) : make_uint2(0, 0);
  for (float& value : to) value = 0.0F;
  add_halfs(to, &v);
}

// With sums a block has more threads: what reads the sums reads a line for each block.
template <bool kSums>
inline constexpr int kThreadsOfDepthwise = kSums ? kDepthwiseSumPixels* kLanesOfColumns : kDepthwiseThreads;

// The block's pixels added, by channel. `own`: a thread's four channels of y, then of x. All threads call it.
CAMD_DEVICE void add_pixels(const GenericConvArguments& p, float (&own)[8], float* shared, int first_channel) {
  constexpr int kWarps = kThreadsOfDepthwise<true> / 32, kValues = kLanesOfColumns * 8;
  const int thread = static_cast<int>(threadIdx.x), lane = lane_index();
#pragma unroll
  for (int mask = kLanesOfColumns; mask < 32; mask *= 2) {
#pragma unroll
    for (float& v : own) v += exchange_lanes(v, mask);
  }
  if (lane < kLanesOfColumns) {
#pragma unroll
    for (int i = 0; i < 8; ++i) shared[warp_index() * kValues + i * kLanesOfColumns + lane] = own[i];
  }
  block_sync();
  if (thread >= kValues) return;
  float sum = 0.0F;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) sum += shared[warp * kValues + thread];
  const int value = thread / kLanesOfColumns, c = first_channel + thread % kLanesOfColumns * 4 + value % 4;
  float* const line = value < 4 ? p.y_sums : p.x_sums;
  if (line != nullptr && c < p.y.c) line[static_cast<std::ptrdiff_t>(blockIdx.x) * p.sum_pitch + c] = sum;
}

// kSide: the kernel's width and height; 0: they are read from the arguments.
template <typename T, int kSide, bool kSums>
CAMD_KERNEL(kThreadsOfDepthwise<kSums>, 1)
depthwise_kernel(const GenericConvArguments p) {
  constexpr int kThreadsHere = kThreadsOfDepthwise<kSums>;
  CAMD_SHARED(memory);
  float* const weights = reinterpret_cast<float*>(memory);  // [taps][kGenericConvColumns]
  const int thread = static_cast<int>(threadIdx.x);
  const int first_channel = static_cast<int>(blockIdx.y) * kGenericConvColumns;
  const int rows = kSide != 0 ? kSide : p.kernel.y;
  const int columns = kSide != 0 ? kSide : p.kernel.x;
  // Weights do not come from the kernel before: they are fetched while it runs.
  const int weight_pitch = columns_of(p);
  for (int i = thread; i < rows * columns * kLanesOfColumns; i += kThreadsHere) {
    copy16_async(weights + i * 4,
                 p.weights + i / kLanesOfColumns * weight_pitch + first_channel + i % kLanesOfColumns * 4, true);
  }
  const int pixel = static_cast<int>(blockIdx.x) * (kThreadsHere / kLanesOfColumns) + thread / kLanesOfColumns;
  const int lane = thread % kLanesOfColumns * 4;
  const int oy = pixel / p.y.w, ox = pixel % p.y.w;
  const int top = oy * p.stride.y - p.pad_top, left = ox * p.stride.x - p.pad_left;
  const int c = first_channel + lane;  // p.bias has room for it
  float bias[4];
  load4(bias, p.bias + c);
  wait_for_previous_kernel();
  let_next_kernel_start();
  copy_wait_all();
  block_sync();
  const bool exists = oy < p.y.h && c < padded(p.y.c);
  if (!kSums && !exists) return;
  float sum[4] = {}, middle[4] = {};
#pragma unroll
  for (int ky = 0; ky < rows; ++ky) {
    const int y = top + ky * p.dilation.y;
    const bool row_inside = y >= 0 && y < p.x.h;
#pragma unroll
    for (int kx = 0; kx < columns; ++kx) {
      const int x = left + kx * p.dilation.x;
      float v[4], w[4];
      load4_if((!kSums || exists) && row_inside && x >= 0 && x < p.x.w, v, at<T>(p.x, y, x, c));
      load4(w, weights + (ky * columns + kx) * kGenericConvColumns + lane);
      for (int n = 0; n < 4; ++n) sum[n] = fmaf(v[n], w[n], sum[n]);
      if (kSums && ky == rows / 2 && kx == columns / 2) {
        for (int n = 0; n < 4; ++n) middle[n] = v[n];
      }
    }
  }
  if (!kSums || exists) finish4<T>(p, sum, bias, oy, ox, c);
  if constexpr (kSums) {
    float own[8];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      own[n] = exists ? sum[n] : 0.0F;
      own[n + 4] = middle[n];
    }
    add_pixels(p, own, weights + rows * columns * kGenericConvColumns, first_channel);
  }
}

// In large images a thread makes 4 channels of kRun pixels side by side: their windows share most of what they read.
constexpr int kRun = 4;
template <typename T, int kSide, int kStride>
CAMD_KERNEL(kDepthwiseThreads, 1)
depthwise_runs_kernel(const GenericConvArguments p) {
  constexpr int kColumns = (kRun - 1) * kStride + kSide;
  const int groups = padded(p.y.c) / 4, runs = (p.y.w + kRun - 1) / kRun;
  const int i = static_cast<int>(blockIdx.x) * kDepthwiseThreads + static_cast<int>(threadIdx.x);
  const int c = i % groups * 4, run = i / groups;
  const int oy = run / runs, ox = (run - oy * runs) * kRun;
  const int top = oy * kStride - p.pad_top, left = ox * kStride - p.pad_left;
  const int weight_pitch = columns_of(p);
  float bias[4];
  load4(bias, p.bias + c);
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (oy >= p.y.h) return;
  float sum[kRun][4] = {};
#pragma unroll
  for (int ky = 0; ky < kSide; ++ky) {
    const int y = top + ky;
    const bool row_inside = y >= 0 && y < p.x.h;
    float v[kColumns][4];
#pragma unroll
    for (int k = 0; k < kColumns; ++k) {
      const int x = left + k;
      load4_if(row_inside && x >= 0 && x < p.x.w, v[k], at<T>(p.x, y, x, c));
    }
#pragma unroll
    for (int kx = 0; kx < kSide; ++kx) {
      float w[4];
      load4(w, p.weights + (ky * kSide + kx) * weight_pitch + c);
#pragma unroll
      for (int r = 0; r < kRun; ++r) {
#pragma unroll
        for (int n = 0; n < 4; ++n) sum[r][n] = fmaf(v[r * kStride + kx][n], w[n], sum[r][n]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRun; ++r) {
    if (ox + r < p.y.w) finish4<T>(p, sum[r], bias, oy, ox + r, c);
  }
}

template <typename T, int kSide, int kStride>
int depthwise_runs(const GenericConvArguments& p, const LaunchContext& context) {
  const int threads = p.y.h * ((p.y.w + kRun - 1) / kRun) * ((p.y.c + 7) / 8 * 2);
  const dim3 grid(static_cast<unsigned>((threads + kDepthwiseThreads - 1) / kDepthwiseThreads), 1, 1);
  return launch(depthwise_runs_kernel<T, kSide, kStride>, grid, kDepthwiseThreads, 0, context, p);
}

template <typename T, int kSide>
int depthwise(const GenericConvArguments& p, const LaunchContext& context) {
  const auto blocks = [](int count, int size) { return static_cast<unsigned>((count + size - 1) / size); };
  const auto weights =
      static_cast<std::size_t>(p.kernel.y) * static_cast<std::size_t>(p.kernel.x) * kGenericConvColumns * sizeof(float);
  if (p.y_sums != nullptr) {
    constexpr int kThreadsHere = kThreadsOfDepthwise<true>;
    constexpr std::size_t kSumBytes = kThreadsHere / 32 * kLanesOfColumns * 8 * sizeof(float);
    const dim3 grid(static_cast<unsigned>(depthwise_sum_parts(p.y.h * p.y.w)), blocks(p.y.c, kGenericConvColumns), 1);
    return launch(depthwise_kernel<T, kSide, true>, grid, kThreadsHere, weights + kSumBytes, context, p);
  }
  const dim3 grid(blocks(p.y.h * p.y.w, kDepthwisePixels), blocks(p.y.c, kGenericConvColumns), 1);
  return launch(depthwise_kernel<T, kSide, false>, grid, kDepthwiseThreads, weights, context, p);
}

// ---- Any other: a thread makes one output element.

constexpr int kThreads = 256;

CAMD_DEVICE std::int64_t element_index() {
  return static_cast<std::int64_t>(blockIdx.x) * kThreads + static_cast<std::int64_t>(threadIdx.x);
}

template <typename T>
CAMD_KERNEL(kThreads, 1)
any_kernel(const GenericConvArguments p) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const std::int64_t i = element_index();
  const int channels = padded(p.y.c);
  const int pixel = static_cast<int>(i / channels), channel = static_cast<int>(i % channels);
  if (pixel >= p.y.h * p.y.w) return;
  const int oy = pixel / p.y.w, ox = pixel % p.y.w;
  T* const to = at<T>(p.y, oy, ox, channel);
  if (channel >= p.y.c) {
    *to = from_float<T>(0.0F);  // padding, which weights of zero may read
    return;
  }
  const int in_group = p.x.c / p.groups;
  const int group = channel / (p.y.c / p.groups);
  const int weight_pitch = columns_of(p);
  float sum = 0.0F;
  for (int ky = 0; ky < p.kernel.y; ++ky) {
    for (int kx = 0; kx < p.kernel.x; ++kx) {
      int y, x;
      if (p.transposed) {
        y = oy + p.pad_top - ky * p.dilation.y;
        x = ox + p.pad_left - kx * p.dilation.x;
        if (y < 0 || x < 0 || y % p.stride.y != 0 || x % p.stride.x != 0) continue;
        y /= p.stride.y;
        x /= p.stride.x;
      } else {
        y = oy * p.stride.y - p.pad_top + ky * p.dilation.y;
        x = ox * p.stride.x - p.pad_left + kx * p.dilation.x;
      }
      if (y < 0 || y >= p.x.h || x < 0 || x >= p.x.w) continue;
      const T* const from = at<T>(p.x, y, x, group * in_group);
      const float* const w = p.weights + static_cast<std::ptrdiff_t>(ky * p.kernel.x + kx) * in_group * weight_pitch;
      for (int c = 0; c < in_group; ++c) sum = fmaf(to_float(from[c]), w[c * weight_pitch + channel], sum);
    }
  }
  sum += p.bias[channel];
  if (p.activation_first) sum = activate_any(p.activation, sum);
  if (p.residual.data != nullptr) sum += to_float(*at<T>(p.residual, oy, ox, channel));
  if (!p.activation_first) sum = activate_any(p.activation, sum);
  *to = from_float<T>(sum);
}

template <typename T, int kChannels, int kDepth>
int dense(const GenericConvArguments& p, const LaunchContext& context) {
  using Tile = DenseTile<T, kChannels, kDepth>;
  const auto blocks = [](int count, int size) { return static_cast<unsigned>((count + size - 1) / size); };
  const dim3 grid(blocks(p.y.h * p.y.w, Tile::kPixels), blocks((p.y.c + 7) / 8 * 8, kChannels), 1);
  return launch(dense_kernel<T, kChannels, kDepth>, grid, kDenseThreads, sizeof(Tile), context, p);
}

template <typename T>
int of_type(const GenericConvArguments& p, const LaunchContext& context) {
  const GenericConvKind kind = generic_conv_kind(p.groups, p.x.c, p.y.c, p.transposed);
  if (kind == GenericConvKind::kDense) {
    if (p.x.c <= 8) return p.y.c <= 16 ? dense<T, 16, 8>(p, context) : dense<T, 32, 8>(p, context);
    return p.y.c <= 16 ? dense<T, 16, 16>(p, context) : dense<T, 32, 16>(p, context);
  }
  // Where there are threads enough to fill a GPU.
  constexpr std::int64_t kManyPixels = std::int64_t{1} << 16;
  const std::int64_t four_channels = static_cast<std::int64_t>(p.y.h) * p.y.w * ((p.y.c + 7) / 8 * 2);
  if (kind == GenericConvKind::kDepthwise && four_channels >= kManyPixels && four_channels < (1 << 30) &&
      p.y_sums == nullptr && p.dilation == Pair2{1, 1} && p.stride.y == p.stride.x) {
    const bool three = p.kernel == Pair2{3, 3}, five = p.kernel == Pair2{5, 5};
    if (three && p.stride.y == 1) return depthwise_runs<T, 3, 1>(p, context);
    if (three && p.stride.y == 2) return depthwise_runs<T, 3, 2>(p, context);
    if (five && p.stride.y == 1) return depthwise_runs<T, 5, 1>(p, context);
    if (five && p.stride.y == 2) return depthwise_runs<T, 5, 2>(p, context);
  }
  if (kind == GenericConvKind::kDepthwise && p.kernel.y * p.kernel.x <= kDepthwiseTaps) {
    if (p.kernel.y == 3 && p.kernel.x == 3) return depthwise<T, 3>(p, context);
    if (p.kernel.y == 5 && p.kernel.x == 5) return depthwise<T, 5>(p, context);
    return depthwise<T, 0>(p, context);
  }
  const std::int64_t threads = static_cast<std::int64_t>(p.y.h) * p.y.w * ((p.y.c + 7) / 8 * 8);
  const dim3 grid(static_cast<unsigned>((threads + kThreads - 1) / kThreads), 1, 1);
  return launch(any_kernel<T>, grid, kThreads, 0, context, p);
}

}  // namespace

int generic_conv(const GenericConvArguments& p, const LaunchContext& context) {
  if (p.products != 0) return tensor_core_f32(p, context);
  return p.type == DataType::kF32 ? of_type<float>(p, context) : of_type<__half>(p, context);
}

}  // namespace camd::infer::cuda
