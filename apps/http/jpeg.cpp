#include "apps/http/jpeg.hpp"

#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace camd::http {
namespace {

using base::PictureLayout;
using base::PixelFormat;

constexpr int kQuality = 80;

// Pixels of a picture as blue, green and red. Formulas: ITU-R BT.601 and BT.709, in 16-bit fixed point.
class PixelReader {
 public:
  PixelReader(const PictureLayout& layout, const std::byte* pixels)
      : layout_(layout), pixels_(reinterpret_cast<const std::uint8_t*>(pixels)) {
    const bool bt709 = layout.matrix == base::ColorMatrix::kBt709;
    const double kr = bt709 ? 0.2126 : 0.299;
    const double kb = bt709 ? 0.0722 : 0.114;
    const double kg = 1 - kr - kb;
    const double chroma = layout.full_range ? 1 : 255.0 / 224;
    black_ = layout.full_range ? 0 : 16;
    luma_ = fixed(layout.full_range ? 1 : 255.0 / 219);
    red_ = fixed(2 * (1 - kr) * chroma);
    blue_ = fixed(2 * (1 - kb) * chroma);
    green_red_ = fixed(2 * (1 - kr) * kr / kg * chroma);
    green_blue_ = fixed(2 * (1 - kb) * kb / kg * chroma);
  }

  // The mean of the pixels in columns x[0] and x[1] of rows y[0] and y[1]; of chroma, the one at x[1], y[1].
  void read(const std::array<int, 2>& x, const std::array<int, 2>& y, std::uint8_t* bgr) const {
    switch (layout_.format) {
      case PixelFormat::kBgr:
        for (int i = 0; i < 3; ++i) bgr[i] = mean(0, 3 * x[0] + i, 3 * x[1] + i, y);
        return;
      case PixelFormat::kRgb:
        for (int i = 0; i < 3; ++i) bgr[2 - i] = mean(0, 3 * x[0] + i, 3 * x[1] + i, y);
        return;
      case PixelFormat::kGray8: std::fill_n(bgr, 3, mean(0, x[0], x[1], y)); return;
      case PixelFormat::kNv12:
        convert(mean(0, x[0], x[1], y), at(1, x[1] / 2 * 2, y[1] / 2), at(1, x[1] / 2 * 2 + 1, y[1] / 2), bgr);
        return;
      case PixelFormat::kI420:
        convert(mean(0, x[0], x[1], y), at(1, x[1] / 2, y[1] / 2), at(2, x[1] / 2, y[1] / 2), bgr);
        return;
      case PixelFormat::kYuy2:
        convert(mean(0, 2 * x[0], 2 * x[1], y), at(0, x[1] / 2 * 4 + 1, y[1]), at(0, x[1] / 2 * 4 + 3, y[1]), bgr);
        return;
    }
  }

 private:
  static int fixed(double value) { return static_cast<int>(value * 65536 + 0.5); }
  static std::uint8_t rounded(int value) {
    return static_cast<std::uint8_t>(std::clamp((value + 32768) >> 16, 0, 255));
  }
  [[nodiscard]] std::uint8_t at(std::size_t plane, int byte, int row) const {
    const base::Plane& one = layout_.planes[plane];
    return pixels_[one.offset_bytes + static_cast<std::size_t>(row) * static_cast<std::size_t>(one.stride_bytes) +
                   static_cast<std::size_t>(byte)];
  }
  [[nodiscard]] std::uint8_t mean(std::size_t plane, int first, int second, const std::array<int, 2>& rows) const {
    const int sum =
        at(plane, first, rows[0]) + at(plane, second, rows[0]) + at(plane, first, rows[1]) + at(plane, second, rows[1]);
    return static_cast<std::uint8_t>((sum + 2) / 4);
  }
  void convert(int y, int u, int v, std::uint8_t* bgr) const {
    const int luma = (y - black_) * luma_;
    u -= 128;
    v -= 128;
    bgr[0] = rounded(luma + u * blue_);
    bgr[1] = rounded(luma - u * green_blue_ - v * green_red_);
    bgr[2] = rounded(luma + v * red_);
  }

  const PictureLayout& layout_;
  const std::uint8_t* pixels_;
  int black_ = 0, luma_ = 0, red_ = 0, blue_ = 0, green_red_ = 0, green_blue_ = 0;
};

// The two of `step` pixels from `begin` on that stand for all.
std::array<int, 2> two_of(int begin, int step) { return {begin + step / 4, begin + step - 1 - step / 4}; }

class Encoder {
 public:
  Encoder() = default;
  ~Encoder() {
    tjFree(bytes_);
    if (handle_ != nullptr) tjDestroy(handle_);
  }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  [[nodiscard]] std::string encode(const std::vector<std::uint8_t>& bgr, int width, int height) {
    unsigned long size = 0;  // NOLINT(google-runtime-int): as the library has it
    if (handle_ == nullptr || tjCompress2(handle_, bgr.data(), width, 0, height, TJPF_BGR, &bytes_, &size, TJSAMP_420,
                                          kQuality, TJFLAG_FASTDCT) != 0) {
      throw std::runtime_error("a picture cannot be made a JPEG");
    }
    return {reinterpret_cast<const char*>(bytes_), size};
  }

 private:
  tjhandle handle_ = tjInitCompress();
  unsigned char* bytes_ = nullptr;
};

}  // namespace

std::string jpeg_of(const PictureLayout& layout, const std::byte* pixels, int most_width) {
  const int step = most_width == 0 ? 1 : std::max(1, (layout.width + most_width - 1) / most_width);
  const int width = std::max(1, layout.width / step);
  const int height = std::max(1, layout.height / step);
  std::vector<std::uint8_t> bgr(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3);
  const PixelReader reader(layout, pixels);
  std::uint8_t* to = bgr.data();
  for (int y = 0; y < height; ++y) {
    const std::array<int, 2> rows = two_of(y * step, std::min(step, layout.height));
    for (int x = 0; x < width; ++x, to += 3) reader.read(two_of(x * step, step), rows, to);
  }
  return Encoder().encode(bgr, width, height);
}

}  // namespace camd::http
