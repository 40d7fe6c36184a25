// A warp for each query of a head. The plain kernel has a lane for each channel: all lanes look at the same places.
//
// Limited by: latency of the L2. The loads of several points are in flight together.
#include "infer/cuda/kernels/deformable.hpp"

#include <cstdlib>

#include "infer/cuda/kernels/eight.cuh"
#include "infer/cuda/kernels/launch.cuh"
#include "infer/cuda/kernels/strided.cuh"
#include "infer/graph/selection_math.hpp"

namespace camd::infer::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kLanes = 32;
constexpr int kWarps = kThreads / kLanes;
constexpr int kMostDeformablePoints = kLanes;  // of deformable_eights_kernel()

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
  wait_for_previous_kernel();
  let_next_kernel_start();
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
      total += quick_exp(load(p.weights, weights + i * p.weights.strides[2]) - largest);
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
        if (p.softmax) weight = quick_exp(weight - largest);
        const bool somewhere = (left || right) && (above || below);
        const float tx = somewhere ? px - x0 : 0.0F, ty = somewhere ? py - y0 : 0.0F;
        sum = fmaf(selection::between(tx, ty, a, b, c, d), weight, sum);
        weight_at += p.weights.strides[2];
      }
    }
    store(p.y, head * p.y.strides[0] + channel * p.y.strides[1] + query * p.y.strides[2], sum / total);
  }
}

// Where a point looks: the first of its four pixels, and what each counts.
struct Corners {
  int at = 0;        // elements from the head's first
  int next_row = 0;  // 0 where there is none
  int next_column = 0;
  float share[4] = {};  // above left, above right, below left, below right; 0 for those outside
};
CAMD_DEVICE Corners corners_of(const DeformableLevel& level, float gx, float gy, bool align_corners, float weight) {
  const float px = selection::denormalized(gx, level.width, align_corners);
  const float py = selection::denormalized(gy, level.height, align_corners);
  const float x0 = floorf(px), y0 = floorf(py);
  const auto height = static_cast<float>(level.height), width = static_cast<float>(level.width);
  const bool left = x0 >= 0.0F && x0 < width, right = x0 >= -1.0F && x0 < width - 1.0F;
  const bool above = y0 >= 0.0F && y0 < height, below = y0 >= -1.0F && y0 < height - 1.0F;
  Corners c;
  if (!(left || right) || !(above || below)) return c;  // also numbers that are no place
  const float tx = px - x0, ty = py - y0;
  const int column = left ? static_cast<int>(x0) : 0, row = above ? static_cast<int>(y0) : 0;
  c.at = row * static_cast<int>(level.x.strides[2]) + column * static_cast<int>(level.x.strides[3]);
  c.next_row = above && below ? static_cast<int>(level.x.strides[2]) : 0;
  c.next_column = left && right ? static_cast<int>(level.x.strides[3]) : 0;
  c.share[0] = above && left ? (1.0F - ty) * (1.0F - tx) * weight : 0.0F;
  c.share[1] = above && right ? (1.0F - ty) * tx * weight : 0.0F;
  c.share[2] = below && left ? ty * (1.0F - tx) * weight : 0.0F;
  c.share[3] = below && right ? ty * tx * weight : 0.0F;
  return c;
}

// f16 whose channels lie side by side. First each lane finds the corners of one point. Then kParts lanes take a pixel,
// eight channels each, so that a warp looks at 32 / kParts pixels at a time; at last their sums are added.
template <int kParts>
CAMD_KERNEL(kThreads, 1)
deformable_eights_kernel(CAMD_GRID_CONSTANT const DeformableArguments p, const int points) {
  CAMD_SHARED(memory);
  constexpr int kPixels = kLanes / kParts;  // at a time
  const int lane = static_cast<int>(threadIdx.x) % kLanes, warp = static_cast<int>(threadIdx.x) / kLanes;
  auto* const places = reinterpret_cast<uint2*>(memory) + warp * kMostDeformablePoints * 4;  // element, share's bits
  const int item = static_cast<int>(blockIdx.x) * kWarps + warp;
  const int head = item / p.queries, query = item - head * p.queries;
  int first = 0, level_of_lane = -1, point = 0;
  for (int l = 0; l < p.level_count; ++l) {
    const int next = first + p.levels[l].points;
    if (lane >= first && lane < next) {
      level_of_lane = l;
      point = lane - first;
    }
    first = next;
  }
  const bool has_point = level_of_lane >= 0;
  const DeformableLevel& level = p.levels[has_point ? level_of_lane : 0];
  const std::int64_t place =
      head * level.grid.strides[0] + query * level.grid.strides[1] + point * level.grid.strides[2];
  const StridedElement found_x = strided_element(level.grid, place),
                       found_y = strided_element(level.grid, place + level.grid.strides[3]),
                       found_weight =
                           strided_element(p.weights, head * p.weights.strides[0] + query * p.weights.strides[1] +
                                                          (has_point ? lane : 0) * p.weights.strides[2]);
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (item >= p.heads * p.queries) return;  // a whole warp
  const unsigned word_x = *found_x.word, word_y = *found_y.word, word_weight = *found_weight.word;
  float weight = has_point ? value_of(found_weight, word_weight) : 0.0F;
  if (p.softmax) {
    const float largest = over_warp(has_point ? weight : -INFINITY, true);
    weight = has_point ? quick_exp(weight - largest) : 0.0F;
    weight /= over_warp(weight, false);
  }
  const __half* const base = static_cast<const __half*>(p.levels[0].x.data);
  if (has_point) {
    const Corners c = corners_of(level, value_of(found_x, word_x), value_of(found_y, word_y), p.align_corners, weight);
    const int at = static_cast<int>(static_cast<const __half*>(level.x.data) - base) +
                   static_cast<int>(head * level.x.strides[0]) + c.at;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int moved = at + (k >= 2 ? c.next_row : 0) + (k % 2 == 1 ? c.next_column : 0);
      places[lane * 4 + k] = make_uint2(static_cast<unsigned>(moved), __float_as_uint(c.share[k]));
    }
  }
  warp_sync();
  const int part = lane % kParts;
  float sums[8] = {};
#pragma unroll 4
  for (int i = lane / kParts; i < points * 4; i += kPixels) {
    const uint2 place = places[i];
    const float share = __uint_as_float(place.y);
    float v[8];
    load_eight(v, base + static_cast<int>(place.x) + part * 8);
#pragma unroll
    for (int k = 0; k < 8; ++k) sums[k] = fmaf(v[k], share, sums[k]);
  }
#pragma unroll
  for (int mask = kParts; mask < kLanes; mask *= 2) {
#pragma unroll
    for (float& s : sums) s += exchange_lanes(s, mask);
  }
  if (lane >= kParts) return;
  const std::int64_t y = head * p.y.strides[0] + query * p.y.strides[2];
#pragma unroll
  for (int k = 0; k < 8; ++k) store(p.y, y + (part * 8 + k) * p.y.strides[1], sums[k]);
}

// All levels in one memory, near enough for offsets of 32 bits, so that an address is a sum.
bool takes_eights(const DeformableArguments& p, int points) {
  constexpr std::int64_t kNear = std::int64_t{1} << 30;
  bool fits = points <= kMostDeformablePoints && p.channels % 8 == 0;
  const auto* const base = static_cast<const __half*>(p.levels[0].x.data);
  for (int l = 0; l < p.level_count; ++l) {
    const DeformableLevel& level = p.levels[l];
    const std::int64_t shape[] = {p.heads, p.channels, level.height, level.width};
    std::int64_t farthest = std::abs(static_cast<const __half*>(level.x.data) - base);
    for (int d = 0; d < 4; ++d) farthest += (shape[d] - 1) * std::abs(level.x.strides[d]);
    fits = fits && level.x.type == DataType::kF16 && farthest < kNear &&
           by_eights(level.x, shape, 4, 1, level.x.strides[1]);
  }
  return fits;
}

}  // namespace

int deformable_attention(const DeformableArguments& p, const LaunchContext& context) {
  int points = 0;
  for (int l = 0; l < p.level_count; ++l) points += p.levels[l].points;
  const dim3 grid(static_cast<unsigned>((p.heads * p.queries + kWarps - 1) / kWarps), 1, 1);
  constexpr std::size_t kPlaces = std::size_t{kWarps} * kMostDeformablePoints * 4 * sizeof(uint2);
  if (takes_eights(p, points)) {
    switch (p.channels) {
      case 8: return launch(deformable_eights_kernel<1>, grid, kThreads, kPlaces, context, p, points);
      case 16: return launch(deformable_eights_kernel<2>, grid, kThreads, kPlaces, context, p, points);
      case 32: return launch(deformable_eights_kernel<4>, grid, kThreads, kPlaces, context, p, points);
      case 64: return launch(deformable_eights_kernel<8>, grid, kThreads, kPlaces, context, p, points);
      default: break;
    }
  }
  return launch(deformable_kernel, grid, kThreads, 0, context, p, points);
}

}  // namespace camd::infer::cuda
