// Ledger: the accounting of every frame. For every camera, at every moment:
//   captured == delivered + sum of dropped by reason + in flight
//
// Threads: constructor, grow(), retire(), seal() [setup]; every other function [any]; a short lock for each camera, two
// or three times a frame, never across a copy. Invariants: all numbers of a camera change together, so that totals()
// never sees half a change. Frames in flight are counted, not computed from the other numbers: if a frame is lost or
// closed twice, the equation no longer holds.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/mutex.hpp"
#include "capture/frame.hpp"
#include "pipeline/core/slot_table.hpp"

namespace camd::pipeline {

using capture::CameraIndex;

// Why a frame was not delivered.
enum class DropReason : std::uint8_t {
  kSuperseded,   // a newer frame took its place, or no slot was free
  kTooOld,       // older than max_age before it cost device time
  kGated,        // the camera's gate saw nothing in it that the frames before had not shown
  kSourceError,  // the source could not fill the slot
  kDeviceError,
  kPluginError,
  kShutdown,
};
inline constexpr int kDropReasonCount = 7;

// The names of the metrics lines: superseded, too_old, gated, source_error, device_error, plugin_error, shutdown.
[[nodiscard]] std::string_view to_string(DropReason reason) noexcept;

struct Totals {
  std::uint64_t captured = 0;
  std::uint64_t delivered = 0;
  std::int64_t in_flight = 0;
  std::array<std::uint64_t, kDropReasonCount> dropped{};

  [[nodiscard]] std::uint64_t dropped_sum() const noexcept;
  // True when the equation above holds and nothing is negative.
  [[nodiscard]] bool balanced() const noexcept;
};

class Ledger {
 public:
  explicit Ledger(std::size_t cameras);
  // Until there is room for so many cameras.
  void grow(std::size_t cameras) { accounts_.grow(cameras); }
  // The camera is gone, with all its frames closed: its numbers become part of removed(), and its slot begins at 0.
  void retire(CameraIndex camera);

  // The books are closed while foreign code still holds frames: from now on totals() tell of every frame that is in
  // flight at this moment as dropped, one of each camera in `failed` as plugin_error and all others as shutdown.
  // Whatever becomes of them is not told any more. Once.
  void seal(const std::vector<CameraIndex>& failed);

  // A frame exists from here on: it is in flight.
  void captured(CameraIndex camera) noexcept;
  // The last postprocessor has returned: the frame is closed.
  void delivered(CameraIndex camera) noexcept;
  // The frame is closed for `reason`.
  void dropped(CameraIndex camera, DropReason reason) noexcept;

  [[nodiscard]] Totals totals(CameraIndex camera) const;
  // Those of cameras that are gone.
  [[nodiscard]] Totals removed() const;
  // Sum over the cameras, each consistent in itself, and removed().
  [[nodiscard]] Totals totals() const;
  [[nodiscard]] std::size_t cameras() const noexcept { return accounts_.size(); }

 private:
  struct Account {
    mutable base::Mutex mutex;
    Totals totals CAMD_GUARDED_BY(mutex);
  };
  SlotTable<Account> accounts_;
  std::vector<Totals> sealed_;  // by camera; constant once is_sealed_
  std::atomic<bool> is_sealed_{false};
  Account removed_;  // locked before a camera's
};

}  // namespace camd::pipeline
