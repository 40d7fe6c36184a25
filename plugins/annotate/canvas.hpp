// An I420 picture to draw on: filled from a camera's picture in any of the six formats, drawn on plane by plane. There
// is no detour over BGR where the source is Y'CbCr already: that would cost more than the drawing.
//
// Threads: [post], one canvas at a time.
// Invariants: width and height are even; drawing clips, any finite coordinate is allowed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <opencv2/core.hpp>
#include <string_view>

#include "plugins/camd_plugin.h"

namespace camd::plugins {

struct Color {  // Y'CbCr, limited range
  std::uint8_t y = 16, u = 128, v = 128;
};

// BT.601 (ITU-R BT.601-7, section 2.5), 8 bits.
[[nodiscard]] Color color_of(std::uint8_t red, std::uint8_t green, std::uint8_t blue) noexcept;
// A colour per class, easy to tell apart.
[[nodiscard]] Color class_color(int class_id) noexcept;

struct Size {
  int width = 0, height = 0;
  friend bool operator==(Size a, Size b) noexcept { return a.width == b.width && a.height == b.height; }
};

// The canvas of a picture: scaled, rounded down to even sides, at least 16 pixels each.
[[nodiscard]] Size canvas_size(int width, int height, double scale) noexcept;
// Bytes of an I420 picture as GStreamer lays it out: rows of each plane are padded to four bytes.
[[nodiscard]] std::size_t i420_bytes(Size size) noexcept;

class Canvas {
 public:
  // `pixels`: i420_bytes(size) bytes, borrowed for the canvas' life.
  Canvas(std::uint8_t* pixels, Size size);

  // Converts and scales `picture` onto the canvas, without an odd last row or column. The caller keeps `scratch`
  // between frames, so that it is allocated only when the picture's size or format changes.
  struct Scratch {
    cv::Mat scaled, converted, half;
  };
  void fill(const camd_picture& picture, Scratch& scratch);

  // Coordinates in canvas pixels. A rectangle with `thickness` < 0 is filled.
  void rectangle(double x0, double y0, double x1, double y1, Color color, int thickness);
  void line(double x0, double y0, double x1, double y1, Color color, int thickness);
  void disc(double x, double y, int radius, Color color);
  // White or black on a box of `background`; (x, y) is the box' lower left, moved so that it stays inside.
  void label(double x, double y, std::string_view text, Color background);
  [[nodiscard]] int line_thickness() const noexcept;  // fit for the canvas' size

  [[nodiscard]] Size size() const noexcept { return size_; }

 private:
  Size size_;
  cv::Mat y_, u_, v_;  // headers onto the borrowed pixels
};

}  // namespace camd::plugins
