// CaptureStamps: keeps a camera's capture times sane, whatever drivers, clips and network clocks say: never after
// the arrival, never running backwards, across reconnections too.
//
// Threads: one at a time (the camera's streaming thread). [no-alloc]
#pragma once

#include <algorithm>

#include "base/clock.hpp"

namespace camd::capture {

class CaptureStamps {
 public:
  // The time to publish for a frame whose source says `said` and that arrived at `arrived`.
  [[nodiscard]] base::TimePoint next(base::TimePoint said, base::TimePoint arrived) noexcept {
    base::TimePoint stamp = std::min(said, arrived);
    early_ = early_ || said > arrived;
    if (stamp < last_) {
      backwards_ = true;
      stamp = std::min(last_, arrived);  // arrivals come from one clock and do not run backwards
    }
    last_ = stamp;
    return stamp;
  }
  // A source said at least once that a frame was captured after it arrived, or before its predecessor.
  [[nodiscard]] bool was_early() const noexcept { return early_; }
  [[nodiscard]] bool was_backwards() const noexcept { return backwards_; }

 private:
  base::TimePoint last_ = base::TimePoint::min();
  bool early_ = false;
  bool backwards_ = false;
};

}  // namespace camd::capture
