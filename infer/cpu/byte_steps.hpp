// The steps of the CPU engine's programs that work on bytes (infer/cpu/bytes.hpp). Built by infer/cpu/build_bytes.cpp.
//
// Threads: as Step. Private to infer/cpu/.
#pragma once

#include <vector>

#include "infer/cpu/bytes.hpp"
#include "infer/cpu/steps.hpp"

namespace camd::infer::cpu {

// A picture of bytes whose memory is known only when running.
struct BytePlace {
  Place place;             // of the whole storage, halo included
  Bytes form;              // data unset
  std::size_t origin = 0;  // bytes from the storage's beginning to pixel (0, 0)
  Pads halo;
  ByteScale scale;

  [[nodiscard]] Bytes in(const Memory& memory) const noexcept {
    Bytes b = form;
    b.data = reinterpret_cast<std::uint8_t*>(memory.at(place)) + origin;
    return b;
  }
};

// Writes zeros (of the value) to the halo beside rows [y0, y1) of a block, and to that above the first and below the
// last row.
void clear_halo(const Bytes& picture, const BytePlace& place, int block, int y0, int y1) noexcept;

class ByteConvStep final : public Step {
 public:
  const ByteKernels* kernels = nullptr;
  ByteConvArguments arguments;  // without memory
  BytePlace in, out;
  bool depthwise = false;
  int bands = 1;
  void run(int item, const Memory& memory) const noexcept override;
};

class ByteMaxPoolStep final : public Step {
 public:
  const ByteKernels* kernels = nullptr;
  Pool pool;
  BytePlace in, out;
  void run(int item, const Memory& memory) const noexcept override;
};

// To the nearest pixel.
class ByteResizeStep final : public Step {
 public:
  std::vector<int> rows, columns;  // of the input, for each of the output
  BytePlace in, out;
  void run(int item, const Memory& memory) const noexcept override;
};

// Concat, Slice and Gather over channels, as ChannelsStep; each source through a table of its own, or none. One source
// with a table is a function of bytes.
class ByteChannelsStep final : public Step {
 public:
  const ByteKernels* kernels = nullptr;
  std::vector<BytePlace> sources;
  std::vector<const std::uint8_t*> tables;  // per source; null: none
  std::vector<ChannelsStep::From> from;
  BytePlace out;
  void run(int item, const Memory& memory) const noexcept override;
};

class ByteBinaryStep final : public Step {
 public:
  const ByteKernels* kernels = nullptr;
  ByteBinary operation;
  BytePlace a, b, out;
  void run(int item, const Memory& memory) const noexcept override;
};

// From plain numbers [C][H][W]; an item is a band of a block's rows.
class FromPlanesStep final : public Step {
 public:
  const ByteKernels* kernels = nullptr;
  Place in;
  BytePlace out;
  int bands = 1;
  void run(int item, const Memory& memory) const noexcept override;
};
// Between blocked numbers and bytes; an item is a block.
class FromFloatsStep final : public Step {
 public:
  const ByteKernels* kernels = nullptr;
  BlockedPlace in;
  BytePlace out;
  void run(int item, const Memory& memory) const noexcept override;
};
class ToFloatsStep final : public Step {
 public:
  const ByteKernels* kernels = nullptr;
  BytePlace in;
  BlockedPlace out;
  void run(int item, const Memory& memory) const noexcept override;
};

}  // namespace camd::infer::cpu
