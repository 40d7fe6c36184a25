// The canvas: one picture in six formats gives the same I420; drawing lands where it should and clips.
#include "plugins/annotate/canvas.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace camd::plugins {
namespace CAMD_TEST_FILE {

// A picture in one colour with its left half black, in any format; padded strides.
struct Picture {
  Picture(camd_pixel_format format, int width, int height) {
    const Color full = color_of(200, 120, 40);
    const auto pixels = [&](int plane, int channels, int plane_width, int plane_height, auto value) {
      const int stride = plane_width * channels + 5;
      bytes[plane].assign(static_cast<std::size_t>(stride * plane_height), 77);
      for (int y = 0; y < plane_height; ++y) {
        for (int x = 0; x < plane_width; ++x) {
          for (int c = 0; c < channels; ++c) {
            bytes[plane][static_cast<std::size_t>(y * stride + x * channels + c)] =
                static_cast<std::uint8_t>(value(2 * x >= plane_width, c, x));
          }
        }
      }
      picture.planes[plane] = {bytes[plane].data(), stride, plane_width, plane_height};
      picture.plane_count = plane + 1;
    };
    picture.format = format;
    const int half_width = (width + 1) / 2, half_height = (height + 1) / 2;
    const auto luma = [&](bool right, int, int) { return right ? full.y : 16; };
    const auto u = [&](bool right, int, int) { return right ? full.u : 128; };
    const auto v = [&](bool right, int, int) { return right ? full.v : 128; };
    switch (format) {
      case CAMD_PIXEL_BGR:
        pixels(0, 3, width, height, [](bool r, int c, int) { return r ? (c == 0 ? 40 : c == 1 ? 120 : 200) : 0; });
        break;
      case CAMD_PIXEL_RGB:
        pixels(0, 3, width, height, [](bool r, int c, int) { return r ? (c == 2 ? 40 : c == 1 ? 120 : 200) : 0; });
        break;
      case CAMD_PIXEL_I420:
        pixels(0, 1, width, height, luma);
        pixels(1, 1, half_width, half_height, u);
        pixels(2, 1, half_width, half_height, v);
        break;
      case CAMD_PIXEL_NV12:
        pixels(0, 1, width, height, luma);
        pixels(1, 2, half_width, half_height, [&](bool r, int c, int) { return c == 0 ? u(r, 0, 0) : v(r, 0, 0); });
        break;
      case CAMD_PIXEL_YUY2:
        pixels(0, 2, width, height,
               [&](bool r, int c, int x) { return c == 0 ? luma(r, 0, 0) : (x % 2 == 0 ? u(r, 0, 0) : v(r, 0, 0)); });
        break;
      case CAMD_PIXEL_GRAY8: pixels(0, 1, width, height, [](bool r, int, int) { return r ? 255 : 0; }); break;
    }
  }
  camd_picture picture{};
  std::vector<std::uint8_t> bytes[3];
};

struct I420 {
  explicit I420(Size s) : size(s), bytes(i420_bytes(s), 0), canvas(bytes.data(), s) {}
  [[nodiscard]] int y(int x, int row) const { return bytes[static_cast<std::size_t>(row * luma_stride() + x)]; }
  [[nodiscard]] int u(int x, int row) const { return chroma(0, x, row); }
  [[nodiscard]] int v(int x, int row) const { return chroma(1, x, row); }
  [[nodiscard]] int luma_stride() const { return (size.width + 3) / 4 * 4; }
  [[nodiscard]] int chroma(int plane, int x, int row) const {
    const int stride = (size.width / 2 + 3) / 4 * 4;
    return bytes[static_cast<std::size_t>(luma_stride() * size.height + plane * stride * size.height / 2 +
                                          row * stride + x)];
  }
  Size size;
  std::vector<std::uint8_t> bytes;
  Canvas canvas;
};

class EveryFormat : public ::testing::TestWithParam<camd_pixel_format> {
 protected:
  void expect_halves(const I420& out) {
    const bool grey = GetParam() == CAMD_PIXEL_GRAY8;
    const Color full = grey ? Color{235, 128, 128} : color_of(200, 120, 40);
    const int right = out.size.width - 3, row = out.size.height - 3;
    EXPECT_NEAR(out.y(2, row), 16, 1);
    EXPECT_NEAR(out.y(right, row), full.y, 1);
    EXPECT_NEAR(out.u(1, row / 2), 128, 1);
    EXPECT_NEAR(out.v(1, row / 2), 128, 1);
    EXPECT_NEAR(out.u(right / 2, row / 2), full.u, 2);
    EXPECT_NEAR(out.v(right / 2, row / 2), full.v, 2);
  }
  Canvas::Scratch scratch_;
};

TEST_P(EveryFormat, FillsTheCanvas) {
  const Picture picture(GetParam(), 64, 48);
  I420 out({64, 48});
  out.canvas.fill(picture.picture, scratch_);
  expect_halves(out);
}

TEST_P(EveryFormat, FillsAHalfSizedCanvas) {
  const Picture picture(GetParam(), 128, 96);
  I420 out(canvas_size(128, 96, 0.5));
  out.canvas.fill(picture.picture, scratch_);
  expect_halves(out);
}

// 67x49: odd sides, and rows that GStreamer pads.
TEST_P(EveryFormat, FillsACanvasOfAnOddPicture) {
  const Picture picture(GetParam(), 67, 49);
  I420 out(canvas_size(67, 49, 1.0));
  EXPECT_EQ(out.size, (Size{66, 48}));
  out.canvas.fill(picture.picture, scratch_);
  expect_halves(out);
}

INSTANTIATE_TEST_SUITE_P(Canvas, EveryFormat,
                         ::testing::Values(CAMD_PIXEL_BGR, CAMD_PIXEL_RGB, CAMD_PIXEL_NV12, CAMD_PIXEL_I420,
                                           CAMD_PIXEL_YUY2, CAMD_PIXEL_GRAY8));

TEST(Canvas, KnowsTheColoursOfTheStandard) {
  // ITU-R BT.601 colour bars at 100 %.
  const Color white = color_of(255, 255, 255), red = color_of(255, 0, 0), blue = color_of(0, 0, 255);
  EXPECT_EQ(white.y, 235);
  EXPECT_EQ(white.u, 128);
  EXPECT_EQ(red.y, 81);
  EXPECT_EQ(red.u, 90);
  EXPECT_EQ(red.v, 240);
  EXPECT_EQ(blue.y, 41);
  EXPECT_EQ(blue.u, 240);
  EXPECT_EQ(blue.v, 110);
}

TEST(Canvas, DrawsARectanglesRimAndNothingInside) {
  I420 out({64, 48});
  out.canvas.rectangle(10, 10, 40, 30, Color{200, 100, 50}, 2);
  EXPECT_EQ(out.y(10, 20), 200);
  EXPECT_EQ(out.u(5, 10), 100);
  EXPECT_EQ(out.v(5, 10), 50);
  EXPECT_EQ(out.y(25, 20), 0);
  EXPECT_EQ(out.u(12, 10), 0);
  EXPECT_EQ(out.y(50, 20), 0);
}

TEST(Canvas, ClipsWhatLiesOutside) {
  I420 out({64, 48});
  out.canvas.rectangle(-1e30, -1e30, 1e30, 1e30, Color{200, 100, 50}, 2);
  out.canvas.line(-1e30, 24, 1e30, 24, Color{210, 100, 50}, 1);
  out.canvas.disc(1e9, -1e9, 3, Color{220, 100, 50});
  EXPECT_EQ(out.y(32, 24), 210);
  EXPECT_EQ(out.y(32, 10), 0);
}

TEST(Canvas, KeepsALabelInsideThePicture) {
  I420 out({128, 64});
  out.canvas.label(1000, -50, "qr 0.98", Color{200, 100, 50});
  EXPECT_EQ(out.y(126, 1), 200);  // upper right corner: the label's background
  EXPECT_EQ(out.y(2, 60), 0);
  int dark = 0;
  for (int x = 0; x < 128; ++x) {
    for (int row = 0; row < 24; ++row) dark += out.y(x, row) == 16 ? 1 : 0;
  }
  EXPECT_GT(dark, 20);  // letters
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins
