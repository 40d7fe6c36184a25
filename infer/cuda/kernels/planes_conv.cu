// A block makes a tile of pixels and 16 channels. Its part of the planes and the weights lie in shared memory. A thread
// sums four neighbouring pixels of eight channels. Few input channels leave tensor cores little to do.
//
// Limited by: the multiply-adds, which are f32.
#include "infer/cuda/kernels/planes_conv.hpp"

#include "infer/cuda/kernels/activation.cuh"
#include "infer/cuda/kernels/eight.cuh"
#include "infer/cuda/kernels/image.cuh"
#include "infer/cuda/kernels/launch.cuh"

namespace camd::infer::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kTy = 8, kTx = 32;  // pixels of a block
constexpr int kRun = 4;           // of a thread, side by side
constexpr int kChannels = 16;     // of a block

template <int kSide, int kStride>
struct Tile {
  static constexpr int kRows = (kTy - 1) * kStride + kSide;
  static constexpr int kColumns = ((kTx - 1) * kStride + kSide + 3) / 4 * 4;
  static constexpr int kRead = ((kRun - 1) * kStride + kSide + 3) / 4 * 4;  // of a row, by a thread
  static constexpr int kTaps = kSide * kSide;
  float weights[kMostPlanes * kTaps * kChannels];
  float planes[kMostPlanes * kRows * kColumns + kRead];  // a thread may read beyond the last row
};

template <typename T, int kSide, int kStride>
CAMD_KERNEL(kThreads, 2)
planes_conv_kernel(const PlanesConvArguments p) {
  using A = Tile<kSide, kStride>;
  static_assert(kRun * kStride % 4 == 0);  // a thread's row begins at a multiple of 16 bytes
  CAMD_SHARED(memory);
  A& tile = *reinterpret_cast<A*>(memory);
  const int thread = static_cast<int>(threadIdx.x);
  const int first_channel = static_cast<int>(blockIdx.z) * kChannels;
  const int n16 = (p.y.c + 15) / 16 * 16;
  for (int i = thread; i < p.c * A::kTaps * kChannels / 4; i += kThreads) {
    const int tap = i / (kChannels / 4), four = i % (kChannels / 4) * 4;
    copy16_async(&tile.weights[tap * kChannels + four], p.weights + tap * n16 + first_channel + four, true);
  }
  const int y0 = static_cast<int>(blockIdx.y) * kTy, x0 = static_cast<int>(blockIdx.x) * kTx;
  const int top = y0 * kStride - p.pad_top, left = x0 * kStride - p.pad_left;
  wait_for_previous_kernel();
  let_next_kernel_start();

  // What lies outside of the planes is read from their beginning and not used: without branches all loads are under way
  // at once.
  constexpr int kAtOnce = 16;
  const int words = p.c * A::kRows * A::kColumns;
#pragma unroll 1
  for (int first = thread; first < words; first += kAtOnce * kThreads) {
    float values[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      const int i = first + u * kThreads;
      const int row = i / A::kColumns, x = left + i % A::kColumns;
      const int plane = row / A::kRows, y = top + row % A::kRows;
      const bool inside = i < words && within(y, p.height) && within(x, p.width);
      const float value = p.planes[inside ? (static_cast<std::ptrdiff_t>(plane) * p.height + y) * p.width + x : 0];
      values[u] = inside ? value : 0.0F;
    }
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      if (first + u * kThreads < words) tile.planes[first + u * kThreads] = values[u];
    }
  }
  copy_wait_all();
  block_sync();

  // All lanes of a warp make the same channels, whose weights they read together.
  const int run = thread % (kTy * kTx / kRun), group = thread / (kTy * kTx / kRun);
  static_assert(kThreads == kTy * kTx / kRun * (kChannels / 8) && kTy * kTx / kRun % 32 == 0);
  const int row = run / (kTx / kRun), column = run % (kTx / kRun) * kRun;
  float sums[kRun][8] = {};
#pragma unroll 1
  for (int plane = 0; plane < p.c; ++plane) {
#pragma unroll
    for (int ky = 0; ky < kSide; ++ky) {
      const float* const from = &tile.planes[(plane * A::kRows + row * kStride + ky) * A::kColumns + column * kStride];
      float x[A::kRead];
#pragma unroll
      for (int i = 0; i < A::kRead; i += 4) {
        const float4 four = *reinterpret_cast<const float4*>(from + i);
        x[i] = four.x;
        x[i + 1] = four.y;
        x[i + 2] = four.z;
        x[i + 3] = four.w;
      }
#pragma unroll
      for (int kx = 0; kx < kSide; ++kx) {
        float w[8];
        load_eight(w, &tile.weights[((plane * kSide + ky) * kSide + kx) * kChannels + group * 8]);
#pragma unroll
        for (int r = 0; r < kRun; ++r) {
#pragma unroll
          for (int n = 0; n < 8; ++n) sums[r][n] = fmaf(x[r * kStride + kx], w[n], sums[r][n]);
        }
      }
    }
  }
  const int channel = first_channel + group * 8;
  if (channel >= padded(p.y.c) || y0 + row >= p.y.h) return;
  float bias[8];
  load_eight(bias, p.bias + channel);
#pragma unroll
  for (int r = 0; r < kRun; ++r) {
    if (x0 + column + r >= p.y.w) break;
#pragma unroll
    for (int n = 0; n < 8; ++n) sums[r][n] += bias[n];
    activate_each(p.activation, sums[r]);
    store_eight(at<T>(p.y, y0 + row, x0 + column + r, channel), sums[r]);
  }
}

template <typename T, int kSide, int kStride>
int run(const PlanesConvArguments& p, const LaunchContext& context) {
  const auto parts = [](int size, int part) { return static_cast<unsigned>((size + part - 1) / part); };
  const dim3 grid(parts(p.y.w, kTx), parts(p.y.h, kTy), parts(p.y.c, kChannels));
  return launch(planes_conv_kernel<T, kSide, kStride>, grid, kThreads, sizeof(Tile<kSide, kStride>), context, p);
}

template <typename T>
int of_type(const PlanesConvArguments& p, const LaunchContext& context) {
  return p.kernel == 3 ? run<T, 3, 2>(p, context) : run<T, 6, 2>(p, context);
}

}  // namespace

int planes_conv(const PlanesConvArguments& p, const LaunchContext& context) {
  return p.type == DataType::kF16 ? of_type<__half>(p, context) : of_type<float>(p, context);
}

}  // namespace camd::infer::cuda
