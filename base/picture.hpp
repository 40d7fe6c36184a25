// What one picture in memory is: format, size in pixels, planes with offset and stride in bytes.
//
// Threads: plain values, [any]. Shared vocabulary of capture (fills pictures) and infer (reads them),
// which do not know each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace camd::base {

// Names follow GStreamer's video formats
// (gstreamer.freedesktop.org/documentation/additional/design/mediatype-video-raw.html).
enum class PixelFormat : std::uint8_t { kBgr, kRgb, kNv12, kI420, kYuy2, kGray8 };

// How Y'CbCr becomes R'G'B': ITU-R BT.601 or BT.709, limited (16..235) or full range.
// Ignored by kBgr, kRgb and kGray8.
enum class ColorMatrix : std::uint8_t { kBt601, kBt709 };

[[nodiscard]] std::string_view to_string(PixelFormat format) noexcept;

struct Plane {
  std::size_t offset_bytes = 0;  // of the first row, from the picture's first byte
  int stride_bytes = 0;          // from one row to the next, >= the row's bytes
  int width = 0;                 // samples a row (chroma planes: pairs counted once for NV12 = width/2)
  int height = 0;                // rows
};

struct PictureLayout {
  PixelFormat format = PixelFormat::kBgr;
  ColorMatrix matrix = ColorMatrix::kBt601;
  bool full_range = false;
  int width = 0;   // pixels
  int height = 0;  // pixels
  int plane_count = 0;
  std::array<Plane, 3> planes{};
  std::size_t size_bytes = 0;  // from the first byte to one past the last byte of the last plane

  friend bool operator==(const PictureLayout& a, const PictureLayout& b) noexcept;
};

// The tightly packed layout of a picture (no padding between rows or planes).
// Odd sizes are allowed: chroma is rounded up. Throws Error(kInternal) when width or height is not positive.
[[nodiscard]] PictureLayout tight_layout(PixelFormat format, int width, int height);

}  // namespace camd::base
