#include "base/picture.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace camd::base {

std::string_view to_string(PixelFormat format) noexcept {
  switch (format) {
    case PixelFormat::kBgr: return "BGR";
    case PixelFormat::kRgb: return "RGB";
    case PixelFormat::kNv12: return "NV12";
    case PixelFormat::kI420: return "I420";
    case PixelFormat::kYuy2: return "YUY2";
    case PixelFormat::kGray8: return "GRAY8";
  }
  return "?";
}

bool operator==(const PictureLayout& a, const PictureLayout& b) noexcept {
  if (a.format != b.format || a.matrix != b.matrix || a.full_range != b.full_range || a.width != b.width ||
      a.height != b.height || a.plane_count != b.plane_count || a.size_bytes != b.size_bytes) {
    return false;
  }
  for (int i = 0; i < a.plane_count; ++i) {
    const Plane& p = a.planes[static_cast<std::size_t>(i)];
    const Plane& q = b.planes[static_cast<std::size_t>(i)];
    if (p.offset_bytes != q.offset_bytes || p.stride_bytes != q.stride_bytes || p.width != q.width ||
        p.height != q.height) {
      return false;
    }
  }
  return true;
}

PictureLayout tight_layout(PixelFormat format, int width, int height) {
  if (width <= 0 || height <= 0) {
    throw Error(ErrorKind::kInternal, fmt::format("tight_layout: {}x{} is not a picture", width, height));
  }
  PictureLayout layout;
  layout.format = format;
  layout.width = width;
  layout.height = height;
  const auto add = [&layout](int samples, int bytes_per_sample, int rows) {
    Plane& plane = layout.planes[static_cast<std::size_t>(layout.plane_count++)];
    plane.offset_bytes = layout.size_bytes;
    plane.stride_bytes = samples * bytes_per_sample;
    plane.width = samples;
    plane.height = rows;
    layout.size_bytes += static_cast<std::size_t>(plane.stride_bytes) * static_cast<std::size_t>(rows);
  };
  const int half_width = (width + 1) / 2;
  const int half_height = (height + 1) / 2;
  switch (format) {
    case PixelFormat::kBgr:
    case PixelFormat::kRgb: add(width, 3, height); break;
    case PixelFormat::kGray8: add(width, 1, height); break;
    case PixelFormat::kYuy2: add(half_width, 4, height); break;  // a macro-pixel Y0 U Y1 V per two pixels
    case PixelFormat::kNv12:
      add(width, 1, height);
      add(half_width, 2, half_height);
      break;
    case PixelFormat::kI420:
      add(width, 1, height);
      add(half_width, 1, half_height);
      add(half_width, 1, half_height);
      break;
  }
  return layout;
}

}  // namespace camd::base
