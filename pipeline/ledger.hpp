// Ledger: the accounting of every frame. For every camera, at every moment:
//   captured == delivered + sum of dropped by reason + in flight
//
// Threads: every function [any]; a short lock per camera, two or three times a frame, never across a copy.
// Invariants: all numbers of a camera change together, so that no snapshot can catch them half-way. In flight is
// counted by itself, not computed from the others: a frame that were lost or closed twice shows as a broken equation.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/mutex.hpp"
#include "capture/frame.hpp"

namespace camd::pipeline {

using capture::CameraIndex;
using capture::DropReason;
using capture::kDropReasonCount;

// The names of the metrics lines: superseded, too_old, source_error, device_error, plugin_error, shutdown.
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

  // A frame exists from here on: it is in flight.
  void captured(CameraIndex camera) noexcept;
  // The last postprocessor has returned: the frame is closed.
  void delivered(CameraIndex camera) noexcept;
  // The frame is closed for `reason`.
  void dropped(CameraIndex camera, DropReason reason) noexcept;

  [[nodiscard]] Totals totals(CameraIndex camera) const;
  // Sum over the cameras, each consistent in itself.
  [[nodiscard]] Totals totals() const;
  [[nodiscard]] std::size_t cameras() const noexcept { return accounts_.size(); }

 private:
  struct Account {
    mutable base::Mutex mutex;
    Totals totals CAMD_GUARDED_BY(mutex);
  };
  std::vector<std::unique_ptr<Account>> accounts_;
};

}  // namespace camd::pipeline
