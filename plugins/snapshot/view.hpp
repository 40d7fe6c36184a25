// View: a part of a camera's picture, copied as it is, to be looked at later.
//
// Threads: one at a time; copy() [post].
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plugins/camd_plugin.h"

namespace camd::plugins {

// In source pixels. `x` and `y` are even, because chroma has half the resolution.
struct ViewArea {
  int x = 0, y = 0, width = 0, height = 0;
  friend bool operator==(const ViewArea&, const ViewArea&) = default;
};
// The part of a picture of `width` x `height` that shows `box` (x, y, width, height) with `margin` of its longer side
// around it. At least 16 pixels wide and high where the picture is.
[[nodiscard]] ViewArea area_around(const float (&box)[4], float margin, int width, int height) noexcept;

class View {
 public:
  // Copies the area's rows, one after the other; the memory of an earlier copy is used again. The area lies in the
  // picture.
  void copy(const camd_picture& picture, const ViewArea& area);
  [[nodiscard]] bool empty() const noexcept { return width_ == 0; }
  [[nodiscard]] std::size_t bytes() const noexcept { return pixels_.size(); }
  [[nodiscard]] int width() const noexcept { return width_; }
  [[nodiscard]] int height() const noexcept { return height_; }
  // Points into this view.
  [[nodiscard]] camd_picture picture() const noexcept;

 private:
  camd_picture header_{};  // without its pointers
  std::array<std::size_t, 3> offsets_{};
  int width_ = 0, height_ = 0;
  std::vector<std::uint8_t> pixels_;
};

}  // namespace camd::plugins
