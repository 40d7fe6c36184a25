// JPEGs: right colours from every format, and smaller pictures.
#include "apps/http/jpeg.hpp"

#include <gtest/gtest.h>
#include <turbojpeg.h>

#include <vector>

namespace camd::http {
namespace {

using base::PictureLayout;
using base::PixelFormat;

struct Decoded {
  int width = 0, height = 0;
  std::vector<unsigned char> bgr;
  [[nodiscard]] const unsigned char* at(int x, int y) const {
    return &bgr[(static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x)) * 3];
  }
};

Decoded decoded(const std::string& jpeg) {
  Decoded picture;
  const tjhandle handle = tjInitDecompress();
  const auto* const bytes = reinterpret_cast<const unsigned char*>(jpeg.data());
  int subsampling = 0, space = 0;
  EXPECT_EQ(tjDecompressHeader3(handle, bytes, jpeg.size(), &picture.width, &picture.height, &subsampling, &space), 0);
  picture.bgr.resize(static_cast<std::size_t>(picture.width) * static_cast<std::size_t>(picture.height) * 3);
  EXPECT_EQ(
      tjDecompress2(handle, bytes, jpeg.size(), picture.bgr.data(), picture.width, 0, picture.height, TJPF_BGR, 0), 0);
  tjDestroy(handle);
  return picture;
}

// A picture of one colour: the rows of each plane repeat `values` of that plane.
std::vector<std::byte> plain(const PictureLayout& layout, const std::vector<std::vector<int>>& values) {
  std::vector<std::byte> pixels(layout.size_bytes);
  for (int p = 0; p < layout.plane_count; ++p) {
    const base::Plane& plane = layout.planes[static_cast<std::size_t>(p)];
    const std::vector<int>& repeat = values[static_cast<std::size_t>(p)];
    const auto bytes = static_cast<std::size_t>(plane.stride_bytes) * static_cast<std::size_t>(plane.height);
    const std::size_t row = static_cast<std::size_t>(plane.stride_bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
      pixels[plane.offset_bytes + i] = static_cast<std::byte>(repeat[i % row % repeat.size()]);
    }
  }
  return pixels;
}

TEST(Jpeg, ShowsEveryFormatInItsColours) {
  struct Red {
    PixelFormat format;
    bool bt709, full_range;
    std::vector<std::vector<int>> values;
  };
  // Red by ITU-R BT.601 and BT.709, rounded.
  const std::vector<Red> reds = {
      {PixelFormat::kBgr, false, false, {{0, 0, 255}}},        {PixelFormat::kRgb, false, false, {{255, 0, 0}}},
      {PixelFormat::kNv12, false, false, {{81}, {90, 240}}},   {PixelFormat::kNv12, true, false, {{63}, {102, 240}}},
      {PixelFormat::kI420, false, true, {{76}, {85}, {255}}},  {PixelFormat::kI420, false, false, {{81}, {90}, {240}}},
      {PixelFormat::kYuy2, false, false, {{81, 90, 81, 240}}},
  };
  for (const Red& red : reds) {
    for (const int most_width : {0, 32}) {
      PictureLayout layout = base::tight_layout(red.format, 64, 36);
      layout.matrix = red.bt709 ? base::ColorMatrix::kBt709 : base::ColorMatrix::kBt601;
      layout.full_range = red.full_range;
      const std::vector<std::byte> pixels = plain(layout, red.values);
      const Decoded picture = decoded(jpeg_of(layout, pixels.data(), most_width));
      ASSERT_EQ(picture.width, most_width == 0 ? 64 : 32);
      ASSERT_EQ(picture.height, most_width == 0 ? 36 : 18);
      const unsigned char* const middle = picture.at(picture.width / 2, picture.height / 2);
      EXPECT_NEAR(middle[0], 0, 4) << base::to_string(red.format);
      EXPECT_NEAR(middle[1], 0, 4) << base::to_string(red.format);
      EXPECT_NEAR(middle[2], 254, 4) << base::to_string(red.format);
    }
  }
}

TEST(Jpeg, DividesSidesByAWholeNumberAndTakesMeans) {
  const PictureLayout layout = base::tight_layout(PixelFormat::kGray8, 1281, 721);
  // Columns of black and white: grey from afar.
  const std::vector<std::byte> pixels = plain(layout, {{0, 255}});
  const Decoded third = decoded(jpeg_of(layout, pixels.data(), 640));
  EXPECT_EQ(third.width, 427);
  EXPECT_EQ(third.height, 240);
  const PictureLayout even = base::tight_layout(PixelFormat::kGray8, 1280, 720);
  const std::vector<std::byte> columns = plain(even, {{0, 255}});
  const Decoded half = decoded(jpeg_of(even, columns.data(), 640));
  EXPECT_EQ(half.width, 640);
  EXPECT_EQ(half.height, 360);
  EXPECT_NEAR(half.at(320, 180)[1], 128, 2);
}

TEST(Jpeg, TakesPicturesThatAreLongerThanTheyAreHigh) {
  for (const PixelFormat format : {PixelFormat::kBgr, PixelFormat::kNv12, PixelFormat::kI420, PixelFormat::kYuy2}) {
    const PictureLayout layout = base::tight_layout(format, 4097, 1);
    const std::vector<std::byte> pixels(layout.size_bytes, std::byte{128});
    EXPECT_EQ(decoded(jpeg_of(layout, pixels.data(), 640)).height, 1);
    const PictureLayout tall = base::tight_layout(format, 1, 99);
    const std::vector<std::byte> column(tall.size_bytes, std::byte{128});
    EXPECT_EQ(decoded(jpeg_of(tall, column.data(), 640)).height, 99);
  }
}

}  // namespace
}  // namespace camd::http
