// The pictures of the `test` source: moving colour bars, and a stamp in the top rows. The stamp holds the frame's
// sequence number and birth time, so that a test can tell of any delivered picture which one it is and how old it is.
//
// The stamp is 144 bits: sequence (64), birth time in monotonic ns (64), CRC-16/CCITT-FALSE of these 16 bytes (16), the
// highest bit first, in square blocks from the left and from the top: white (luma 235) is 1 and black (luma 16) is 0,
// with grey chroma, in every pixel format. The picture's size decides the edge of the blocks: the largest of 16, 8, 4,
// 2, 1 px with which the stamp takes at most a quarter of the rows (16 px for 1280x720: two rows of blocks), else 1.
// Blocks of 8 px and more survive lossy video compression.
//
// Threads: functions of their arguments, [any]. [no-alloc] except TestPattern's constructor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/picture.hpp"

namespace camd::capture {

struct TestStamp {
  std::uint64_t sequence = 0;
  std::int64_t birth_ns = 0;  // monotonic

  friend bool operator==(const TestStamp&, const TestStamp&) = default;
};

// Writes the stamp into a picture of layout.size_bytes bytes. False when the picture has less than 144 pixels
// or rows too short for it (then nothing is written).
bool stamp_test_pattern(const base::PictureLayout& layout, std::span<std::byte> pixels,
                        const TestStamp& stamp) noexcept;

// The stamp of a picture; empty when there is none or it was damaged.
[[nodiscard]] std::optional<TestStamp> read_test_pattern(const base::PictureLayout& layout,
                                                         std::span<const std::byte> pixels) noexcept;

// Draws the moving bars for pictures of one layout: eight vertical bars that move 4 px to the left a frame.
// A frame costs one memory copy of its size.
class TestPattern {
 public:
  // Throws Error(kInternal) for a layout without pixels.
  explicit TestPattern(const base::PictureLayout& layout);
  [[nodiscard]] const base::PictureLayout& layout() const noexcept { return layout_; }
  // `pixels` has layout().size_bytes bytes. Padding between rows is not written.
  void draw(std::span<std::byte> pixels, std::uint64_t sequence) const noexcept;

 private:
  base::PictureLayout layout_;
  // Of each plane a row of two periods: a picture's row at any phase of the movement is one piece of it.
  std::array<std::vector<std::byte>, 3> rows_;
};

}  // namespace camd::capture
