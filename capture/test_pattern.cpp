#include "capture/test_pattern.hpp"

#include <cstring>

#include "base/error.hpp"

namespace camd::capture {
namespace {

using base::PictureLayout;
using base::PixelFormat;
using base::Plane;

constexpr int kPayloadBytes = 18;
constexpr int kBits = kPayloadBytes * 8;
constexpr std::byte kWhite{235};
constexpr std::byte kBlack{16};
constexpr std::byte kGreyChroma{128};

using Payload = std::array<std::uint8_t, kPayloadBytes>;

// CRC-16/CCITT-FALSE: polynomial 0x1021, start 0xFFFF (ITU-T V.41).
std::uint16_t crc16(const std::uint8_t* bytes, int count) noexcept {
  unsigned crc = 0xFFFF;
  for (int i = 0; i < count; ++i) {
    crc ^= static_cast<unsigned>(bytes[i]) << 8U;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 0x8000U) != 0 ? (crc << 1U) ^ 0x1021U : crc << 1U;
  }
  return static_cast<std::uint16_t>(crc & 0xFFFFU);
}

struct Grid {
  int edge = 0;  // px; 0: the picture is too small
  int columns = 0;
};

Grid grid_of(int width, int height) noexcept {
  for (const int edge : {16, 8, 4, 2, 1}) {
    const int columns = width / edge;
    if (columns == 0) continue;
    const int rows = (kBits + columns - 1) / columns;
    if (rows * edge <= height / 4 || (edge == 1 && rows <= height)) return {edge, columns};
  }
  return {};
}

// Offset and distance of the bytes that carry luma (or green, or grey) in the first plane.
struct LumaBytes {
  int first = 0;
  int step = 1;
};

LumaBytes luma_bytes(PixelFormat format) noexcept {
  switch (format) {
    case PixelFormat::kBgr:
    case PixelFormat::kRgb: return {1, 3};
    case PixelFormat::kYuy2: return {0, 2};
    case PixelFormat::kNv12:
    case PixelFormat::kI420:
    case PixelFormat::kGray8: break;
  }
  return {0, 1};
}

std::byte* row_of(std::span<std::byte> pixels, const Plane& plane, int y) noexcept {
  return pixels.data() + plane.offset_bytes +
         static_cast<std::size_t>(y) * static_cast<std::size_t>(plane.stride_bytes);
}

// `value` into the pixels [x, x + width) of the rows [y, y + height), grey.
void fill_grey(const PictureLayout& layout, std::span<std::byte> pixels, int x, int y, int width, int height,
               std::byte value) noexcept {
  const auto bytes = [](int count) { return static_cast<std::size_t>(count); };
  const Plane& luma = layout.planes[0];
  for (int row = y; row < y + height; ++row) {
    std::byte* const line = row_of(pixels, luma, row);
    switch (layout.format) {
      case PixelFormat::kBgr:
      case PixelFormat::kRgb: std::memset(line + bytes(x) * 3, static_cast<int>(value), bytes(width) * 3); break;
      case PixelFormat::kYuy2:
        for (int i = x; i < x + width; ++i) {
          line[bytes(i) * 2] = value;
          line[bytes(i) * 2 + 1] = kGreyChroma;
        }
        break;
      case PixelFormat::kNv12:
      case PixelFormat::kI420:
      case PixelFormat::kGray8: std::memset(line + x, static_cast<int>(value), bytes(width)); break;
    }
  }
  const int chroma_samples = layout.format == PixelFormat::kNv12 ? 2 : 1;
  for (int p = 1; p < layout.plane_count; ++p) {
    for (int row = y / 2; row < (y + height + 1) / 2; ++row) {
      std::byte* const line = row_of(pixels, layout.planes[bytes(p)], row);
      std::memset(line + x / 2 * chroma_samples, static_cast<int>(kGreyChroma),
                  bytes(((x + width + 1) / 2 - x / 2) * chroma_samples));
    }
  }
}

struct Color {
  std::uint8_t r, g, b, y, u, v;
};

// 75 % bars of ITU-R BT.1729 with BT.601 limited-range Y'CbCr.
constexpr std::array<Color, 8> kBars{{
    {191, 191, 191, 180, 128, 128},
    {191, 191, 0, 162, 44, 142},
    {0, 191, 191, 131, 156, 44},
    {0, 191, 0, 112, 72, 58},
    {191, 0, 191, 84, 184, 198},
    {191, 0, 0, 65, 100, 212},
    {0, 0, 191, 35, 212, 114},
    {0, 0, 0, 16, 128, 128},
}};

constexpr int kStepPixels = 4;  // even, so that chroma moves with luma

// The bars repeat after this many pixels: the width, made even.
int period_of(const PictureLayout& layout) noexcept { return (layout.width + 1) / 2 * 2; }

// Bytes that `pixels` (an even number where pairs share chroma) take in a row of the plane.
int row_bytes_of(PixelFormat format, int plane, int pixels) noexcept {
  switch (format) {
    case PixelFormat::kBgr:
    case PixelFormat::kRgb: return pixels * 3;
    case PixelFormat::kYuy2: return pixels * 2;
    case PixelFormat::kGray8: return pixels;
    case PixelFormat::kNv12: return pixels;
    case PixelFormat::kI420: return plane == 0 ? pixels : pixels / 2;
  }
  return 0;
}

void append(std::vector<std::byte>& row, std::initializer_list<std::uint8_t> values) {
  for (const std::uint8_t value : values) row.push_back(std::byte{value});
}

// Samples of the pixels x and x + 1.
void append_pair(std::vector<std::byte>& row, PixelFormat format, int plane, const Color& first, const Color& second) {
  switch (format) {
    case PixelFormat::kBgr: append(row, {first.b, first.g, first.r, second.b, second.g, second.r}); break;
    case PixelFormat::kRgb: append(row, {first.r, first.g, first.b, second.r, second.g, second.b}); break;
    case PixelFormat::kYuy2: append(row, {first.y, first.u, second.y, first.v}); break;
    case PixelFormat::kGray8: append(row, {first.y, second.y}); break;
    case PixelFormat::kNv12:
      if (plane == 0) {
        append(row, {first.y, second.y});
      } else {
        append(row, {first.u, first.v});
      }
      break;
    case PixelFormat::kI420:
      if (plane == 0) {
        append(row, {first.y, second.y});
      } else {
        append(row, {plane == 1 ? first.u : first.v});
      }
      break;
  }
}

}  // namespace

bool stamp_test_pattern(const PictureLayout& layout, std::span<std::byte> pixels, const TestStamp& stamp) noexcept {
  const Grid grid = grid_of(layout.width, layout.height);
  if (grid.edge == 0 || pixels.size() < layout.size_bytes) return false;
  Payload payload{};
  for (std::size_t i = 0; i < 8; ++i) {
    const auto shift = 56 - 8 * i;
    payload[i] = static_cast<std::uint8_t>(stamp.sequence >> shift);
    payload[8 + i] = static_cast<std::uint8_t>(static_cast<std::uint64_t>(stamp.birth_ns) >> shift);
  }
  const std::uint16_t crc = crc16(payload.data(), 16);
  payload[16] = static_cast<std::uint8_t>(crc >> 8U);
  payload[17] = static_cast<std::uint8_t>(crc & 0xFFU);
  for (int bit = 0; bit < kBits; ++bit) {
    const bool set = (payload[static_cast<std::size_t>(bit / 8)] >> (7 - bit % 8) & 1) != 0;
    fill_grey(layout, pixels, bit % grid.columns * grid.edge, bit / grid.columns * grid.edge, grid.edge, grid.edge,
              set ? kWhite : kBlack);
  }
  return true;
}

std::optional<TestStamp> read_test_pattern(const PictureLayout& layout, std::span<const std::byte> pixels) noexcept {
  const Grid grid = grid_of(layout.width, layout.height);
  if (grid.edge == 0 || pixels.size() < layout.size_bytes) return std::nullopt;
  const LumaBytes luma = luma_bytes(layout.format);
  const Plane& plane = layout.planes[0];
  const int margin = grid.edge / 4;  // compression smears the blocks' rims
  const int inner = grid.edge - 2 * margin;
  Payload payload{};
  for (int bit = 0; bit < kBits; ++bit) {
    const int x = bit % grid.columns * grid.edge + margin;
    const int y = bit / grid.columns * grid.edge + margin;
    int sum = 0;
    for (int row = y; row < y + inner; ++row) {
      const std::byte* const line = pixels.data() + plane.offset_bytes +
                                    static_cast<std::size_t>(row) * static_cast<std::size_t>(plane.stride_bytes);
      for (int column = x; column < x + inner; ++column) {
        sum += std::to_integer<int>(line[luma.first + column * luma.step]);
      }
    }
    if (sum > inner * inner * 125) {
      payload[static_cast<std::size_t>(bit / 8)] |= static_cast<std::uint8_t>(1U << (7 - bit % 8));
    }
  }
  if (crc16(payload.data(), 16) != (payload[16] << 8 | payload[17])) return std::nullopt;
  TestStamp stamp;
  std::uint64_t birth = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    stamp.sequence = stamp.sequence << 8U | payload[i];
    birth = birth << 8U | payload[8 + i];
  }
  stamp.birth_ns = static_cast<std::int64_t>(birth);
  return stamp;
}

TestPattern::TestPattern(const PictureLayout& layout) : layout_(layout) {
  if (layout.width <= 0 || layout.height <= 0) {
    throw base::Error(base::ErrorKind::kInternal, "test pattern: a picture without pixels");
  }
  const int period = period_of(layout);
  const auto color_at = [period](int x) -> const Color& {
    return kBars[static_cast<std::size_t>(static_cast<std::int64_t>(x % period) * 8 / period)];
  };
  for (int p = 0; p < layout.plane_count; ++p) {
    std::vector<std::byte>& row = rows_[static_cast<std::size_t>(p)];
    row.reserve(static_cast<std::size_t>(row_bytes_of(layout.format, p, 2 * period)));
    for (int x = 0; x < 2 * period; x += 2) append_pair(row, layout.format, p, color_at(x), color_at(x + 1));
  }
}

void TestPattern::draw(std::span<std::byte> pixels, std::uint64_t sequence) const noexcept {
  const int period = period_of(layout_);
  const int phase = static_cast<int>(sequence % static_cast<std::uint64_t>(period) * kStepPixels %
                                     static_cast<std::uint64_t>(period));
  for (int p = 0; p < layout_.plane_count; ++p) {
    const Plane& plane = layout_.planes[static_cast<std::size_t>(p)];
    const std::byte* const from = rows_[static_cast<std::size_t>(p)].data() + row_bytes_of(layout_.format, p, phase);
    // Where two pixels share chroma, an odd width is rounded up.
    const bool pairs = p > 0 || layout_.format == PixelFormat::kYuy2;
    const int samples_bytes = row_bytes_of(layout_.format, p, pairs ? period : layout_.width);
    for (int y = 0; y < plane.height; ++y) {
      std::memcpy(row_of(pixels, plane, y), from, static_cast<std::size_t>(samples_bytes));
    }
  }
}

}  // namespace camd::capture
