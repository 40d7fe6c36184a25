// A block's threads share the pixels, 8 channels each, and add their sums. The weights arrive in shared
// memory before the kernel in front has ended. Where the image is multiplied, several blocks do that. Each computes the
// gate for itself: that takes less time than to hand it over.
//
// Limited by: latency. Such images are small.
#include "infer/cuda/kernels/squeeze.hpp"

#include "infer/cuda/kernels/activation.cuh"
#include "infer/cuda/kernels/eight.cuh"
#include "infer/cuda/kernels/image.cuh"
#include "infer/cuda/kernels/launch.cuh"

#include <algorithm>

namespace camd::infer::cuda {
namespace {

CAMD_DEVICE float over_warp(float v) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) v += exchange_lanes(v, mask);
  return v;
}

// A block's shared memory, laid out as SqueezeMemory says.
struct Shared {
  float *first, *second, *sums, *hidden;
  CAMD_DEVICE Shared(unsigned char* memory, const SqueezeMemory& s)
      : first(reinterpret_cast<float*>(memory)),
        second(first + s.first),
        sums(second + s.second),
        hidden(sums + s.sums) {}
};

// Fetches the weights of both layers, which do not come from the kernel before.
template <int kThreads>
CAMD_DEVICE void fetch_weights(const SqueezeArguments& p, const SqueezeMemory& s, const Shared& at) {
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < s.first / 4; i += kThreads) copy16_async(at.first + i * 4, p.first + i * 4, true);
  for (int i = thread; i < s.second / 4; i += kThreads) copy16_async(at.second + i * 4, p.second + i * 4, true);
}

CAMD_DEVICE void multiply(float (&v)[8], const float* gates) {
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] *= gates[i];
}

// Adds `lines` lines of `count` sums each into the first of them, a channel a thread. All threads call it.
template <int kThreads>
CAMD_DEVICE void add_few_lines(float* sums, int lines, int count) {
  for (int c = static_cast<int>(threadIdx.x); c < count; c += kThreads) {
    float all = 0.0F;
#pragma unroll 4
    for (int i = 0; i < lines; ++i) all += sums[i * count + c];
    sums[c] = all;
  }
  block_sync();
}
// The same of many lines.
template <int kThreads>
CAMD_DEVICE void add_lines(float* sums, int lines, int count) {
  const int thread = static_cast<int>(threadIdx.x);
  // Several threads share a channel, and each adds some lines; then one adds what they found.
  const int parts = kThreads / count, part = thread / count, channel = thread - part * count;
  if (parts > 1) {
    float some = 0.0F;
    if (part < parts) {
#pragma unroll 4
      for (int i = part; i < lines; i += parts) some += sums[i * count + channel];
    }
    block_sync();
    if (part < parts) sums[thread] = some;
    block_sync();
  }
  add_few_lines<kThreads>(sums, parts > 1 ? min(parts, lines) : lines, count);
}

// The gates of all channels, in place of the pixels' sums; stored where they are all that is wanted. All threads call
// it.
template <typename T, int kThreads>
CAMD_DEVICE void make_gates(const SqueezeArguments& p, const Shared& at_block) {
  const float *const first = at_block.first, *const second = at_block.second;
  float *const sums = at_block.sums, *const hidden = at_block.hidden;
  const int thread = static_cast<int>(threadIdx.x), lane = lane_index();
  const float share = 1.0F / static_cast<float>(p.x.h * p.x.w);
  for (int i = warp_index(); i < p.hidden; i += kThreads / 32) {
    float sum = 0.0F;
    for (int c = lane; c < p.x.c; c += 32) sum = fmaf(first[i * p.x.c + c], sums[c], sum);
    sum = over_warp(sum);
    if (lane == 0) hidden[i] = activate_any(p.first_activation, fmaf(sum, share, first[p.hidden * p.x.c + i]));
  }
  block_sync();
  for (int n = thread; n < padded(p.y.c); n += kThreads) {
    float result = 0.0F;
    if (n < p.y.c) {
      float sum = second[p.hidden * p.y.c + n];
#pragma unroll 8
      for (int i = 0; i < p.hidden; ++i) sum = fmaf(second[i * p.y.c + n], hidden[i], sum);
      result = activate_any(p.second_activation, sum);
    }
    sums[n] = result;
    if (!p.excites) *at<T>(p.y, 0, 0, n) = from_float<T>(result);
  }
  block_sync();
}

template <typename T>
CAMD_KERNEL(kSqueezeThreads, 1)
squeeze_kernel(const SqueezeArguments p, const SqueezeMemory s) {
  constexpr int kThreads = kSqueezeThreads;
  CAMD_SHARED(memory);
  const Shared at_block(memory, s);
  float* const sums = at_block.sums;
  const int thread = static_cast<int>(threadIdx.x);
  fetch_weights<kThreads>(p, s, at_block);
  const int groups = (p.x.c + 7) / 8, rows = kThreads / groups, channels = groups * 8;
  const int row = thread / groups, group = thread - row * groups, pixels = p.x.h * p.x.w;
  wait_for_previous_kernel();
  let_next_kernel_start();

  const auto* const x = static_cast<const T*>(p.x.data);
  float own[8] = {};
  if (row < rows) {
#pragma unroll 4
    for (int pixel = row; pixel < pixels; pixel += rows) {
      float v[8];
      load_eight(v, x + static_cast<std::ptrdiff_t>(pixel) * p.x.pitch + group * 8);
#pragma unroll
      for (int i = 0; i < 8; ++i) own[i] += v[i];
    }
    for (int i = 0; i < 8; ++i) sums[row * channels + group * 8 + i] = own[i];
  }
  copy_wait_all();
  block_sync();
  add_lines<kThreads>(sums, rows, channels);
  make_gates<T, kThreads>(p, at_block);
  // All blocks together have as many rows of threads as take part here.
  if (!p.excites || row >= rows) return;
  const int blocks = static_cast<int>(gridDim.x);
  auto* const y = static_cast<T*>(p.y.data);
  for (int pixel = static_cast<int>(blockIdx.x) * rows + row; pixel < pixels; pixel += blocks * rows) {
    float v[8];
    load_eight(v, x + static_cast<std::ptrdiff_t>(pixel) * p.x.pitch + group * 8);
    multiply(v, sums + group * 8);
    store_eight(y + static_cast<std::ptrdiff_t>(pixel) * p.y.pitch + group * 8, v);
  }
}

// The same where the pixels are added already (SqueezeArguments::sums). A thread has its first pixel before it has the
// gate.
template <typename T>
CAMD_KERNEL(kExciteThreads, 1)
excite_kernel(const SqueezeArguments p, const SqueezeMemory s) {
  constexpr int kThreads = kExciteThreads;
  CAMD_SHARED(memory);
  const Shared at_block(memory, s);
  float* const sums = at_block.sums;
  const int thread = static_cast<int>(threadIdx.x);
  fetch_weights<kThreads>(p, s, at_block);
  const int groups = (p.x.c + 7) / 8, rows = kThreads / groups;
  const int row = thread / groups, group = thread - row * groups, pixels = p.x.h * p.x.w;
  const int begin = static_cast<int>(blockIdx.x) * rows + row, step = static_cast<int>(gridDim.x) * rows;
  const auto* const x = static_cast<const T*>(p.x.data) + group * 8;
  auto* const y = static_cast<T*>(p.y.data) + group * 8;
  const bool multiplies = p.excites && row < rows && begin < pixels;
  // A thread adds every so many lines of one channel.
  const int c = p.x.c, parts = max(kThreads / c, 1);
  wait_for_previous_kernel();
  let_next_kernel_start();

  for (int i = thread; i < parts * c; i += kThreads) {
    const int part = i / c;
    float some = 0.0F;
#pragma unroll 8
    for (int line = part; line < p.sum_lines; line += parts) some += p.sums[line * c + i - part * c];
    sums[i] = some;
  }
  float v[8];
  if (multiplies) load_eight(v, x + static_cast<std::ptrdiff_t>(begin) * p.x.pitch);
  copy_wait_all();
  block_sync();
  add_few_lines<kThreads>(sums, parts, c);
  make_gates<T, kThreads>(p, at_block);
  if (!multiplies) return;
  for (int pixel = begin;;) {
    multiply(v, sums + group * 8);
    store_eight(y + static_cast<std::ptrdiff_t>(pixel) * p.y.pitch, v);
    pixel += step;
    if (pixel >= pixels) return;
    load_eight(v, x + static_cast<std::ptrdiff_t>(pixel) * p.x.pitch);
  }
}

template <typename T>
int of_type(const SqueezeArguments& p, const LaunchContext& context) {
  const SqueezeMemory memory = squeeze_memory(p.x.c, p.hidden, p.y.c);
  const int threads = p.sums != nullptr ? kExciteThreads : kSqueezeThreads;
  // So many that a thread multiplies eight channels of one pixel, within bounds: each block computes all gates.
  constexpr int kMostBlocks = 32;
  const int rows = threads / ((p.x.c + 7) / 8);
  const int blocks = p.excites ? std::min((p.x.h * p.x.w + rows - 1) / rows, kMostBlocks) : 1;
  return launch(p.sums != nullptr ? excite_kernel<T> : squeeze_kernel<T>, dim3(static_cast<unsigned>(blocks), 1, 1),
                threads, memory.total(), context, p, memory);
}

}  // namespace

int squeeze(const SqueezeArguments& p, const LaunchContext& context) {
  return p.type == DataType::kF16 ? of_type<__half>(p, context) : of_type<float>(p, context);
}

}  // namespace camd::infer::cuda
