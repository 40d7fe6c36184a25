// LumaGrid: a picture reduced to the mean luma of its cells, at most kMostCells across either way.
//
// Cells are squares, 8 pixels a side in pictures of up to 640 pixels, and a larger multiple of 8 in larger ones. Four
// rows of each are read, evenly spread: a picture of 16:9 costs 180 rows, whatever its size. The last cell of a row or
// column ends where the picture ends and overlaps the one before it.
//
// Luma is Y' of the picture where it has one, else (9 R + 19 G + 4 B) / 32, near to ITU-R BT.601's.
//
// Threads: plain values and functions of their arguments, [any]; [no-alloc].
// Invariant: the same pixels give the same cells, with every compiler and on every processor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/picture.hpp"

namespace camd::capture {

struct LumaGrid {
  static constexpr int kMostCells = 80;

  int columns = 0;
  int rows = 0;
  std::array<std::uint8_t, std::size_t{kMostCells} * kMostCells> cells{};  // row by row

  [[nodiscard]] const std::uint8_t* row(int y) const noexcept {
    return cells.data() + static_cast<std::ptrdiff_t>(y) * columns;
  }
};

// Pixels a side of the cells of such a picture.
[[nodiscard]] int cell_side(int width, int height) noexcept;
// `pixels`: layout.size_bytes bytes. False for pictures that are smaller than a cell: then `grid` is as it was.
[[nodiscard]] bool reduce_luma(const base::PictureLayout& layout, const std::byte* pixels, LumaGrid& grid) noexcept;

}  // namespace camd::capture
