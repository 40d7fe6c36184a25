// The names of pictures on their way through a decoder: in the order in which it shows them, whatever the jitter buffer
// says.
#include "capture/picture_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace camd::capture {
namespace CAMD_TEST_FILE {

using ::testing::ElementsAre;

constexpr int kRate = 90'000;
constexpr std::uint64_t ms(int count) { return static_cast<std::uint64_t>(count) * 1'000'000U; }
constexpr std::uint32_t ticks(int count) { return static_cast<std::uint32_t>(count) * 90U; }  // of milliseconds

TEST(PictureNames, ArePtsWhereTheseRiseAsTheStampsDo) {
  PictureNames names;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(names.next(ticks(40 * i), kRate, ms(40 * i + i % 3)), ms(40 * i + i % 3));
  EXPECT_EQ(names.current(), ms(40 * 99));
}

TEST(PictureNames, RiseWhereTheJitterBufferGoesBack) {
  PictureNames names;
  EXPECT_EQ(names.next(ticks(0), kRate, ms(12'954)), ms(12'954));
  EXPECT_EQ(names.next(ticks(40), kRate, ms(11'998)), ms(12'974));
  EXPECT_EQ(names.next(ticks(80), kRate, ms(12'038)), ms(12'994));
  // They come back to the PTS at half of the camera's pace.
  std::uint64_t name = 0;
  for (int i = 3; i < 60; ++i) {
    const std::uint64_t before = std::exchange(name, names.next(ticks(40 * i), kRate, ms(11'958 + 40 * i)));
    EXPECT_GT(name, before) << i;
  }
  EXPECT_EQ(name, ms(11'958 + 40 * 59));
}

TEST(PictureNames, KeepBPicturesBetweenTheirNeighboursWhereTheJitterBufferGoesBack) {
  PictureNames names;
  // In the order of the packets: I0 P3 B1 B2 P6 B4 B5, and the PTS go back by a second at P3.
  std::vector<std::uint64_t> in_order_of_display(7);
  const auto next = [&](int number, std::uint64_t pts) {
    in_order_of_display[static_cast<std::size_t>(number)] = names.next(ticks(40 * number), kRate, pts);
  };
  next(0, ms(2000));
  for (const int number : {3, 1, 2, 6, 4, 5}) next(number, ms(1000 + 40 * number));
  EXPECT_THAT(in_order_of_display, ElementsAre(ms(2000), ms(2020), ms(2040), ms(2060), ms(2080), ms(2100), ms(2120)));
}

TEST(PictureNames, RiseWhereStampsStandStill) {
  PictureNames names;
  EXPECT_EQ(names.next(ticks(40), kRate, ms(100)), ms(100));
  EXPECT_EQ(names.next(ticks(40), kRate, ms(100)), ms(100) + 1);
  EXPECT_EQ(names.next(ticks(40), kRate, ms(100)), ms(100) + 2);
}

TEST(PictureNames, RiseWhereStampsStartOver) {
  PictureNames names;
  (void)names.next(ticks(50'000), kRate, ms(500));
  EXPECT_EQ(names.next(ticks(0), kRate, ms(400)), ms(500) + 1);
  EXPECT_EQ(names.next(ticks(40), kRate, ms(440)), ms(520) + 1);
}

TEST(PictureNames, RiseAgainWhereStampsStayBehind) {
  PictureNames names;
  (void)names.next(ticks(1000), kRate, ms(5000));
  for (int i = 0; i < PictureNames::kMostReordered; ++i) {
    EXPECT_LT(names.next(ticks(200 + 40 * i), kRate, ms(5000)), ms(5000)) << i;
  }
  EXPECT_EQ(names.next(ticks(900), kRate, ms(5000)), ms(5000) + 1);
}

TEST(PictureNames, ArePtsWhereNoRateIsKnown) {
  PictureNames names;
  EXPECT_EQ(names.next(ticks(1000), 0, ms(100)), ms(100));
  EXPECT_EQ(names.next(ticks(500), 0, ms(60)), ms(60));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::capture
