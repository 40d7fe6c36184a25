#include "capture/luma_grid.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace camd::capture {
namespace {

constexpr int kGroup = 8;     // pixels side by side that are added up at once; every side is a multiple of it
constexpr int kRowsRead = 4;  // of each cell
constexpr unsigned kShift = 40;
static_assert(std::endian::native == std::endian::little, "load() puts the low byte first");

// GCC's vector extension (also clang's): one text for SSE2 and NEON, as in infer/cpu/kernels.inc.
using Bytes = std::uint8_t __attribute__((vector_size(16)));
using Longs = std::uint64_t __attribute__((vector_size(16)));
using Words = std::uint16_t __attribute__((vector_size(16)));

// The rows of a row of cells that are read.
using Rows = std::array<const std::uint8_t*, kRowsRead>;

inline Words load(const std::uint8_t* bytes) noexcept {
  std::uint64_t eight = 0;
  std::memcpy(&eight, bytes, sizeof(eight));
  const Bytes loaded = reinterpret_cast<Bytes>(Longs{eight, 0});
  return reinterpret_cast<Words>(
      __builtin_shufflevector(loaded, Bytes{}, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23));
}

// Of all eight, two by two.
inline unsigned sum_of(Words words) noexcept {
  constexpr std::uint64_t kEveryOther = 0x0000FFFF0000FFFFU;
  std::uint64_t halves[2];
  std::memcpy(halves, &words, sizeof(halves));
  const std::uint64_t pairs = (halves[0] & kEveryOther) + (halves[0] >> 16U & kEveryOther) + (halves[1] & kEveryOther) +
                              (halves[1] >> 16U & kEveryOther);
  return static_cast<unsigned>(pairs) + static_cast<unsigned>(pairs >> 32U);
}

// What the bytes of a pixel count in its luma. Eight pixels are `kPixelBytes` vectors. Of those, each lane meets every
// byte of a pixel at most once, so that 4 rows times 255 times the sum of the weights fits into its 16 bits.
template <int kPixelBytes>
struct Weights {
  std::array<Words, kPixelBytes> of{};
  unsigned sum = 0;

  explicit Weights(const std::array<std::uint16_t, kPixelBytes>& bytes) noexcept {
    for (std::size_t i = 0; i < std::size_t{kGroup} * kPixelBytes; ++i)
      of[i / kGroup][i % kGroup] = bytes[i % kPixelBytes];
    for (const std::uint16_t byte : bytes) sum += byte;
  }
};

// `count` cells side by side, the first one at pixel `x`.
template <int kPixelBytes>
void reduce_cells(const Rows& rows, int x, int count, int side, const Weights<kPixelBytes>& weights,
                  std::uint8_t* cells) noexcept {
  // A division by a constant, rounded, as a product: exact for sums of up to 255 times `whole` in pictures of 16384
  // pixels a side, where whole * 255 * whole is below 2 to the 40th.
  const std::uint64_t whole = weights.sum * static_cast<unsigned>(kRowsRead * side);
  const std::uint64_t part = (std::uint64_t{1} << kShift) / whole + 1;
  std::size_t at = static_cast<std::size_t>(x) * kPixelBytes;
  for (int cell = 0; cell < count; ++cell) {
    unsigned sum = 0;
    for (int group = 0; group < side; group += kGroup) {
      Words words{};
      for (const Words& weight : weights.of) {
        words += (load(rows[0] + at) + load(rows[1] + at) + load(rows[2] + at) + load(rows[3] + at)) * weight;
        at += kGroup;
      }
      sum += sum_of(words);
    }
    cells[cell] = static_cast<std::uint8_t>((sum + whole / 2) * part >> kShift);
  }
}

template <int kPixelBytes>
void reduce_picture(const base::PictureLayout& layout, const std::byte* pixels, int side,
                    const Weights<kPixelBytes>& weights, LumaGrid& grid) noexcept {
  const base::Plane& plane = layout.planes[0];
  const auto* const first = reinterpret_cast<const std::uint8_t*>(pixels) + plane.offset_bytes;
  const int whole = layout.width / side;
  for (int y = 0; y < grid.rows; ++y) {
    const int top = std::min(y * side, layout.height - side);
    Rows rows{};
    for (int i = 0; i < kRowsRead; ++i) {
      const int at = top + i * side / kRowsRead;
      rows[static_cast<std::size_t>(i)] = first + static_cast<std::ptrdiff_t>(at) * plane.stride_bytes;
    }
    std::uint8_t* const cells = grid.cells.data() + static_cast<std::ptrdiff_t>(y) * grid.columns;
    reduce_cells(rows, 0, whole, side, weights, cells);
    if (whole < grid.columns) reduce_cells(rows, layout.width - side, 1, side, weights, cells + whole);
  }
}

}  // namespace

int cell_side(int width, int height) noexcept {
  const int least = (std::max(width, height) + LumaGrid::kMostCells - 1) / LumaGrid::kMostCells;
  return std::max(1, (least + kGroup - 1) / kGroup) * kGroup;
}

bool reduce_luma(const base::PictureLayout& layout, const std::byte* pixels, LumaGrid& grid) noexcept {
  const int side = cell_side(layout.width, layout.height);
  if (layout.width < side || layout.height < side) return false;
  grid.columns = (layout.width + side - 1) / side;
  grid.rows = (layout.height + side - 1) / side;
  switch (layout.format) {
    case base::PixelFormat::kBgr: reduce_picture<3>(layout, pixels, side, Weights<3>({4, 19, 9}), grid); break;
    case base::PixelFormat::kRgb: reduce_picture<3>(layout, pixels, side, Weights<3>({9, 19, 4}), grid); break;
    case base::PixelFormat::kYuy2: reduce_picture<2>(layout, pixels, side, Weights<2>({1, 0}), grid); break;
    case base::PixelFormat::kNv12:
    case base::PixelFormat::kI420:
    case base::PixelFormat::kGray8: reduce_picture<1>(layout, pixels, side, Weights<1>({1}), grid); break;
  }
  return true;
}

}  // namespace camd::capture
