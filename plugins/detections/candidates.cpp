// Keeping the best candidates, and the overlap of two boxes.
#include "plugins/detections/candidates.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

namespace camd::plugins {
namespace {

bool better(const Candidate& a, const Candidate& b) noexcept {
  if (a.score != b.score) return a.score > b.score;
  return std::tie(a.class_id, a.level, a.cell, a.anchor) < std::tie(b.class_id, b.level, b.cell, b.anchor);
}

float cross(const Point& o, const Point& a, const Point& b) noexcept {
  return (a.x - o.x) * (b.y - o.y) - (a.y - o.y) * (b.x - o.x);
}

// Of a polygon whose corners go around it, whichever way.
float area_of(const Point* corners, std::size_t count) noexcept {
  float twice = 0.0F;
  for (std::size_t i = 1; i + 1 < count; ++i) twice += cross(corners[0], corners[i], corners[i + 1]);
  return 0.5F * std::abs(twice);
}

}  // namespace

void Candidates::keep_best() {
  const auto middle = items_.begin() + static_cast<std::ptrdiff_t>(kCapacity);
  std::nth_element(items_.begin(), middle, items_.end(), better);
  items_.resize(kCapacity);
  floor_ = std::min_element(items_.begin(), items_.end(), [](const Candidate& a, const Candidate& b) {
             return a.score < b.score;
           })->score;
  full_ = true;
}

const std::vector<Candidate>& Candidates::sorted() {
  if (items_.size() > kCapacity) keep_best();
  std::sort(items_.begin(), items_.end(), better);
  return items_;
}

float overlap(const Box& a, const Box& b) noexcept {
  const float width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  const float height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  if (!(width > 0.0F && height > 0.0F)) return 0.0F;
  const float both = width * height;
  const float either = (a.x1 - a.x0) * (a.y1 - a.y0) + (b.x1 - b.x0) * (b.y1 - b.y0) - both;
  return both / either;
}

float overlap_of_corners(const Point* a, const Point* b) noexcept {
  constexpr std::size_t kMost = 8;  // corners that two rectangles have in common
  std::array<Point, kMost> part, cut;
  std::copy(a, a + 4, part.begin());
  std::size_t count = 4;
  const float turn = cross(b[0], b[1], b[2]) < 0 ? -1.0F : 1.0F;
  // Cuts what of `a` lies outside of each of b's sides (Sutherland and Hodgman, 1974).
  for (std::size_t side = 0; side < 4 && count > 0; ++side) {
    const Point &from = b[side], &to = b[(side + 1) % 4];
    std::size_t kept = 0;
    const auto keep = [&](const Point& p) {
      if (kept < kMost) cut[kept++] = p;
    };
    for (std::size_t i = 0; i < count; ++i) {
      const Point &p = part[i], &q = part[(i + 1) % count];
      const float at_p = turn * cross(from, to, p), at_q = turn * cross(from, to, q);
      if (at_p >= 0) keep(p);
      if ((at_p >= 0) != (at_q >= 0)) {
        const float t = at_p / (at_p - at_q);
        keep({p.x + t * (q.x - p.x), p.y + t * (q.y - p.y)});
      }
    }
    part = cut;
    count = kept;
  }
  const float both = count < 3 ? 0.0F : area_of(part.data(), count);
  return both / (area_of(a, 4) + area_of(b, 4) - both);
}

}  // namespace camd::plugins
