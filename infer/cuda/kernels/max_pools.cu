// Max pooling with windows that lie inside each other.
//
// A block takes 16 bytes of channels of the whole image. The largest of a square is that of its rows' largest. A larger
// window is made from the one before it: the largest of a neighbourhood of largest values.
//
// Limited by: latency. Such images are small.
#include "infer/cuda/kernels/max_pools.hpp"

#include "infer/cuda/kernels/image.cuh"
#include "infer/cuda/kernels/launch.cuh"

namespace camd::infer::cuda {
namespace {

constexpr int kThreads = 512;

CAMD_DEVICE float largest(float a, float b) { return fmaxf(a, b); }
CAMD_DEVICE __half largest(__half a, __half b) { return __hmax(a, b); }

// The row or column nearest to `at` that an image of `size` has. Behind an edge that is the edge, which the window has
// anyway.
CAMD_DEVICE int clamp(int at, int size) { return min(max(at, 0), size - 1); }

// 16 bytes of channels.
template <typename T>
union Channels {
  uint4 bits;
  T values[16 / sizeof(T)];
};
template <typename T>
CAMD_DEVICE uint4 largest_of(const uint4& a, const uint4& b) {
  Channels<T> x, y;
  x.bits = a;
  y.bits = b;
#pragma unroll
  for (unsigned i = 0; i < 16 / sizeof(T); ++i) x.values[i] = largest(x.values[i], y.values[i]);
  return x.bits;
}

template <typename T>
CAMD_KERNEL(kThreads, 1)
max_pools_kernel(const MaxPoolsArguments p, const Divider by_width) {
  CAMD_SHARED(memory);
  constexpr int kChannels = 16 / sizeof(T);
  const int h = p.x.h, w = p.x.w, pixels = h * w, thread = static_cast<int>(threadIdx.x);
  const int c = static_cast<int>(blockIdx.x) * kChannels;
  auto* own = reinterpret_cast<uint4*>(memory);
  uint4 *const rows = own + pixels, *next = rows + pixels;
  wait_for_previous_kernel();
  let_next_kernel_start();
  for (int i = thread; i < pixels; i += kThreads)
    copy16_async(&own[i], static_cast<const T*>(p.x.data) + i * p.x.pitch + c, true);
  copy_wait_all();
  block_sync();
  int done = 0;
#pragma unroll 1
  for (int k = 0; k < p.count; ++k) {
    const int radius = p.radius[k] - done;
    done = p.radius[k];
    for (int i = thread; i < pixels; i += kThreads) {
      const int x = i - divide(i, by_width) * w;
      uint4 v = own[i];
      for (int d = -radius; d <= radius; ++d) v = largest_of<T>(v, own[i - x + clamp(x + d, w)]);
      rows[i] = v;
    }
    block_sync();
    T* const to = static_cast<T*>(p.y[k].data) + c;
    for (int i = thread; i < pixels; i += kThreads) {
      const int y = divide(i, by_width);
      uint4 v = rows[i];
      for (int d = -radius; d <= radius; ++d) v = largest_of<T>(v, rows[i + (clamp(y + d, h) - y) * w]);
      next[i] = v;
      *reinterpret_cast<uint4*>(to + i * p.y[k].pitch) = v;
    }
    block_sync();
    uint4* const free = own;
    own = next;
    next = free;
  }
}

}  // namespace

int max_pools(const MaxPoolsArguments& p, const LaunchContext& context) {
  const bool wide = p.type == DataType::kF32;
  const int padded = (p.x.c + 7) / 8 * 8;
  const dim3 grid(static_cast<unsigned>(padded / (wide ? 4 : 8)), 1, 1);
  const std::size_t bytes = max_pools_bytes(p.x.h, p.x.w);
  const Divider by_width = make_divider(p.x.w);
  if (wide) return launch(max_pools_kernel<float>, grid, kThreads, bytes, context, p, by_width);
  return launch(max_pools_kernel<__half>, grid, kThreads, bytes, context, p, by_width);
}

}  // namespace camd::infer::cuda
