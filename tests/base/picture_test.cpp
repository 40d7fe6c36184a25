#include "base/picture.hpp"

#include <gtest/gtest.h>

#include <array>

#include "base/error.hpp"

namespace camd::base {
namespace CAMD_TEST_FILE {

void expect_plane(const PictureLayout& layout, std::size_t index, const Plane& expected) {
  SCOPED_TRACE(index);
  const Plane& plane = layout.planes.at(index);
  EXPECT_EQ(plane.offset_bytes, expected.offset_bytes);
  EXPECT_EQ(plane.stride_bytes, expected.stride_bytes);
  EXPECT_EQ(plane.width, expected.width);
  EXPECT_EQ(plane.height, expected.height);
}

TEST(PixelFormat, IsNamedAsGStreamerNamesIt) {
  EXPECT_EQ(to_string(PixelFormat::kBgr), "BGR");
  EXPECT_EQ(to_string(PixelFormat::kRgb), "RGB");
  EXPECT_EQ(to_string(PixelFormat::kNv12), "NV12");
  EXPECT_EQ(to_string(PixelFormat::kI420), "I420");
  EXPECT_EQ(to_string(PixelFormat::kYuy2), "YUY2");
  EXPECT_EQ(to_string(PixelFormat::kGray8), "GRAY8");
}

TEST(TightLayout, OfBgrAndRgbIsOnePlaneOfThreeBytesAPixel) {
  for (const PixelFormat format : {PixelFormat::kBgr, PixelFormat::kRgb}) {
    const PictureLayout layout = tight_layout(format, 1280, 720);
    EXPECT_EQ(layout.format, format);
    EXPECT_EQ(layout.width, 1280);
    EXPECT_EQ(layout.height, 720);
    ASSERT_EQ(layout.plane_count, 1);
    expect_plane(layout, 0, {0, 3840, 1280, 720});
    EXPECT_EQ(layout.size_bytes, 2'764'800U);
  }
}

TEST(TightLayout, OfNv12IsLumaThenPairsOfHalfSizeChroma) {
  const PictureLayout layout = tight_layout(PixelFormat::kNv12, 1280, 720);
  ASSERT_EQ(layout.plane_count, 2);
  expect_plane(layout, 0, {0, 1280, 1280, 720});
  expect_plane(layout, 1, {921'600, 1280, 640, 360});
  EXPECT_EQ(layout.size_bytes, 1'382'400U);
}

TEST(TightLayout, OfI420IsLumaThenTwoHalfSizeChromaPlanes) {
  const PictureLayout layout = tight_layout(PixelFormat::kI420, 640, 480);
  ASSERT_EQ(layout.plane_count, 3);
  expect_plane(layout, 0, {0, 640, 640, 480});
  expect_plane(layout, 1, {307'200, 320, 320, 240});
  expect_plane(layout, 2, {384'000, 320, 320, 240});
  EXPECT_EQ(layout.size_bytes, 460'800U);
}

TEST(TightLayout, OfYuy2IsFourBytesForTwoPixels) {
  const PictureLayout layout = tight_layout(PixelFormat::kYuy2, 640, 480);
  ASSERT_EQ(layout.plane_count, 1);
  expect_plane(layout, 0, {0, 1280, 320, 480});
  EXPECT_EQ(layout.size_bytes, 614'400U);
}

TEST(TightLayout, OfGray8IsOneByteAPixel) {
  const PictureLayout layout = tight_layout(PixelFormat::kGray8, 7, 5);
  ASSERT_EQ(layout.plane_count, 1);
  expect_plane(layout, 0, {0, 7, 7, 5});
  EXPECT_EQ(layout.size_bytes, 35U);
}

TEST(TightLayout, RoundsChromaOfOddSizesUp) {
  const PictureLayout nv12 = tight_layout(PixelFormat::kNv12, 5, 3);
  expect_plane(nv12, 1, {15, 6, 3, 2});
  EXPECT_EQ(nv12.size_bytes, 27U);

  const PictureLayout i420 = tight_layout(PixelFormat::kI420, 5, 3);
  expect_plane(i420, 1, {15, 3, 3, 2});
  expect_plane(i420, 2, {21, 3, 3, 2});
  EXPECT_EQ(i420.size_bytes, 27U);

  const PictureLayout yuy2 = tight_layout(PixelFormat::kYuy2, 5, 3);
  expect_plane(yuy2, 0, {0, 12, 3, 3});
  EXPECT_EQ(yuy2.size_bytes, 36U);
}

TEST(TightLayout, OfOnePixelExistsInEveryFormat) {
  EXPECT_EQ(tight_layout(PixelFormat::kBgr, 1, 1).size_bytes, 3U);
  EXPECT_EQ(tight_layout(PixelFormat::kRgb, 1, 1).size_bytes, 3U);
  EXPECT_EQ(tight_layout(PixelFormat::kNv12, 1, 1).size_bytes, 3U);
  EXPECT_EQ(tight_layout(PixelFormat::kI420, 1, 1).size_bytes, 3U);
  EXPECT_EQ(tight_layout(PixelFormat::kYuy2, 1, 1).size_bytes, 4U);
  EXPECT_EQ(tight_layout(PixelFormat::kGray8, 1, 1).size_bytes, 1U);
}

TEST(TightLayout, CountsBeyondTwoGigabytes) {
  EXPECT_EQ(tight_layout(PixelFormat::kBgr, 32'768, 32'768).size_bytes, 3'221'225'472U);
}

TEST(TightLayout, RefusesSizesThatAreNotPositive) {
  constexpr std::array<std::array<int, 2>, 4> kSizes{{{0, 10}, {10, 0}, {-1, 10}, {10, -1}}};
  for (const auto& [width, height] : kSizes) {
    try {
      (void)tight_layout(PixelFormat::kBgr, width, height);
      FAIL() << width << "x" << height << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInternal);
    }
  }
}

TEST(PictureLayout, EqualsOneOfTheSameShapeOnly) {
  const PictureLayout a = tight_layout(PixelFormat::kNv12, 64, 48);
  EXPECT_EQ(a, tight_layout(PixelFormat::kNv12, 64, 48));
  EXPECT_FALSE(a == tight_layout(PixelFormat::kI420, 64, 48));
  EXPECT_FALSE(a == tight_layout(PixelFormat::kNv12, 48, 64));

  PictureLayout b = a;
  b.matrix = ColorMatrix::kBt709;
  EXPECT_FALSE(a == b);
  b = a;
  b.full_range = true;
  EXPECT_FALSE(a == b);
  b = a;
  b.planes[1].stride_bytes = 128;
  EXPECT_FALSE(a == b);
}

TEST(PictureLayout, DoesNotCompareThePlanesItHasNot) {
  const PictureLayout a = tight_layout(PixelFormat::kGray8, 8, 8);
  PictureLayout b = a;
  b.planes[2].offset_bytes = 99;
  EXPECT_EQ(a, b);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::base
