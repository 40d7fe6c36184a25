// Candidates of one frame: cells whose score passed, bounded by the best kCapacity, and the choice among them (NMS).
//
// Threads: [post], one frame at a time.
// Invariants: no allocation after construction; the order of push() does not matter for what is kept (ties are broken
//   by class and place), so a frame's detections are the same on every run.
#pragma once

#include <cstdint>
#include <vector>

namespace camd::plugins {

struct Box {  // network pixels
  float x0 = 0.0F, y0 = 0.0F, x1 = 0.0F, y1 = 0.0F;
};

struct Point {  // network pixels
  float x = 0.0F, y = 0.0F;
};

struct Candidate {
  float score = 0.0F;
  std::int32_t class_id = 0;
  std::int32_t level = 0;
  std::int32_t anchor = 0;  // within the cell
  std::int32_t cell = 0;    // row * width + column
};

class Candidates {
 public:
  static constexpr std::size_t kCapacity = 4096;

  Candidates() { items_.reserve(2 * kCapacity); }
  void clear() noexcept {
    items_.clear();
    full_ = false;
  }
  void push(const Candidate& candidate) {
    if (full_ && candidate.score < floor_) return;
    items_.push_back(candidate);
    if (items_.size() == 2 * kCapacity) keep_best();
  }
  // At most kCapacity, best score first.
  [[nodiscard]] const std::vector<Candidate>& sorted();

 private:
  void keep_best();

  std::vector<Candidate> items_;
  bool full_ = false;
  float floor_ = 0.0F;  // once full_: nothing below can be among the best
};

// Intersection over union of two boxes with positive area.
[[nodiscard]] float overlap(const Box& a, const Box& b) noexcept;
// The same of two rectangles that are turned, each as its four corners in order around it.
[[nodiscard]] float overlap_of_corners(const Point* a, const Point* b) noexcept;

}  // namespace camd::plugins
