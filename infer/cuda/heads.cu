// 1x1 convolutions side by side that make network outputs: one matrix product whose rows are output channels and
// whose columns are pixels, so that the planes of the outputs are written as they lie.
#include "infer/cuda/activation.cuh"
#include "infer/cuda/launch.cuh"
#include "infer/cuda/tiles.hpp"

namespace camd::infer::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;
constexpr int kPixels = kWarps * 16;
static_assert(kPixels == kHeadsPixels);

template <typename T>
CAMD_DEVICE void store_pair(void* plane_data, std::ptrdiff_t at, float first, float second, bool both, bool aligned) {
  T* const to = static_cast<T*>(plane_data) + at;
  if (both && aligned) {
    if constexpr (sizeof(T) == 4)
      *reinterpret_cast<float2*>(to) = make_float2(first, second);
    else
      *reinterpret_cast<unsigned*>(to) = pack_halfs(first, second);
    return;
  }
  to[0] = from_float<T>(first);
  if (both) to[1] = from_float<T>(second);
}

template <int kBlocks>
CAMD_KERNEL(kThreads, 1)
heads_kernel(const HeadsArguments p, const HeadsMemory s) {
  CAMD_SHARED(memory);
  unsigned char* const tile = memory;
  auto* const weights = reinterpret_cast<uint4*>(memory + s.tile_bytes);  // [n16][k step][lane]
  const int thread = static_cast<int>(threadIdx.x);
  let_next_kernel_start();
  for (int i = thread; i < kBlocks * s.k_steps * 32; i += kThreads) {
    copy16_async(&weights[i], static_cast<const uint4*>(p.weights) + i, true);
  }
  const int lane = lane_index();
  float biases[kBlocks][2];
#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
    biases[m][0] = p.bias[m * 16 + (lane >> 2)];
    biases[m][1] = p.bias[m * 16 + (lane >> 2) + 8];
  }
  wait_for_previous_kernel();

  const int pixels = p.x.h * p.x.w;
  const int first = static_cast<int>(blockIdx.x) * kPixels;
  const int groups = (p.x.c + 7) / 8;
  const int words = s.k_steps * 2;
  for (int i = thread; i < kPixels * words; i += kThreads) {
    const int pixel = divide(i, s.by_words);
    const int group = i - pixel * words;
    const bool inside = first + pixel < pixels && group < groups;
    const auto* const from =
        static_cast<const __half*>(p.x.data) + static_cast<std::ptrdiff_t>(first + pixel) * p.x.pitch + group * 8;
    copy16_async(tile + pixel * s.pixel_bytes + group * 16, from, inside);
  }
  copy_wait_all();
  block_sync();

  const int warp_pixel = warp_index() * 16;
  float sums[kBlocks][2][4] = {};
  const unsigned char* const b_row =
      tile + (warp_pixel + (lane >> 4) * 8 + (lane & 7)) * s.pixel_bytes + ((lane >> 3) & 1) * 16;
  for (int k = 0; k < s.k_steps; ++k) {
    unsigned b[4];
    load_matrices(b, b_row + k * 32);
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
      const uint4 bits = weights[(m * s.k_steps + k) * 32 + lane];
      const unsigned a[4] = {bits.x, bits.y, bits.z, bits.w};
      multiply_add(sums[m][0], a, b[0], b[1]);
      multiply_add(sums[m][1], a, b[2], b[3]);
    }
  }

#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int n = m * 16 + (lane >> 2) + half * 8;
      if (n >= p.n) continue;
      PlaneSink sink = p.sinks[0];
#pragma unroll
      for (int i = 1; i < kMaxSinks; ++i) {
        if (i < p.sink_count && n >= p.sinks[i].first) sink = p.sinks[i];
      }
      const int channel = n - sink.first;
      if (channel >= sink.channels) continue;
      const float bias = biases[m][half];
      const Bounds bounds = bounds_of(sink.activation);
      const std::ptrdiff_t plane = static_cast<std::ptrdiff_t>(channel) * pixels;
      const bool aligned = (plane & 1) == 0;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int pixel = first + warp_pixel + j * 8 + (lane & 3) * 2;
        if (pixel >= pixels) continue;
        const float v0 = activate(sink.activation, bounds, sums[m][j][half * 2] + bias);
        const float v1 = activate(sink.activation, bounds, sums[m][j][half * 2 + 1] + bias);
        const bool both = pixel + 1 < pixels;
        if (p.type == DataType::kF32)
          store_pair<float>(sink.data, plane + pixel, v0, v1, both, aligned);
        else
          store_pair<__half>(sink.data, plane + pixel, v0, v1, both, aligned);
      }
    }
  }
}

}  // namespace

int heads(const HeadsArguments& p, const LaunchContext& context) {
  const HeadsMemory s = heads_memory(p.x.c, p.n);
  const dim3 grid(static_cast<unsigned>((p.x.h * p.x.w + kPixels - 1) / kPixels), 1, 1);
  const std::size_t bytes = s.total();
  switch ((p.n + 15) / 16) {
    case 1: return launch(heads_kernel<1>, grid, kThreads, bytes, context, p, s);
    case 2: return launch(heads_kernel<2>, grid, kThreads, bytes, context, p, s);
    case 3: return launch(heads_kernel<3>, grid, kThreads, bytes, context, p, s);
    default: return launch(heads_kernel<4>, grid, kThreads, bytes, context, p, s);
  }
}

}  // namespace camd::infer::cuda
