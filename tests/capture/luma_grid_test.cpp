#include "capture/luma_grid.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace camd::capture {
namespace CAMD_TEST_FILE {

using base::PictureLayout;
using base::PixelFormat;

std::vector<std::byte> noise(std::size_t size) {
  std::mt19937 random(1);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// Luma of a pixel in 32nds.
int luma(const PictureLayout& layout, const std::vector<std::byte>& pixels, int x, int y) {
  const base::Plane& plane = layout.planes[0];
  const auto at = [&](int byte) {
    return static_cast<int>(pixels[plane.offset_bytes + static_cast<std::size_t>(y * plane.stride_bytes + byte)]);
  };
  switch (layout.format) {
    case PixelFormat::kBgr: return 4 * at(3 * x) + 19 * at(3 * x + 1) + 9 * at(3 * x + 2);
    case PixelFormat::kRgb: return 9 * at(3 * x) + 19 * at(3 * x + 1) + 4 * at(3 * x + 2);
    case PixelFormat::kYuy2: return 32 * at(2 * x);
    default: return 32 * at(x);
  }
}

struct Size {
  int width, height, side;
};

class LumaGridOf : public ::testing::TestWithParam<PixelFormat> {};

TEST_P(LumaGridOf, EachPictureHasTheRoundedMeanOfFourRowsOfEachCell) {
  for (const Size size :
       {Size{640, 360, 8}, {1280, 720, 16}, {1920, 1080, 24}, {650, 362, 16}, {8, 8, 8}, {70, 641, 16}}) {
    const PictureLayout layout = base::tight_layout(GetParam(), size.width, size.height);
    const std::vector<std::byte> pixels = noise(layout.size_bytes);
    LumaGrid grid;
    ASSERT_EQ(cell_side(size.width, size.height), size.side);
    ASSERT_TRUE(reduce_luma(layout, pixels.data(), grid));
    ASSERT_EQ(grid.columns, (size.width + size.side - 1) / size.side);
    ASSERT_EQ(grid.rows, (size.height + size.side - 1) / size.side);
    for (int row = 0; row < grid.rows; ++row) {
      for (int column = 0; column < grid.columns; ++column) {
        const int left = std::min(column * size.side, size.width - size.side);
        const int top = std::min(row * size.side, size.height - size.side);
        int sum = 0;
        for (int y = 0; y < 4; ++y) {
          for (int x = 0; x < size.side; ++x) sum += luma(layout, pixels, left + x, top + y * size.side / 4);
        }
        const int count = 32 * 4 * size.side;
        ASSERT_EQ(grid.row(row)[column], (sum + count / 2) / count) << size.width << ": " << column << ", " << row;
      }
    }
  }
}

TEST_P(LumaGridOf, WhiteOfTheLargestPictureIsWhite) {
  const PictureLayout layout = base::tight_layout(GetParam(), 16384, 16);
  ASSERT_EQ(cell_side(16384, 16), 208);
  const PictureLayout large = base::tight_layout(GetParam(), 16384, 208);
  const std::vector<std::byte> white(large.size_bytes, std::byte{255});
  LumaGrid grid;
  EXPECT_FALSE(reduce_luma(layout, white.data(), grid));  // lower than a cell
  ASSERT_TRUE(reduce_luma(large, white.data(), grid));
  EXPECT_EQ(grid.columns, 79);
  EXPECT_TRUE(std::all_of(grid.row(0), grid.row(1), [](std::uint8_t cell) { return cell == 255; }));
}

INSTANTIATE_TEST_SUITE_P(Formats, LumaGridOf,
                         ::testing::Values(PixelFormat::kBgr, PixelFormat::kRgb, PixelFormat::kNv12, PixelFormat::kI420,
                                           PixelFormat::kYuy2, PixelFormat::kGray8),
                         [](const auto& format) { return std::string(base::to_string(format.param)); });

TEST(LumaGrid, LeavesAloneWhatLiesBetweenTheRows) {
  PictureLayout layout = base::tight_layout(PixelFormat::kGray8, 16, 8);
  layout.planes[0].offset_bytes = 5;
  layout.planes[0].stride_bytes = 32;
  layout.size_bytes = std::size_t{5} + 7 * 32 + 16;
  std::vector<std::byte> pixels(layout.size_bytes, std::byte{255});
  for (std::size_t y = 0; y < 8; ++y)
    std::fill_n(pixels.begin() + static_cast<std::ptrdiff_t>(5 + 32 * y), 16, std::byte{7});
  LumaGrid grid;
  ASSERT_TRUE(reduce_luma(layout, pixels.data(), grid));
  EXPECT_EQ(grid.cells[0], 7);
  EXPECT_EQ(grid.cells[1], 7);
}

TEST(LumaGrid, APictureSmallerThanACellHasNone) {
  const PictureLayout layout = base::tight_layout(PixelFormat::kGray8, 7, 100);
  const std::vector<std::byte> pixels(layout.size_bytes);
  LumaGrid grid;
  EXPECT_FALSE(reduce_luma(layout, pixels.data(), grid));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::capture
