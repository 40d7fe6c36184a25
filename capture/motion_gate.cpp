#include "capture/motion_gate.hpp"

#include <algorithm>
#include <cstdlib>

namespace camd::capture {
namespace {

using Corners = std::vector<std::array<double, 2>>;

// Whether a ray to the right crosses the outline an odd number of times.
bool contains(const Corners& polygon, double x, double y) noexcept {
  bool inside = false;
  for (std::size_t i = 0, before = polygon.size() - 1; i < polygon.size(); before = i++) {
    const auto& [ax, ay] = polygon[i];
    const auto& [bx, by] = polygon[before];
    if ((ay > y) != (by > y) && x < (bx - ax) * (y - ay) / (by - ay) + ax) inside = !inside;
  }
  return inside;
}

// Whether the polygon has a part in the rectangle: a corner, or one of the points that are looked at.
bool reaches(const Corners& polygon, double left, double top, double right, double bottom) noexcept {
  const auto is_here = [&](const auto& corner) {
    const auto within = [](double at, double from, double to) { return at >= from && (at < to || to >= 1); };
    return within(corner[0], left, right) && within(corner[1], top, bottom);
  };
  if (std::any_of(polygon.begin(), polygon.end(), is_here)) return true;
  constexpr int kPoints = 8;  // each way
  for (int i = 0; i < kPoints * kPoints; ++i) {
    const double x = (i % kPoints + 0.5) / kPoints;
    const double y = (i / kPoints + 0.5) / kPoints;
    if (contains(polygon, left + x * (right - left), top + y * (bottom - top))) return true;
  }
  return false;
}

}  // namespace

bool MotionGate::passes(const Frame& frame) noexcept {
  const bool reopened = reopen_.exchange(false);
  const bool is_change = changed(frame);
  const base::TimePoint now = frame.captured;
  // A clock that goes back has stepped, which is a change: else the last one would lie ahead, and hold the gate open.
  if (is_change || now < passed_) last_change_ = now;
  const bool passes = reopened || now - passed_ >= settings_.longest || now - last_change_ < kHold;
  if (!passes) return false;
  newest_ = 1 - newest_;
  has_passed_ = true;
  passed_ = now;
  width_ = frame.layout.width;
  height_ = frame.layout.height;
  passed_sequence_.store(frame.sequence);
  return true;
}

// Leaves the frame's grid in grids_[newest_].
bool MotionGate::changed(const Frame& frame) noexcept {
  const bool same_size = has_passed_ && frame.layout.width == width_ && frame.layout.height == height_;
  const bool readable = !frame.on_device && frame.pixels.size() >= frame.layout.size_bytes &&
                        reduce_luma(frame.layout, frame.pixels.data(), grids_[newest_]);
  const bool was_comparable = comparable_;
  comparable_ = readable;
  if (!readable) return true;
  if (same_size && was_comparable) return blocks_differ();
  watch_region();
  return true;
}

bool MotionGate::blocks_differ() const noexcept {
  const LumaGrid& now = grids_[newest_];
  const LumaGrid& before = grids_[1 - newest_];
  for (int top = 0; top < now.rows; top += kBlock) {
    const int height = std::min(kBlock, now.rows - top);
    std::array<int, LumaGrid::kMostCells> sums{};  // of the differences, over the block's rows
    for (int y = top; y < top + height; ++y) {
      const std::uint8_t* const a = now.row(y);
      const std::uint8_t* const b = before.row(y);
      for (int x = 0; x < now.columns; ++x) sums[static_cast<std::size_t>(x)] += std::abs(a[x] - b[x]);
    }
    const bool* const watched = watched_.data() + std::ptrdiff_t{top / kBlock} * kMostBlocks;
    for (int left = 0; left < now.columns; left += kBlock) {
      if (!watched[left / kBlock]) continue;
      const int width = std::min(kBlock, now.columns - left);
      int sum = 0;
      for (int x = left; x < left + width; ++x) sum += sums[static_cast<std::size_t>(x)];
      if (sum >= settings_.threshold * width * height) return true;
    }
  }
  return false;
}

// Which blocks count, in pictures of the newest one's size.
void MotionGate::watch_region() noexcept {
  watched_.fill(settings_.region.empty());
  if (settings_.region.empty()) return;
  const LumaGrid& grid = grids_[newest_];
  for (int y = 0; y * kBlock < grid.rows; ++y) {
    for (int x = 0; x * kBlock < grid.columns; ++x) {
      const double right = std::min(grid.columns, (x + 1) * kBlock);
      const double bottom = std::min(grid.rows, (y + 1) * kBlock);
      watched_[static_cast<std::size_t>(y * kMostBlocks + x)] =
          reaches(settings_.region, 1.0 * x * kBlock / grid.columns, 1.0 * y * kBlock / grid.rows, right / grid.columns,
                  bottom / grid.rows);
    }
  }
}

}  // namespace camd::capture
