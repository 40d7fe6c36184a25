// Keeping the best candidates, and the overlap of two boxes.
#include "plugins/detections/candidates.hpp"

#include <algorithm>
#include <tuple>

namespace camd::plugins {
namespace {

bool better(const Candidate& a, const Candidate& b) noexcept {
  if (a.score != b.score) return a.score > b.score;
  return std::tie(a.class_id, a.level, a.cell, a.anchor) < std::tie(b.class_id, b.level, b.cell, b.anchor);
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

}  // namespace camd::plugins
