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

constexpr int kThreads = kSqueezeThreads;

CAMD_DEVICE float over_warp(float v) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) v += exchange_lanes(v, mask);
  return v;
}

template <typename T>
CAMD_KERNEL(kThreads, 1)
squeeze_kernel(const SqueezeArguments p, const SqueezeMemory s) {
  CAMD_SHARED(memory);
  auto* const first = reinterpret_cast<float*>(memory);
  float *const second = first + s.first, *const sums = second + s.second, *const hidden = sums + s.sums;
  const int thread = static_cast<int>(threadIdx.x), lane = lane_index(), warp = warp_index();
  for (int i = thread; i < s.first / 4; i += kThreads) copy16_async(first + i * 4, p.first + i * 4, true);
  for (int i = thread; i < s.second / 4; i += kThreads) copy16_async(second + i * 4, p.second + i * 4, true);
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
  // Several threads share a channel, and each adds some rows; then one adds what they found.
  const int parts = kThreads / channels, part = thread / channels, channel = thread - part * channels;
  if (parts > 1) {
    float some = 0.0F;
    if (part < parts) {
#pragma unroll 4
      for (int i = part; i < rows; i += parts) some += sums[i * channels + channel];
    }
    block_sync();
    if (part < parts) sums[thread] = some;
    block_sync();
  }
  const int left = parts > 1 ? min(parts, rows) : rows;
  for (int c = thread; c < channels; c += kThreads) {
    float all = 0.0F;
#pragma unroll 4
    for (int i = 0; i < left; ++i) all += sums[i * channels + c];
    sums[c] = all;
  }
  block_sync();

  const float share = 1.0F / static_cast<float>(pixels);
  for (int i = warp; i < p.hidden; i += kThreads / 32) {
    float sum = 0.0F;
    for (int c = lane; c < p.x.c; c += 32) sum = fmaf(first[i * p.x.c + c], sums[c], sum);
    sum = over_warp(sum);
    if (lane == 0) hidden[i] = activate_any(p.first_activation, fmaf(sum, share, first[p.hidden * p.x.c + i]));
  }
  block_sync();
  float* const gates = sums;  // which nobody reads any more
  for (int n = thread; n < padded(p.y.c); n += kThreads) {
    float result = 0.0F;
    if (n < p.y.c) {
      float sum = second[p.hidden * p.y.c + n];
#pragma unroll 8
      for (int i = 0; i < p.hidden; ++i) sum = fmaf(second[i * p.y.c + n], hidden[i], sum);
      result = activate_any(p.second_activation, sum);
    }
    gates[n] = result;
    if (!p.excites) *at<T>(p.y, 0, 0, n) = from_float<T>(result);
  }
  if (!p.excites) return;
  block_sync();
  // All blocks together have as many rows of threads as take part here.
  if (row >= rows) return;
  const int blocks = static_cast<int>(gridDim.x);
  auto* const y = static_cast<T*>(p.y.data);
  for (int pixel = static_cast<int>(blockIdx.x) * rows + row; pixel < pixels; pixel += blocks * rows) {
    float v[8];
    load_eight(v, x + static_cast<std::ptrdiff_t>(pixel) * p.x.pitch + group * 8);
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] *= gates[group * 8 + i];
    store_eight(y + static_cast<std::ptrdiff_t>(pixel) * p.y.pitch + group * 8, v);
  }
}

}  // namespace

int squeeze(const SqueezeArguments& p, const LaunchContext& context) {
  const SqueezeMemory memory = squeeze_memory(p.x.c, p.hidden, p.y.c);
  // So many that a thread multiplies eight channels of one pixel, within bounds: each block reads the whole image.
  constexpr int kMostBlocks = 32;
  const int rows = kThreads / ((p.x.c + 7) / 8);
  const int blocks = p.excites ? std::min((p.x.h * p.x.w + rows - 1) / rows, kMostBlocks) : 1;
  const dim3 grid(static_cast<unsigned>(blocks), 1, 1);
  if (p.type == DataType::kF16)
    return launch(squeeze_kernel<__half>, grid, kThreads, memory.total(), context, p, memory);
  return launch(squeeze_kernel<float>, grid, kThreads, memory.total(), context, p, memory);
}

}  // namespace camd::infer::cuda
