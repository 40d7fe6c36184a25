#include "plugins/jpeg/jpeg.hpp"

#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

namespace camd::plugins {
namespace {

// Pixels of a picture as red, green and blue. Formulas: ITU-R BT.601-7 and BT.709-6, section 3, in 16-bit fixed point.
class PixelReader {
 public:
  explicit PixelReader(const camd_picture& picture) : picture_(picture) {
    const double kr = picture.bt709 != 0 ? 0.2126 : 0.299;
    const double kb = picture.bt709 != 0 ? 0.0722 : 0.114;
    const double kg = 1 - kr - kb;
    const double chroma = picture.full_range != 0 ? 1 : 255.0 / 224;
    black_ = picture.full_range != 0 ? 0 : 16;
    luma_ = fixed(picture.full_range != 0 ? 1 : 255.0 / 219);
    red_ = fixed(2 * (1 - kr) * chroma);
    blue_ = fixed(2 * (1 - kb) * chroma);
    green_red_ = fixed(2 * (1 - kr) * kr / kg * chroma);
    green_blue_ = fixed(2 * (1 - kb) * kb / kg * chroma);
  }

  // The mean of the pixels in columns x[0] and x[1] of rows y[0] and y[1]; of chroma, the one at x[1], y[1].
  void read(const std::array<int, 2>& x, const std::array<int, 2>& y, std::uint8_t* rgb) const {
    switch (picture_.format) {
      case CAMD_PIXEL_RGB:
        for (int i = 0; i < 3; ++i) rgb[i] = mean(3 * x[0] + i, 3 * x[1] + i, y);
        return;
      case CAMD_PIXEL_BGR:
        for (int i = 0; i < 3; ++i) rgb[2 - i] = mean(3 * x[0] + i, 3 * x[1] + i, y);
        return;
      case CAMD_PIXEL_GRAY8: std::fill_n(rgb, 3, mean(x[0], x[1], y)); return;
      case CAMD_PIXEL_NV12:
        convert(mean(x[0], x[1], y), at(1, x[1] / 2 * 2, y[1] / 2), at(1, x[1] / 2 * 2 + 1, y[1] / 2), rgb);
        return;
      case CAMD_PIXEL_I420:
        convert(mean(x[0], x[1], y), at(1, x[1] / 2, y[1] / 2), at(2, x[1] / 2, y[1] / 2), rgb);
        return;
      case CAMD_PIXEL_YUY2:
        convert(mean(2 * x[0], 2 * x[1], y), at(0, x[1] / 2 * 4 + 1, y[1]), at(0, x[1] / 2 * 4 + 3, y[1]), rgb);
        return;
    }
  }

 private:
  static int fixed(double value) { return static_cast<int>(std::lround(value * 65536)); }
  static std::uint8_t rounded(int value) {
    return static_cast<std::uint8_t>(std::clamp((value + 32768) >> 16, 0, 255));
  }
  [[nodiscard]] std::uint8_t at(std::size_t plane, int byte, int row) const {
    const camd_plane& one = picture_.planes[plane];
    return one.data[std::ptrdiff_t{row} * one.stride_bytes + byte];
  }
  // Of two bytes in each of two rows of the first plane.
  [[nodiscard]] std::uint8_t mean(int first, int second, const std::array<int, 2>& rows) const {
    const int sum = at(0, first, rows[0]) + at(0, second, rows[0]) + at(0, first, rows[1]) + at(0, second, rows[1]);
    return static_cast<std::uint8_t>((sum + 2) / 4);
  }
  void convert(int y, int u, int v, std::uint8_t* rgb) const {
    const int luma = (y - black_) * luma_;
    u -= 128;
    v -= 128;
    rgb[0] = rounded(luma + v * red_);
    rgb[1] = rounded(luma - u * green_blue_ - v * green_red_);
    rgb[2] = rounded(luma + u * blue_);
  }

  const camd_picture& picture_;
  int black_ = 0, luma_ = 0, red_ = 0, blue_ = 0, green_red_ = 0, green_blue_ = 0;
};

// The two of `step` pixels from `begin` on that stand for all.
std::array<int, 2> two_of(int begin, int step) { return {begin + step / 4, begin + step - 1 - step / 4}; }

std::string encoded(const std::vector<std::uint8_t>& rgb, int width, int height, int quality) {
  const std::unique_ptr<void, int (*)(tjhandle)> encoder(tjInitCompress(), &tjDestroy);
  if (!encoder) throw std::runtime_error(std::string("no JPEG encoder: ") + tjGetErrorStr2(nullptr));
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): the library's type
  const int code =
      tjCompress2(encoder.get(), rgb.data(), width, 0, height, TJPF_RGB, &bytes, &size, TJSAMP_420, quality, 0);
  const std::unique_ptr<unsigned char, void (*)(unsigned char*)> owner(bytes, &tjFree);
  if (code != 0) throw std::runtime_error(std::string("no JPEG: ") + tjGetErrorStr2(encoder.get()));
  return {reinterpret_cast<const char*>(bytes), size};
}

}  // namespace

std::string jpeg_of(const camd_picture& picture, int width, int height, int most_width, int quality) {
  const int step = most_width == 0 ? 1 : std::max(1, (width + most_width - 1) / most_width);
  const int columns = std::max(1, width / step);
  const int lines = std::max(1, height / step);
  std::vector<std::uint8_t> rgb(static_cast<std::size_t>(columns) * static_cast<std::size_t>(lines) * 3);
  const PixelReader reader(picture);
  std::uint8_t* to = rgb.data();
  for (int y = 0; y < lines; ++y) {
    const std::array<int, 2> rows = two_of(y * step, std::min(step, height));
    for (int x = 0; x < columns; ++x, to += 3) reader.read(two_of(x * step, step), rows, to);
  }
  return encoded(rgb, columns, lines, quality);
}

}  // namespace camd::plugins
