#include "infer/graph/selection.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numeric>

#include "infer/graph/selection_math.hpp"

namespace camd::infer {
namespace {

constexpr std::size_t kMostDimensions = 8;

// The four pixels around a point of a grid, as selection::pixel_position() has them, and how far between them it lies.
struct Corners {
  std::array<std::int64_t, 4> at;
  float tx, ty;
};

Corners corners_of(const GridSample& o, const GridPlane& s, float gx, float gy) noexcept {
  const float x = selection::grid_place(o, gx, s.width), y = selection::grid_place(o, gy, s.height);
  const float x0 = std::floor(x), y0 = std::floor(y);
  const auto position = [&](float row, float column) { return selection::pixel_position(o, s, row, column); };
  return {{position(y0, x0), position(y0, x0 + 1), position(y0 + 1, x0), position(y0 + 1, x0 + 1)}, x - x0, y - y0};
}

}  // namespace

void top_k(const TopK& o, const float* x, std::int64_t size, std::int64_t stride, float* out, std::int64_t out_stride,
           std::int32_t* scratch) noexcept {
  const auto better = [&](std::int32_t i, std::int32_t j) {
    return selection::goes_before(selection::rank_key(x[i * stride], o.largest), i,
                                  selection::rank_key(x[j * stride], o.largest), j);
  };
  const std::int64_t count = std::min(o.count, size);
  if (count == 1) {
    std::int32_t best = 0;
    for (std::int32_t i = 1; i < size; ++i) best = better(i, best) ? i : best;
    out[0] = static_cast<float>(best);
    return;
  }
  std::iota(scratch, scratch + size, 0);
  if (count < size) std::nth_element(scratch, scratch + count, scratch + size, better);
  std::sort(scratch, scratch + count, better);
  for (std::int64_t n = 0; n < count; ++n) out[n * out_stride] = static_cast<float>(scratch[n]);
}

PickShape pick_shape(const Shape& x, const Shape& indices) noexcept {
  PickShape s;
  s.outer = x[0];
  s.size = x[1];
  s.inner = x[2];
  s.count = indices[1];
  s.outer_stride = indices[0] == 1 ? 0 : indices[1] * indices[2];
  s.count_stride = indices[2];
  s.inner_stride = indices[2] == 1 ? 0 : 1;
  return s;
}

void pick(const PickShape& s, const float* x, const float* indices, float* out, std::int64_t begin,
          std::int64_t end) noexcept {
  for (std::int64_t o = begin; o < end; ++o) {
    for (std::int64_t n = 0; n < s.count; ++n) {
      const float* const at = indices + o * s.outer_stride + n * s.count_stride;
      float* const to = out + (o * s.count + n) * s.inner;
      if (s.inner_stride == 0 && s.inner > 1) {
        const float* const from = x + (o * s.size + selection::inside_position(*at, s.size)) * s.inner;
        std::copy(from, from + s.inner, to);
        continue;
      }
      for (std::int64_t i = 0; i < s.inner; ++i)
        to[i] = x[(o * s.size + selection::inside_position(at[i], s.size)) * s.inner + i];
    }
  }
}

void scatter(const Scatter& o, const PickShape& s, const float* x, const float* indices, const float* updates,
             float* out, std::int64_t begin, std::int64_t end) noexcept {
  for (std::int64_t outer = begin; outer < end; ++outer) {
    const std::int64_t plane = s.size * s.inner;
    std::copy(x + outer * plane, x + (outer + 1) * plane, out + outer * plane);
    for (std::int64_t n = 0; n < s.count; ++n) {
      const float* const at = indices + outer * s.outer_stride + n * s.count_stride;
      for (std::int64_t i = 0; i < s.inner; ++i) {
        float& to = out[outer * plane + selection::inside_position(at[i * s.inner_stride], s.size) * s.inner + i];
        to = selection::combine(o.kind, to, updates[(outer * s.count + n) * s.inner + i]);
      }
    }
  }
}

void cumulative_sum(const CumSum& o, const float* x, float* out, std::int64_t size, std::int64_t stride) noexcept {
  double sum = 0;
  for (std::int64_t n = 0; n < size; ++n) {
    const std::int64_t i = (o.reverse ? size - 1 - n : n) * stride;
    const auto v = static_cast<double>(x[i]);
    out[i] = static_cast<float>(o.exclusive ? sum : sum + v);
    sum += v;
  }
}

void grid_sample(const GridSample& o, const GridPlane& s, const float* planes, std::int64_t count, const float* grid,
                 float* out) noexcept {
  const std::int64_t plane = s.height * s.width;
  if (o.mode != GridSample::Mode::kLinear) {
    for (std::int64_t c = 0; c < count; ++c) {
      for (std::int64_t p = 0; p < s.points; ++p) {
        out[c * s.points + p] = selection::grid_pixel(o, s, planes + c * plane, grid[2 * p], grid[2 * p + 1]);
      }
    }
    return;
  }
  // Where a point lies is the same in all channels, and it takes longer to find than the pixels there.
  std::array<Corners, 128> corners;  // NOLINT(cppcoreguidelines-pro-type-member-init): written before it is read
  for (std::int64_t first = 0; first < s.points; first += std::ssize(corners)) {
    const std::int64_t some = std::min<std::int64_t>(std::ssize(corners), s.points - first);
    for (std::int64_t i = 0; i < some; ++i) {
      corners[static_cast<std::size_t>(i)] = corners_of(o, s, grid[2 * (first + i)], grid[2 * (first + i) + 1]);
    }
    for (std::int64_t c = 0; c < count; ++c) {
      const float* const from = planes + c * plane;
      float* const to = out + c * s.points + first;
      const auto pixel = [from](std::int64_t at) { return at < 0 ? 0.0F : from[at]; };
      for (std::int64_t i = 0; i < some; ++i) {
        const Corners& p = corners[static_cast<std::size_t>(i)];
        to[i] = selection::between(p.tx, p.ty, pixel(p.at[0]), pixel(p.at[1]), pixel(p.at[2]), pixel(p.at[3]));
      }
    }
  }
}

SelectShape select_shape(const Shape& condition, const Shape& a, const Shape& b, const Shape& out) {
  SelectShape s;
  const auto strides = [&](const Shape& from) {
    std::vector<std::int64_t> result(out.size(), 0);
    std::int64_t step = 1;
    for (std::size_t d = from.size(); d-- > 0;) {
      result[d + out.size() - from.size()] = from[d] == 1 ? 0 : step;
      step *= from[d];
    }
    return result;
  };
  s.shape = out;
  s.condition = strides(condition);
  s.a = strides(a);
  s.b = strides(b);
  return s;
}

void select(const SelectShape& s, const float* condition, const float* a, const float* b, float* out) noexcept {
  std::array<std::int64_t, kMostDimensions> where{};
  const std::size_t rank = std::min(s.shape.size(), kMostDimensions);
  const std::int64_t count = element_count(s.shape);
  // Line by line; a scalar is a line of one.
  const std::size_t outer = rank == 0 ? 0 : rank - 1;
  const std::int64_t line = rank == 0 ? 1 : s.shape[outer];
  const auto step = [rank](const std::vector<std::int64_t>& strides) { return rank == 0 ? 0 : strides[rank - 1]; };
  const std::int64_t c_step = step(s.condition), a_step = step(s.a), b_step = step(s.b);
  std::int64_t c = 0, from_a = 0, from_b = 0;
  for (std::int64_t first = 0; first < count; first += line) {
    for (std::int64_t i = 0; i < line; ++i) {
      // Both are read, which costs less than a branch that is taken every second time.
      const float yes = a[from_a + i * a_step], no = b[from_b + i * b_step];
      out[first + i] = condition[c + i * c_step] != 0 ? yes : no;
    }
    for (std::size_t d = outer; d-- > 0;) {
      c += s.condition[d];
      from_a += s.a[d];
      from_b += s.b[d];
      if (++where[d] < s.shape[d]) break;
      where[d] = 0;
      c -= s.condition[d] * s.shape[d];
      from_a -= s.a[d] * s.shape[d];
      from_b -= s.b[d] * s.shape[d];
    }
  }
}

}  // namespace camd::infer
