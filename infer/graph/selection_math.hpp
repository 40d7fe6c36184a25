// The arithmetic of single elements that the selection operators have in common on CPU and GPU, so that both engines
// give the same (infer/graph/selection.hpp, infer/cuda/kernels/selection.cu).
//
// Threads: functions of their arguments, [any]; on a GPU device functions. Nothing is read outside of the given memory,
// whatever the numbers are.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "infer/graph/graph.hpp"
#include "infer/graph/selection.hpp"

#if defined(__CUDACC__)
#define CAMD_SELECTION __host__ __device__ inline
#else
#define CAMD_SELECTION inline
#endif

namespace camd::infer::selection {

// Position `index` of `size`: negative ones count from the end, what is outside becomes the nearest inside, NaN 0.
CAMD_SELECTION std::int64_t inside_position(float index, std::int64_t size) noexcept {
  const float wrapped = index < 0 ? index + static_cast<float>(size) : index;
  if (!(wrapped > 0)) return 0;
  return wrapped >= static_cast<float>(size) ? size - 1 : static_cast<std::int64_t>(wrapped);
}

// TopK's order: the larger key first, of equal ones the earlier position.
CAMD_SELECTION float rank_key(float v, bool largest) noexcept {
  if (v != v) return -std::numeric_limits<float>::infinity();
  return largest ? v : -v;
}
CAMD_SELECTION bool goes_before(float a, std::int64_t at_a, float b, std::int64_t at_b) noexcept {
  return a > b || (a == b && at_a < at_b);
}

// A Scatter's element after an update.
CAMD_SELECTION float combine(Scatter::Kind kind, float old, float update) noexcept {
  switch (kind) {
    case Scatter::Kind::kReplace: return update;
    case Scatter::Kind::kAdd: return old + update;
    case Scatter::Kind::kMul: return old * update;
    case Scatter::Kind::kMax: return old > update ? old : update;
    case Scatter::Kind::kMin: return old < update ? old : update;
  }
  return update;
}

// A place between pixels, from a grid's -1 to 1 (onnx.ai/onnx/operators/onnx__GridSample.html).
CAMD_SELECTION float denormalized(float v, std::int64_t size, bool align_corners) noexcept {
  const auto length = static_cast<float>(size);
  return align_corners ? (v + 1) / 2 * (length - 1) : ((v + 1) * length - 1) / 2;
}

// The place mirrored at the edges until it lies inside.
CAMD_SELECTION float reflected(float v, std::int64_t size, bool align_corners) noexcept {
  const float low = align_corners ? 0.0F : -0.5F;
  const float span = align_corners ? static_cast<float>(size - 1) : static_cast<float>(size);
  if (!(span > 0) || !(std::abs(v) < 1e30F)) return 0.0F;
  const float away = std::abs(v - low);
  const float rest = std::fmod(away, span);
  const bool odd = std::fmod(std::floor(away / span), 2.0F) != 0;
  return odd ? low + span - rest : low + rest;
}

// The place moved to the nearest pixel inside; NaN to the first.
CAMD_SELECTION float bounded(float v, std::int64_t size) noexcept {
  const auto last = static_cast<float>(size - 1);
  return v > 0 ? (v < last ? v : last) : 0.0F;
}

// Where in its plane the pixel lies that the padding says; -1: none, it counts as zero.
CAMD_SELECTION std::int64_t pixel_position(const GridSample& o, const GridPlane& s, float y, float x) noexcept {
  if (o.padding == GridSample::Padding::kReflection) {
    y = reflected(y, s.height, o.align_corners);
    x = reflected(x, s.width, o.align_corners);
  }
  if (o.padding == GridSample::Padding::kZeros &&
      !(y >= 0 && x >= 0 && y < static_cast<float>(s.height) && x < static_cast<float>(s.width))) {
    return -1;
  }
  return static_cast<std::int64_t>(bounded(y, s.height)) * s.width + static_cast<std::int64_t>(bounded(x, s.width));
}

CAMD_SELECTION float pixel(const GridSample& o, const GridPlane& s, const float* plane, float y, float x) noexcept {
  const std::int64_t position = pixel_position(o, s, y, x);
  return position < 0 ? 0.0F : plane[position];
}

// Weights of the four pixels around `t` in [0, 1), with a = -0.75.
CAMD_SELECTION void cubic_weights(float t, float (&weights)[4]) noexcept {
  constexpr float kA = -0.75F;
  const auto outer = [](float d) { return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA; };
  const auto inner = [](float d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1; };
  weights[0] = outer(t + 1);
  weights[1] = inner(t);
  weights[2] = inner(1 - t);
  weights[3] = outer(2 - t);
}

// The place in pixels along one side, moved inside as the padding says.
CAMD_SELECTION float grid_place(const GridSample& o, float g, std::int64_t size) noexcept {
  const float place = denormalized(g, size, o.align_corners);
  if (o.mode == GridSample::Mode::kCubic) return place;
  if (o.padding == GridSample::Padding::kBorder) return bounded(place, size);
  return o.padding == GridSample::Padding::kReflection ? reflected(place, size, o.align_corners) : place;
}

// Between two pixels, and between two rows of them.
CAMD_SELECTION float between(float tx, float ty, float a, float b, float c, float d) noexcept {
  return (1 - ty) * ((1 - tx) * a + tx * b) + ty * ((1 - tx) * c + tx * d);
}

CAMD_SELECTION float grid_pixel(const GridSample& o, const GridPlane& s, const float* plane, float gx,
                                float gy) noexcept {
  const float x = grid_place(o, gx, s.width);
  const float y = grid_place(o, gy, s.height);
  if (o.mode == GridSample::Mode::kNearest) {
    return pixel(o, s, plane, std::nearbyint(y), std::nearbyint(x));
  }
  const float x0 = std::floor(x), y0 = std::floor(y);
  const float tx = x - x0, ty = y - y0;
  if (o.mode == GridSample::Mode::kLinear) {
    return between(tx, ty, pixel(o, s, plane, y0, x0), pixel(o, s, plane, y0, x0 + 1), pixel(o, s, plane, y0 + 1, x0),
                   pixel(o, s, plane, y0 + 1, x0 + 1));
  }
  float wx[4], wy[4];
  cubic_weights(tx, wx);
  cubic_weights(ty, wy);
  float sum = 0;
  for (int j = 0; j < 4; ++j) {
    float row = 0;
    for (int i = 0; i < 4; ++i) {
      row += wx[i] * pixel(o, s, plane, y0 + static_cast<float>(j - 1), x0 + static_cast<float>(i - 1));
    }
    sum += wy[j] * row;
  }
  return sum;
}

}  // namespace camd::infer::selection
