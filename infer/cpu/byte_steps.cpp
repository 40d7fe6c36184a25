#include "infer/cpu/byte_steps.hpp"

#include <cstring>

namespace camd::infer::cpu {
namespace {

std::uint8_t* block_row(const Bytes& b, int block, int y) noexcept {
  return b.data + at(block) * b.block + at(y) * b.row;
}
std::size_t row_bytes(const Bytes& b) noexcept { return at(b.width) * kLanes; }

}  // namespace

void clear_halo(const Bytes& p, const BytePlace& place, int block, int y0, int y1) noexcept {
  const int zero = place.scale.zero & 0xFF;
  const Pads& halo = place.halo;
  const auto left = at(halo.left) * kLanes;
  const auto right = at(halo.right) * kLanes;
  if (left + right > 0) {
    for (int y = y0; y < y1; ++y) {
      std::uint8_t* const row = block_row(p, block, y);
      std::memset(row - left, zero, left);
      std::memset(row + row_bytes(p), zero, right);
    }
  }
  if (y0 == 0 && halo.top > 0) {
    std::memset(p.data + at(block) * p.block - at(halo.top) * p.row - left, zero, at(halo.top) * p.row);
  }
  if (y1 == p.height && halo.bottom > 0) {
    std::memset(block_row(p, block, p.height) - left, zero, at(halo.bottom) * p.row);
  }
}

void ByteConvStep::run(int item, const Memory& memory) const noexcept {
  ByteConvArguments a = arguments;
  a.in = in.in(memory);
  a.out = out.in(memory);
  const int out_blocks = blocks(a.out.channels);
  const int groups = items / bands;
  const int first = item % groups * (depthwise ? 1 : kConvBlocks);
  const int count = depthwise ? 1 : std::min(kConvBlocks, out_blocks - first);
  const Band rows = band(a.out.height, bands, item / groups);
  if (depthwise)
    kernels->depthwise(a, first, rows.begin, rows.end);
  else
    kernels->conv(a, first, count, rows.begin, rows.end);
  for (int b = first; b < first + count; ++b) clear_halo(a.out, out, b, rows.begin, rows.end);
}

void ByteMaxPoolStep::run(int item, const Memory& memory) const noexcept {
  const Bytes to = out.in(memory);
  kernels->max_pool(in.in(memory), to, pool, item, 0, to.height);
  clear_halo(to, out, item, 0, to.height);
}

void ByteResizeStep::run(int item, const Memory& memory) const noexcept {
  const Bytes from = in.in(memory), to = out.in(memory);
  for (int y = 0; y < to.height; ++y) {
    std::uint8_t* const row = block_row(to, item, y);
    if (y > 0 && rows[at(y)] == rows[at(y - 1)]) {
      std::memcpy(row, row - to.row, row_bytes(to));
      continue;
    }
    const std::uint8_t* const source = block_row(from, item, rows[at(y)]);
    for (std::size_t x = 0; x < columns.size(); ++x) {
      std::memcpy(row + x * kLanes, source + at(columns[x]) * kLanes, kLanes);
    }
  }
  clear_halo(to, out, item, 0, to.height);
}

void ByteChannelsStep::run(int item, const Memory& memory) const noexcept {
  const Bytes to = out.in(memory);
  const int first = item * kLanes;
  const int lanes = std::min(kLanes, to.channels - first);
  // A whole block of one source.
  const ChannelsStep::From& begin = from[at(first)];
  bool whole = begin.channel % kLanes == 0;
  for (int i = 1; i < lanes; ++i) {
    const ChannelsStep::From& f = from[at(first + i)];
    whole = whole && f.source == begin.source && f.channel == begin.channel + i;
  }
  if (whole) {
    const Bytes source = sources[at(begin.source)].in(memory);
    for (int y = 0; y < to.height; ++y) {
      const std::uint8_t* const row = block_row(source, begin.channel / kLanes, y);
      const std::uint8_t* const table = tables[at(begin.source)];
      if (table != nullptr)
        kernels->look_up(row, block_row(to, item, y), row_bytes(to), table);
      else
        std::memcpy(block_row(to, item, y), row, row_bytes(to));
    }
  } else {
    for (int i = 0; i < lanes; ++i) {
      const ChannelsStep::From& f = from[at(first + i)];
      const Bytes source = sources[at(f.source)].in(memory);
      const std::uint8_t* const table = tables[at(f.source)];
      for (int y = 0; y < to.height; ++y) {
        const std::uint8_t* const row = block_row(source, f.channel / kLanes, y) + f.channel % kLanes;
        std::uint8_t* const written = block_row(to, item, y) + i;
        for (std::size_t x = 0; x < row_bytes(to); x += kLanes) {
          written[x] = table != nullptr ? table[row[x]] : row[x];
        }
      }
    }
  }
  clear_halo(to, out, item, 0, to.height);
}

void ByteBinaryStep::run(int item, const Memory& memory) const noexcept {
  const Bytes x = a.in(memory), y = b.in(memory), to = out.in(memory);
  for (int row = 0; row < to.height; ++row) {
    kernels->binary(block_row(x, item, row), block_row(y, item, row), block_row(to, item, row), row_bytes(to),
                    operation);
  }
  clear_halo(to, out, item, 0, to.height);
}

void FromPlanesStep::run(int item, const Memory& memory) const noexcept {
  const Bytes to = out.in(memory);
  const int block = item / bands;
  const std::size_t plane = at(to.height) * at(to.width);
  const int lanes = std::min(kLanes, to.channels - block * kLanes);
  const float* const from = memory.at(in) + at(block) * kLanes * plane;
  const Band rows = band(to.height, bands, item % bands);
  for (int y = rows.begin; y < rows.end; ++y) {
    kernels->from_planes(from + at(y) * at(to.width), plane, lanes, block_row(to, block, y), to.width, out.scale);
  }
  clear_halo(to, out, block, rows.begin, rows.end);
}

void FromFloatsStep::run(int item, const Memory& memory) const noexcept {
  const Blocked from = in.in(memory);
  const Bytes to = out.in(memory);
  for (int y = 0; y < to.height; ++y) {
    kernels->from_floats(from.data + at(item) * from.block + at(y) * from.row, block_row(to, item, y), row_bytes(to),
                         out.scale);
  }
  clear_halo(to, out, item, 0, to.height);
}

void ToFloatsStep::run(int item, const Memory& memory) const noexcept {
  const Bytes from = in.in(memory);
  const Blocked to = out.in(memory);
  for (int y = 0; y < to.height; ++y) {
    kernels->to_floats(block_row(from, item, y), to.data + at(item) * to.block + at(y) * to.row, row_bytes(from),
                       in.scale);
  }
  clear_halo(to, out.halo, item, 0, to.height);
}

}  // namespace camd::infer::cpu
