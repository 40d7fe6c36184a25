// JPEGs: right colours from every format, and smaller pictures.
#include "plugins/jpeg/jpeg.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plugins/test_picture.hpp"

namespace camd::plugins {
namespace CAMD_TEST_FILE {

using ::testing::AllOf;
using testing::decoded;
using ::testing::Each;
using ::testing::Ge;
using testing::JpegPixels;
using ::testing::Le;
using testing::TestPicture;

TestPicture bt709(TestPicture picture) {
  picture.picture.bt709 = 1;
  return picture;
}
TestPicture full_range(TestPicture picture) {
  picture.picture.full_range = 1;
  return picture;
}

TEST(Jpeg, ShowsEveryFormatInItsColours) {
  // Red by ITU-R BT.601-7 and BT.709-6, rounded.
  const TestPicture reds[] = {
      {CAMD_PIXEL_BGR, 64, 36, {0, 0, 255}},
      {CAMD_PIXEL_RGB, 64, 36, {255, 0, 0}},
      {CAMD_PIXEL_NV12, 64, 36, {81, 90, 240}},
      bt709({CAMD_PIXEL_NV12, 64, 36, {63, 102, 240}}),
      full_range({CAMD_PIXEL_I420, 64, 36, {76, 85, 255}}),
      {CAMD_PIXEL_I420, 64, 36, {81, 90, 240}},
      {CAMD_PIXEL_YUY2, 64, 36, {81, 90, 240}},
  };
  for (const TestPicture& red : reds) {
    for (const int most_width : {0, 32}) {
      const JpegPixels shown = decoded(jpeg_of(red.picture, 64, 36, most_width, 80));
      ASSERT_EQ(shown.width, most_width == 0 ? 64 : 32);
      ASSERT_EQ(shown.height, most_width == 0 ? 36 : 18);
      const unsigned char* const middle = shown.at(shown.width / 2, shown.height / 2);
      EXPECT_NEAR(middle[0], 254, 4) << red.picture.format;
      EXPECT_NEAR(middle[1], 0, 4) << red.picture.format;
      EXPECT_NEAR(middle[2], 0, 4) << red.picture.format;
    }
  }
}

TEST(Jpeg, ShowsGreyAsGreyAndOddSides) {
  const JpegPixels shown = decoded(jpeg_of(TestPicture(CAMD_PIXEL_GRAY8, 33, 17, {77, 0, 0}).picture, 33, 17, 0, 90));
  EXPECT_EQ(shown.width, 33);
  EXPECT_EQ(shown.height, 17);
  EXPECT_THAT(shown.rgb, Each(AllOf(Ge(76), Le(78))));
}

TEST(Jpeg, DividesSidesByAWholeNumberAndTakesMeans) {
  const TestPicture odd(CAMD_PIXEL_GRAY8, 1281, 721, {9, 0, 0});
  const JpegPixels third = decoded(jpeg_of(odd.picture, 1281, 721, 640, 80));
  EXPECT_EQ(third.width, 427);
  EXPECT_EQ(third.height, 240);
  // Columns of black and white: grey from afar.
  TestPicture columns(CAMD_PIXEL_GRAY8, 1280, 720, {0, 0, 0});
  for (std::size_t i = 0; i < columns.memory[0].size(); i += 2) columns.memory[0][i] = 255;
  const JpegPixels half = decoded(jpeg_of(columns.picture, 1280, 720, 640, 80));
  EXPECT_EQ(half.width, 640);
  EXPECT_EQ(half.height, 360);
  EXPECT_NEAR(half.at(320, 180)[1], 128, 2);
}

TEST(Jpeg, TakesPicturesThatAreLongerThanTheyAreHigh) {
  for (const camd_pixel_format format : {CAMD_PIXEL_BGR, CAMD_PIXEL_NV12, CAMD_PIXEL_I420, CAMD_PIXEL_YUY2}) {
    EXPECT_EQ(decoded(jpeg_of(TestPicture(format, 4097, 1, {128, 128, 128}).picture, 4097, 1, 640, 80)).height, 1);
    EXPECT_EQ(decoded(jpeg_of(TestPicture(format, 1, 99, {128, 128, 128}).picture, 1, 99, 640, 80)).height, 99);
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins
