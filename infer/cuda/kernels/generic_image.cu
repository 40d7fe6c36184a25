// Kernels on images of any type and size, one thread for each output element: pooling, resizing, and the picture to
// planes of f32.
#include "infer/cuda/kernels/generic_image.hpp"

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

template <typename T>
CAMD_KERNEL(kThreads, 1)
pool_kernel(const PoolArguments p) {
  let_next_kernel_start();
  wait_for_previous_kernel();
  const Element o = element_of(p.y);
  if (!o.inside) return;
  T* const to = at<T>(p.y, o.y, o.x, o.c);
  if (o.c >= p.y.c) {
    *to = from_float<T>(0.0F);
    return;
  }
  const bool average = p.pool.kind == Pool::Kind::kAverage;
  const int y0 = o.y * p.pool.stride.y - p.pool.pads.top;
  const int x0 = o.x * p.pool.stride.x - p.pool.pads.left;
  float result = average ? 0.0F : -INFINITY;
  int inside = 0, counted = 0;
  for (int ky = 0; ky < p.pool.kernel.y; ++ky) {
    const int y = y0 + ky * p.pool.dilation.y;
    for (int kx = 0; kx < p.pool.kernel.x; ++kx) {
      const int x = x0 + kx * p.pool.dilation.x;
      // What ceil_mode adds beyond the pads counts for nothing.
      if (y < p.x.h + p.pool.pads.bottom && x < p.x.w + p.pool.pads.right) ++counted;
      if (y < 0 || y >= p.x.h || x < 0 || x >= p.x.w) continue;
      ++inside;
      const float v = to_float(*at<T>(p.x, y, x, o.c));
      result = average ? result + v : fmaxf(result, v);
    }
  }
  if (average) result /= static_cast<float>(max(p.pool.count_pads ? counted : inside, 1));
  *to = from_float<T>(result);
}

template <typename T>
CAMD_KERNEL(kThreads, 1)
resize_kernel(const ResizeArguments p) {
  let_next_kernel_start();
  wait_for_previous_kernel();
  const Element o = element_of(p.y);
  if (!o.inside) return;
  float sum = 0.0F;
  for (int a = 0; a < p.row_taps; ++a) {
    const int row = o.y * p.row_taps + a;
    for (int b = 0; b < p.column_taps; ++b) {
      const int column = o.x * p.column_taps + b;
      const float v = o.c < p.x.c ? to_float(*at<T>(p.x, p.rows[row], p.columns[column], o.c)) : 0.0F;
      sum += v * (p.row_weights[row] * p.column_weights[column]);
    }
  }
  *at<T>(p.y, o.y, o.x, o.c) = from_float<T>(sum);
}

CAMD_KERNEL(kThreads, 1) preprocess_kernel(const PreprocessArguments p) {
  let_next_kernel_start();
  wait_for_previous_kernel();
  const std::int64_t pixels = static_cast<std::int64_t>(p.plan.network_width) * p.plan.network_height;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + static_cast<std::int64_t>(threadIdx.x);
  if (i >= pixels) return;
  float v[3];
  sample_pixel(p.plan, p.picture, static_cast<int>(i % p.plan.network_width),
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
  const dim3 grid = blocks_for(elements(p.y));
  if (p.type == DataType::kF32) return launch(pool_kernel<float>, grid, kThreads, 0, context, p);
  return launch(pool_kernel<__half>, grid, kThreads, 0, context, p);
}

int resize(const ResizeArguments& p, const LaunchContext& context) {
  const dim3 grid = blocks_for(elements(p.y));
  if (p.type == DataType::kF32) return launch(resize_kernel<float>, grid, kThreads, 0, context, p);
  return launch(resize_kernel<__half>, grid, kThreads, 0, context, p);
}

}  // namespace camd::infer::cuda
