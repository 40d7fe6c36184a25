// MotionGate: lets those frames through whose picture changed.
//
// A picture is compared with the last one that passed, so what changes slowly adds up and is seen. Both are reduced to
// a grid of mean luma (capture/luma_grid.hpp), and compared in blocks of 2 by 2 cells. It has changed when the mean
// difference of one block is at least the threshold. A change of the light over all of the picture is a change like any
// other one; noise of single pixels is gone in the means.
//
// These pass as well:
//   every frame for kHold after a change, so that whoever follows objects sees them stand still
//   a frame when the last one that passed is `longest` older
//   the frame after one that had passed and was not delivered
//   what cannot be compared: the first picture, one of another size, one smaller than a cell, one in a device's memory
//
// Threads: as FrameGate. Invariants: [no-alloc]; the same frames give the same answers, whatever the clock says.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/clock.hpp"
#include "capture/frame_gate.hpp"
#include "capture/luma_grid.hpp"
#include "config/config.hpp"

namespace camd::capture {

class MotionGate final : public FrameGate {
 public:
  // A tracker that believes in speed needs some frames to believe that something has stopped
  // (docs/adr/0037-a-gate-for-pictures-that-changed.md).
  static constexpr base::Duration kHold = std::chrono::milliseconds(500);
  static constexpr int kBlock = 2;  // cells a side

  explicit MotionGate(const config::MotionGate& settings) : settings_(settings) {}

  [[nodiscard]] bool passes(const Frame& frame) noexcept override;
  void lost(std::uint64_t sequence) noexcept override {
    if (sequence == passed_sequence_.load()) reopen_.store(true);
  }

 private:
  static constexpr int kMostBlocks = LumaGrid::kMostCells / kBlock;

  [[nodiscard]] bool changed(const Frame& frame) noexcept;
  [[nodiscard]] bool blocks_differ() const noexcept;
  void watch_region() noexcept;

  const config::MotionGate settings_;
  // [source]
  std::array<LumaGrid, 2> grids_;
  std::size_t newest_ = 0;  // the other one is that of the last picture that passed
  bool has_passed_ = false;
  bool comparable_ = false;  // the last picture that passed has a grid
  int width_ = 0;            // of the last picture that passed
  int height_ = 0;
  base::TimePoint passed_;                                              // captured
  base::TimePoint last_change_;                                         // captured
  std::array<bool, std::size_t{kMostBlocks} * kMostBlocks> watched_{};  // row by row, kMostBlocks each
  // [any]
  std::atomic<std::uint64_t> passed_sequence_{std::numeric_limits<std::uint64_t>::max()};
  std::atomic<bool> reopen_{false};
};

}  // namespace camd::capture
