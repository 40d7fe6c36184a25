// A warp for each query of a head; a lane for each channel. All lanes look at the same places, whose channels lie side
// by side.
//
// Limited by: latency of the L2. The loads of several points are in flight together.
#include "infer/cuda/kernels/deformable.hpp"

#include "infer/cuda/kernels/launch.cuh"
#include "infer/cuda/kernels/strided.cuh"
#include "infer/graph/selection_math.hpp"

namespace camd::infer::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kLanes = 32;
constexpr int kWarps = kThreads / kLanes;

// Of a sum's or a largest value's parts, one in each lane.
CAMD_DEVICE float over_warp(float v, bool largest) {
#pragma unroll
  for (int mask = kLanes / 2; mask > 0; mask /= 2) {
    const float other = exchange_lanes(v, mask);
    v = largest ? fmaxf(v, other) : v + other;
  }
  return v;
}

CAMD_KERNEL(kThreads, 1) deformable_kernel(const CAMD_GRID_CONSTANT DeformableArguments p, const int points) {
  let_next_kernel_start();
  wait_for_previous_kernel();
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int item = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / kLanes;
  if (item >= p.heads * p.queries) return;  // a whole warp
  const int head = item / p.queries, query = item - head * p.queries;
  const std::int64_t weights = head * p.weights.strides[0] + query * p.weights.strides[1];
  float largest = 0.0F, total = 1.0F;
  if (p.softmax) {
    largest = -INFINITY;
    for (int i = lane; i < points; i += kLanes)
      largest = fmaxf(largest, load(p.weights, weights + i * p.weights.strides[2]));
    largest = over_warp(largest, true);
    total = 0.0F;
    for (int i = lane; i < points; i += kLanes)
      total += __expf(load(p.weights, weights + i * p.weights.strides[2]) - largest);
    total = over_warp(total, false);
  }
  for (int channel = lane; channel < p.channels; channel += kLanes) {
    float sum = 0.0F;
    std::int64_t weight_at = weights;
#pragma unroll 1
    for (int l = 0; l < p.level_count; ++l) {
      const DeformableLevel& level = p.levels[l];
      const std::int64_t x = head * level.x.strides[0] + channel * level.x.strides[1];
      const std::int64_t grid = head * level.grid.strides[0] + query * level.grid.strides[1];
      const auto height = static_cast<float>(level.height), width = static_cast<float>(level.width);
#pragma unroll 4
      for (int i = 0; i < level.points; ++i) {
        const std::int64_t place = grid + i * level.grid.strides[2];
        const float px = selection::denormalized(load(level.grid, place), level.width, p.align_corners);
        const float py =
            selection::denormalized(load(level.grid, place + level.grid.strides[3]), level.height, p.align_corners);
        const float x0 = floorf(px), y0 = floorf(py);
        const bool left = x0 >= 0.0F && x0 < width, right = x0 >= -1.0F && x0 < width - 1.0F;
        const bool above = y0 >= 0.0F && y0 < height, below = y0 >= -1.0F && y0 < height - 1.0F;
        // Numbers without a place in the image are not made whole: none of the four is read then.
        const std::int64_t column = left || right ? static_cast<std::int64_t>(x0) : 0;
        const std::int64_t row = above || below ? static_cast<std::int64_t>(y0) : 0;
        const std::int64_t at = x + row * level.x.strides[2] + column * level.x.strides[3];
        const std::int64_t next_row = level.x.strides[2], next_column = level.x.strides[3];
        const float a = above && left ? load(level.x, at) : 0.0F;
        const float b = above && right ? load(level.x, at + next_column) : 0.0F;
        const float c = below && left ? load(level.x, at + next_row) : 0.0F;
        const float d = below && right ? load(level.x, at + next_row + next_column) : 0.0F;
        float weight = load(p.weights, weight_at);
        if (p.softmax) weight = __expf(weight - largest);
        const bool somewhere = (left || right) && (above || below);
        const float tx = somewhere ? px - x0 : 0.0F, ty = somewhere ? py - y0 : 0.0F;
        sum = fmaf(selection::between(tx, ty, a, b, c, d), weight, sum);
        weight_at += p.weights.strides[2];
      }
    }
    store(p.y, head * p.y.strides[0] + channel * p.y.strides[1] + query * p.y.strides[2], sum / total);
  }
}

}  // namespace

int deformable_attention(const DeformableArguments& p, const LaunchContext& context) {
  int points = 0;
  for (int l = 0; l < p.level_count; ++l) points += p.levels[l].points;
  const dim3 grid(static_cast<unsigned>((p.heads * p.queries + kWarps - 1) / kWarps), 1, 1);
  return launch(deformable_kernel, grid, kThreads, 0, context, p, points);
}

}  // namespace camd::infer::cuda
