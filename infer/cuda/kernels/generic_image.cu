// Kernels on images of any type and size, one thread for each output element or for 8 channels: pooling, resizing, and
// the picture to planes of f32.
#include "infer/cuda/kernels/generic_image.hpp"

#include "infer/cuda/kernels/eight.cuh"
#include "infer/cuda/kernels/image.cuh"
#include "infer/cuda/kernels/launch.cuh"

namespace camd::infer::cuda {
namespace {

constexpr int kThreads = 256;

dim3 blocks_for(std::int64_t elements) {
  return dim3(static_cast<unsigned>((elements + kThreads - 1) / kThreads), 1, 1);
}

// An element of an image; `inside` is false for threads behind the last one.
struct Element {
  int y, x, c;
  bool inside;
};
// The element that this thread makes, channels innermost. Padding channels are made too, as zeros: kernels multiply
// them by weights of zero, so they must be finite.
CAMD_DEVICE Element element_of(const Image& image) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + static_cast<std::int64_t>(threadIdx.x);
  const int channels = padded(image.c);
  const std::int64_t pixel = i / channels;
  return {static_cast<int>(pixel / image.w), static_cast<int>(pixel % image.w), static_cast<int>(i % channels),
          pixel < static_cast<std::int64_t>(image.h) * image.w};
}

// A thread for 8 channels of an output pixel. Padding channels are pooled too: they are finite.
template <typename T>
CAMD_KERNEL(kThreads, 1)
pool_kernel(const PoolArguments p) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + static_cast<std::int64_t>(threadIdx.x);
  const int groups = padded(p.y.c) / 8;
  const std::int64_t pixel = i / groups;
  const int oy = static_cast<int>(pixel / p.y.w), ox = static_cast<int>(pixel % p.y.w);
  const int c = static_cast<int>(i % groups) * 8;
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (oy >= p.y.h) return;
  const bool average = p.pool.kind == Pool::Kind::kAverage;
  const int y0 = oy * p.pool.stride.y - p.pool.pads.top;
  const int x0 = ox * p.pool.stride.x - p.pool.pads.left;
  float result[8];
#pragma unroll
  for (float& r : result) r = average ? 0.0F : -INFINITY;
  int inside = 0, counted = 0;
  for (int ky = 0; ky < p.pool.kernel.y; ++ky) {
    const int y = y0 + ky * p.pool.dilation.y;
    for (int kx = 0; kx < p.pool.kernel.x; ++kx) {
      const int x = x0 + kx * p.pool.dilation.x;
      // What ceil_mode adds beyond the pads counts for nothing.
      if (y < p.x.h + p.pool.pads.bottom && x < p.x.w + p.pool.pads.right) ++counted;
      if (y < 0 || y >= p.x.h || x < 0 || x >= p.x.w) continue;
      ++inside;
      float v[8];
      load_eight(v, at<T>(p.x, y, x, c));
#pragma unroll
      for (int k = 0; k < 8; ++k) result[k] = average ? result[k] + v[k] : fmaxf(result[k], v[k]);
    }
  }
  if (average) {
    const float count = static_cast<float>(max(p.pool.count_pads ? counted : inside, 1));
#pragma unroll
    for (float& r : result) r /= count;
  }
  store_eight(at<T>(p.y, oy, ox, c), result);
}

// The average of all pixels: a block for 8 channels.
template <typename T>
CAMD_KERNEL(kThreads, 1)
average_kernel(const PoolArguments p) {
  CAMD_SHARED(memory);
  auto* const sums = reinterpret_cast<float*>(memory);  // [thread][8]
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int thread = static_cast<int>(threadIdx.x), c = static_cast<int>(blockIdx.x) * 8, pixels = p.x.h * p.x.w;
  float own[8] = {};
#pragma unroll 4
  for (int pixel = thread; pixel < pixels; pixel += kThreads) {
    float v[8];
    load_eight(v, static_cast<const T*>(p.x.data) + static_cast<std::ptrdiff_t>(pixel) * p.x.pitch + c);
#pragma unroll
    for (int k = 0; k < 8; ++k) own[k] += v[k];
  }
#pragma unroll
  for (int k = 0; k < 8; ++k) sums[thread * 8 + k] = own[k];
  block_sync();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    for (int i = thread; i < half * 8; i += kThreads) sums[i] += sums[half * 8 + i];
    block_sync();
  }
  if (thread < 8) *at<T>(p.y, 0, 0, c + thread) = from_float<T>(sums[thread] / static_cast<float>(pixels));
}

// A thread makes eight channels of a pixel.
template <typename T>
CAMD_KERNEL(kThreads, 1)
resize_kernel(const ResizeArguments p) {
  const unsigned i = blockIdx.x * static_cast<unsigned>(kThreads) + threadIdx.x;
  const auto eights = static_cast<unsigned>(padded(p.y.c) / 8);
  const int pixel = static_cast<int>(i / eights), c = static_cast<int>(i % eights) * 8;
  const int y = pixel / p.y.w, x = pixel % p.y.w;
  if (y < p.y.h) {  // the tables do not come from the kernel in front: from here on they are in the cache
    int row = p.rows[y * p.row_taps], column = p.columns[x * p.column_taps];
    float row_weight = p.row_weights[y * p.row_taps], column_weight = p.column_weights[x * p.column_taps];
    compute_here(row);
    compute_here(column);
    compute_here(row_weight);
    compute_here(column_weight);
  }
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (y >= p.y.h) return;
  float sum[8] = {};
  if (p.added.data != nullptr) load_eight(sum, at<T>(p.added, y, x, c));
  for (int a = 0; a < p.row_taps; ++a) {
    const int row = y * p.row_taps + a;
    for (int b = 0; b < p.column_taps; ++b) {
      const int column = x * p.column_taps + b;
      const float weight = p.row_weights[row] * p.column_weights[column];
      float v[8];
      load_eight(v, at<T>(p.x, p.rows[row], p.columns[column], c));
#pragma unroll
      for (int k = 0; k < 8; ++k) sum[k] += v[k] * weight;
    }
  }
#pragma unroll
  for (int k = 0; k < 8; ++k) sum[k] = c + k < p.y.c ? sum[k] : 0.0F;
  store_eight(at<T>(p.y, y, x, c), sum);
}

CAMD_KERNEL(kThreads, 1) preprocess_kernel(const PreprocessArguments p) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const std::int64_t pixels = static_cast<std::int64_t>(p.plan.network_width) * p.plan.network_height;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + static_cast<std::int64_t>(threadIdx.x);
  if (i >= pixels) return;
  float v[3];
  sample_pixel(p.plan, bytes_of(p.picture), static_cast<int>(i % p.plan.network_width),
               static_cast<int>(i / p.plan.network_width), v);
  for (int c = 0; c < 3; ++c) p.planes[c * pixels + i] = v[c];
}

std::int64_t elements(const Image& image) {
  return static_cast<std::int64_t>(image.h) * image.w * ((image.c + 7) / 8 * 8);
}

}  // namespace

int preprocess(const PreprocessArguments& p, const LaunchContext& context) {
  const std::int64_t pixels = static_cast<std::int64_t>(p.plan.network_width) * p.plan.network_height;
  return launch(preprocess_kernel, blocks_for(pixels), kThreads, 0, context, p);
}

int pool(const PoolArguments& p, const LaunchContext& context) {
  constexpr int kManyPixels = 64;
  const bool whole = p.y.h == 1 && p.y.w == 1 && p.pool.pads == Pads{} && p.pool.dilation == Pair2{1, 1} &&
                     p.pool.kernel == Pair2{p.x.h, p.x.w};
  if (whole && p.pool.kind == Pool::Kind::kAverage && p.x.h * p.x.w >= kManyPixels) {
    const dim3 groups(static_cast<unsigned>((p.y.c + 7) / 8), 1, 1);
    constexpr std::size_t kBytes = kThreads * 8 * sizeof(float);
    if (p.type == DataType::kF32) return launch(average_kernel<float>, groups, kThreads, kBytes, context, p);
    return launch(average_kernel<__half>, groups, kThreads, kBytes, context, p);
  }
  const dim3 grid = blocks_for(elements(p.y) / 8);
  if (p.type == DataType::kF32) return launch(pool_kernel<float>, grid, kThreads, 0, context, p);
  return launch(pool_kernel<__half>, grid, kThreads, 0, context, p);
}

int resize(const ResizeArguments& p, const LaunchContext& context) {
  const dim3 grid = blocks_for(elements(p.y) / 8);
  if (p.type == DataType::kF32) return launch(resize_kernel<float>, grid, kThreads, 0, context, p);
  return launch(resize_kernel<__half>, grid, kThreads, 0, context, p);
}

}  // namespace camd::infer::cuda
