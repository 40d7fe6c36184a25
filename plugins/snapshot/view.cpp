#include "plugins/snapshot/view.hpp"

#include <turbojpeg.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <stdexcept>

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
  int bytes[3];  // of a sample, or of a pair of pixels where pairs[i]
  bool half[3];  // half as many rows and columns
};
Layout layout_of(camd_pixel_format format) noexcept {
  switch (format) {
    case CAMD_PIXEL_NV12: return {2, {1, 2, 0}, {false, true, false}};
    case CAMD_PIXEL_I420: return {3, {1, 1, 1}, {false, true, true}};
    case CAMD_PIXEL_YUY2: return {1, {2, 0, 0}, {false, false, false}};
    case CAMD_PIXEL_GRAY8: return {1, {1, 0, 0}, {false, false, false}};
    case CAMD_PIXEL_BGR:
    case CAMD_PIXEL_RGB: break;
  }
  return {1, {3, 0, 0}, {false, false, false}};
}

// Y'CbCr to R'G'B', in 1/65536.
struct Matrix {
  Matrix(bool bt709, bool full_range) noexcept {
    const double kr = bt709 ? 0.2126 : 0.299, kb = bt709 ? 0.0722 : 0.114, kg = 1 - kr - kb;
    const double luma = full_range ? 1.0 : 255.0 / 219, chroma = full_range ? 1.0 : 255.0 / 224;
    black = full_range ? 0 : 16;
    y = fixed(luma);
    rv = fixed(2 * (1 - kr) * chroma);
    bu = fixed(2 * (1 - kb) * chroma);
    gu = fixed(2 * kb * (1 - kb) / kg * chroma);
    gv = fixed(2 * kr * (1 - kr) / kg * chroma);
  }
  static int fixed(double value) noexcept { return static_cast<int>(std::lround(value * 65536)); }
  static std::uint8_t byte(int value) noexcept {
    return static_cast<std::uint8_t>(std::clamp((value + 32768) >> 16, 0, 255));
  }
  void pixel(int luma, int cb, int cr, std::uint8_t* rgb) const noexcept {
    const int base = (luma - black) * y;
    rgb[0] = byte(base + (cr - 128) * rv);
    rgb[1] = byte(base - (cb - 128) * gu - (cr - 128) * gv);
    rgb[2] = byte(base + (cb - 128) * bu);
  }
  int black = 0, y = 0, rv = 0, bu = 0, gu = 0, gv = 0;
};

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
  format_ = picture.format;
  bt709_ = picture.bt709 != 0;
  full_range_ = picture.full_range != 0;
  width_ = area.width;
  height_ = area.height;
  const bool pairs = format_ == CAMD_PIXEL_YUY2;
  std::size_t size = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(layout.planes); ++i) {
    const int columns = layout.half[i] ? (area.width + 1) / 2 : pairs ? (area.width + 1) / 2 * 2 : area.width;
    const int rows = layout.half[i] ? (area.height + 1) / 2 : area.height;
    planes_[i] = {size, static_cast<std::size_t>(columns) * static_cast<std::size_t>(layout.bytes[i])};
    size += planes_[i].stride * static_cast<std::size_t>(rows);
  }
  pixels_.resize(size);
  for (std::size_t i = 0; i < static_cast<std::size_t>(layout.planes); ++i) {
    const camd_plane& plane = picture.planes[i];
    const int rows = layout.half[i] ? (area.height + 1) / 2 : area.height;
    const int x = layout.half[i] ? area.x / 2 : area.x, y = layout.half[i] ? area.y / 2 : area.y;
    for (int row = 0; row < rows; ++row) {
      const std::uint8_t* const from =
          plane.data + static_cast<std::ptrdiff_t>(y + row) * plane.stride_bytes + std::ptrdiff_t{x} * layout.bytes[i];
      std::memcpy(pixels_.data() + planes_[i].offset + planes_[i].stride * static_cast<std::size_t>(row), from,
                  planes_[i].stride);
    }
  }
}

void View::to_rgb(std::vector<std::uint8_t>& rgb) const {
  const Matrix matrix(bt709_, full_range_);
  rgb.resize(static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_) * 3);
  std::uint8_t* to = rgb.data();
  for (int y = 0; y < height_; ++y) {
    const std::uint8_t* const luma = row(0, y);
    for (int x = 0; x < width_; ++x, to += 3) {
      switch (format_) {
        case CAMD_PIXEL_NV12: {
          const std::uint8_t* const chroma = row(1, y / 2) + std::ptrdiff_t{x / 2} * 2;
          matrix.pixel(luma[x], chroma[0], chroma[1], to);
          break;
        }
        case CAMD_PIXEL_I420: matrix.pixel(luma[x], row(1, y / 2)[x / 2], row(2, y / 2)[x / 2], to); break;
        case CAMD_PIXEL_YUY2: {
          const std::uint8_t* const pair = luma + std::ptrdiff_t{x / 2} * 4;
          matrix.pixel(luma[std::ptrdiff_t{x} * 2], pair[1], pair[3], to);
          break;
        }
        case CAMD_PIXEL_GRAY8: to[0] = to[1] = to[2] = luma[x]; break;
        case CAMD_PIXEL_BGR:
          for (int c = 0; c < 3; ++c) to[c] = luma[std::ptrdiff_t{x} * 3 + 2 - c];
          break;
        case CAMD_PIXEL_RGB: std::memcpy(to, luma + std::ptrdiff_t{x} * 3, 3); break;
      }
    }
  }
}

std::string encode_jpeg(const View& view, int quality, std::vector<std::uint8_t>& scratch) {
  view.to_rgb(scratch);
  const std::unique_ptr<void, int (*)(tjhandle)> encoder(tjInitCompress(), &tjDestroy);
  if (!encoder) throw std::runtime_error(std::string("no JPEG encoder: ") + tjGetErrorStr2(nullptr));
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): the library's type
  const int code = tjCompress2(encoder.get(), scratch.data(), view.width(), 0, view.height(), TJPF_RGB, &bytes, &size,
                               TJSAMP_420, quality, 0);
  const std::unique_ptr<unsigned char, void (*)(unsigned char*)> owner(bytes, &tjFree);
  if (code != 0) throw std::runtime_error(std::string("no JPEG: ") + tjGetErrorStr2(encoder.get()));
  return {reinterpret_cast<const char*>(bytes), size};
}

}  // namespace camd::plugins
