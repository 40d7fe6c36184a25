#include "plugins/snapshot/view.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace camd::plugins {
namespace {

constexpr int kLeastSide = 16;

// One axis of an area: [low, high) with `low` even, inside [0, size).
void span_around(float begin, float extent, float margin, int size, int& low, int& length) noexcept {
  const double all = size;
  double from = std::clamp(static_cast<double>(begin) - margin, 0.0, all);
  double to = std::clamp(static_cast<double>(begin) + extent + margin, 0.0, all);
  if (to - from < kLeastSide) {
    const double middle = (from + to) / 2;
    from = std::clamp(middle - kLeastSide / 2.0, 0.0, std::max(0.0, all - kLeastSide));
    to = std::min(all, from + kLeastSide);
  }
  low = static_cast<int>(from) & ~1;
  length = static_cast<int>(std::ceil(to)) - low;
  length = std::min(length + (length & 1), size - low);
}

struct Layout {
  int planes;
  int bytes[3];  // of a sample; YUY2: of a pair of pixels
  bool half_width[3], half_height[3];
};
Layout layout_of(camd_pixel_format format) noexcept {
  switch (format) {
    case CAMD_PIXEL_NV12: return {2, {1, 2, 0}, {false, true, false}, {false, true, false}};
    case CAMD_PIXEL_I420: return {3, {1, 1, 1}, {false, true, true}, {false, true, true}};
    case CAMD_PIXEL_YUY2: return {1, {4, 0, 0}, {true, false, false}, {false, false, false}};
    case CAMD_PIXEL_GRAY8: return {1, {1, 0, 0}, {false, false, false}, {false, false, false}};
    case CAMD_PIXEL_BGR:
    case CAMD_PIXEL_RGB: break;
  }
  return {1, {3, 0, 0}, {false, false, false}, {false, false, false}};
}

}  // namespace

ViewArea area_around(const float (&box)[4], float margin, int width, int height) noexcept {
  const float around = margin * std::max(box[2], box[3]);
  ViewArea area;
  span_around(box[0], box[2], around, width, area.x, area.width);
  span_around(box[1], box[3], around, height, area.y, area.height);
  return area;
}

void View::copy(const camd_picture& picture, const ViewArea& area) {
  const Layout layout = layout_of(picture.format);
  header_ = picture;
  width_ = area.width;
  height_ = area.height;
  std::size_t size = 0;
  for (int i = 0; i < layout.planes; ++i) {
    camd_plane& plane = header_.planes[i];
    plane.width = layout.half_width[i] ? (area.width + 1) / 2 : area.width;
    plane.height = layout.half_height[i] ? (area.height + 1) / 2 : area.height;
    plane.stride_bytes = plane.width * layout.bytes[i];
    offsets_[static_cast<std::size_t>(i)] = size;
    size += static_cast<std::size_t>(plane.stride_bytes) * static_cast<std::size_t>(plane.height);
  }
  pixels_.resize(size);
  for (int i = 0; i < layout.planes; ++i) {
    const camd_plane &from = picture.planes[i], &to = header_.planes[i];
    const int x = layout.half_width[i] ? area.x / 2 : area.x, y = layout.half_height[i] ? area.y / 2 : area.y;
    std::uint8_t* row = pixels_.data() + offsets_[static_cast<std::size_t>(i)];
    for (int line = 0; line < to.height; ++line, row += to.stride_bytes) {
      std::memcpy(row, from.data + std::ptrdiff_t{y + line} * from.stride_bytes + std::ptrdiff_t{x} * layout.bytes[i],
                  static_cast<std::size_t>(to.stride_bytes));
    }
  }
}

camd_picture View::picture() const noexcept {
  camd_picture picture = header_;
  for (int i = 0; i < picture.plane_count; ++i)
    picture.planes[i].data = pixels_.data() + offsets_[static_cast<std::size_t>(i)];
  return picture;
}

}  // namespace camd::plugins
