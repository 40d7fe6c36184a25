#include "capture/test_pattern.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

namespace camd::capture {
namespace CAMD_TEST_FILE {

using base::PixelFormat;

constexpr std::array<PixelFormat, 6> kFormats = {PixelFormat::kBgr,  PixelFormat::kRgb,  PixelFormat::kNv12,
                                                 PixelFormat::kI420, PixelFormat::kYuy2, PixelFormat::kGray8};
constexpr TestStamp kStamp{0x0123456789ABCDEFU, 0x7EDCBA9876543210};

class TestPatternTest : public ::testing::TestWithParam<std::tuple<PixelFormat, std::pair<int, int>>> {};

TEST_P(TestPatternTest, IsReadBackFromItsPixels) {
  const auto [format, size] = GetParam();
  const auto layout = base::tight_layout(format, size.first, size.second);
  std::vector<std::byte> pixels(layout.size_bytes);
  TestPattern(layout).draw(pixels, kStamp.sequence);
  ASSERT_TRUE(stamp_test_pattern(layout, pixels, kStamp));
  EXPECT_EQ(read_test_pattern(layout, pixels), kStamp);
}

TEST_P(TestPatternTest, FillsEverySampleAndNothingElse) {
  const auto [format, size] = GetParam();
  const auto layout = base::tight_layout(format, size.first, size.second);
  const TestPattern pattern(layout);
  for (const std::uint64_t sequence : {0U, 1U, 77U}) {
    std::vector<std::byte> zeros(layout.size_bytes + 64, std::byte{0x5A});
    std::vector<std::byte> ones(layout.size_bytes + 64, std::byte{0xA5});
    pattern.draw(zeros, sequence);
    pattern.draw(ones, sequence);
    EXPECT_EQ(std::memcmp(zeros.data(), ones.data(), layout.size_bytes), 0);
    EXPECT_EQ(zeros[layout.size_bytes], std::byte{0x5A});
    EXPECT_EQ(ones[layout.size_bytes], std::byte{0xA5});
  }
}

INSTANTIATE_TEST_SUITE_P(FormatsAndSizes, TestPatternTest,
                         ::testing::Combine(::testing::ValuesIn(kFormats),
                                            ::testing::Values(std::pair(1280, 720), std::pair(641, 359),
                                                              std::pair(64, 48), std::pair(13, 12))));

TEST(TestPattern, IsReadInPaddedRows) {
  auto layout = base::tight_layout(PixelFormat::kNv12, 320, 240);
  layout.planes[0].stride_bytes = 384;
  layout.planes[1].offset_bytes = 384U * 240 + 4096;
  layout.planes[1].stride_bytes = 384;
  layout.size_bytes = layout.planes[1].offset_bytes + 384U * 120;
  std::vector<std::byte> pixels(layout.size_bytes);
  TestPattern(layout).draw(pixels, 5);
  ASSERT_TRUE(stamp_test_pattern(layout, pixels, kStamp));
  EXPECT_EQ(read_test_pattern(layout, pixels), kStamp);
}

TEST(TestPattern, IsNotFoundInAPictureWithoutStamp) {
  const auto layout = base::tight_layout(PixelFormat::kBgr, 320, 240);
  std::vector<std::byte> pixels(layout.size_bytes);
  EXPECT_EQ(read_test_pattern(layout, pixels), std::nullopt);
  TestPattern(layout).draw(pixels, 5);
  EXPECT_EQ(read_test_pattern(layout, pixels), std::nullopt);
}

TEST(TestPattern, IsNotReadWhenDamaged) {
  const auto layout = base::tight_layout(PixelFormat::kGray8, 1280, 720);
  std::vector<std::byte> pixels(layout.size_bytes);
  ASSERT_TRUE(stamp_test_pattern(layout, pixels, kStamp));
  for (std::size_t y = 0; y < 16; ++y) {
    for (std::size_t x = 0; x < 16; ++x) pixels[y * 1280 + x] = std::byte{255};  // the first bit is 0 in kStamp
  }
  EXPECT_EQ(read_test_pattern(layout, pixels), std::nullopt);
}

TEST(TestPattern, SurvivesNoise) {
  const auto layout = base::tight_layout(PixelFormat::kI420, 640, 480);
  std::vector<std::byte> pixels(layout.size_bytes);
  ASSERT_TRUE(stamp_test_pattern(layout, pixels, kStamp));
  unsigned random = 1;
  for (std::byte& pixel : pixels) {
    random = random * 1664525U + 1013904223U;
    pixel = static_cast<std::byte>((std::to_integer<unsigned>(pixel) * 3 + (random >> 24U)) / 4);
  }
  EXPECT_EQ(read_test_pattern(layout, pixels), kStamp);
}

TEST(TestPattern, RefusesPicturesThatAreTooSmallAndWritesNothing) {
  const auto layout = base::tight_layout(PixelFormat::kGray8, 16, 8);
  std::vector<std::byte> pixels(layout.size_bytes, std::byte{7});
  EXPECT_FALSE(stamp_test_pattern(layout, pixels, kStamp));
  EXPECT_THAT(pixels, ::testing::Each(std::byte{7}));
  EXPECT_EQ(read_test_pattern(layout, pixels), std::nullopt);
}

TEST(TestPattern, BarsMoveFourPixelsToTheLeft) {
  const auto layout = base::tight_layout(PixelFormat::kGray8, 64, 1);
  const TestPattern pattern(layout);
  std::vector<std::byte> first(64), second(64);
  pattern.draw(first, 10);
  pattern.draw(second, 11);
  EXPECT_TRUE(std::equal(first.begin() + 4, first.end(), second.begin()));
  EXPECT_NE(first, second);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::capture
