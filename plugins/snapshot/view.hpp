// View: a part of a camera's picture, copied as it is, to be looked at later; and as a JPEG.
//
// Threads: one at a time. copy() [post]; encode() takes milliseconds and belongs to a thread of its own.
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
  // Writes rows of 3 bytes a pixel, R G B, 0..255. Y'CbCr by ITU-R BT.601-7 and BT.709-6, section 3.
  void to_rgb(std::vector<std::uint8_t>& rgb) const;

 private:
  struct Plane {
    std::size_t offset = 0, stride = 0;
  };
  [[nodiscard]] const std::uint8_t* row(std::size_t plane, int y) const noexcept {
    return pixels_.data() + planes_[plane].offset + planes_[plane].stride * static_cast<std::size_t>(y);
  }
  camd_pixel_format format_ = CAMD_PIXEL_BGR;
  bool bt709_ = false, full_range_ = false;
  int width_ = 0, height_ = 0;
  std::array<Plane, 3> planes_{};
  std::vector<std::uint8_t> pixels_;
};

// A baseline JPEG (libjpeg-turbo), 4:2:0, `quality` 1..100. `scratch` keeps its memory. Throws std::runtime_error.
[[nodiscard]] std::string encode_jpeg(const View& view, int quality, std::vector<std::uint8_t>& scratch);

}  // namespace camd::plugins
