// Silence: for how long a camera has shown nothing while camd ran.
//
// camd itself may have been kept from running (SIGSTOP, a machine that swaps, a debugger). What a camera sent meanwhile
// waits in the sockets, and the camera is not to blame: such time does not count.
//
// Threads: one at a time. [no-alloc]
#pragma once

#include <algorithm>

#include "base/clock.hpp"

namespace camd::capture {

// For how long camd did not run between two looks.
class OwnStops {
 public:
  // A wait that comes back later than asked by less than this is a busy machine's, and is no stop.
  static constexpr base::Duration kSlack = std::chrono::seconds(1);

  void begin(base::TimePoint now) noexcept { looked_ = now; }
  // `waited`: what the caller asked to wait for at most since begin() or the last look.
  [[nodiscard]] base::Duration look(base::TimePoint now, base::Duration waited) noexcept {
    const base::Duration late = now - looked_ - waited;
    looked_ = now;
    return late > kSlack ? late : base::Duration::zero();
  }

 private:
  base::TimePoint looked_;
};

class Silence {
 public:
  // Silence counts from `now`.
  void begin(base::TimePoint now) noexcept {
    since_ = now;
    stopped_ = base::Duration::zero();
  }
  // `shown`: when the camera showed its last picture, or earlier than begin(). `stopped`: for how long camd did not run
  // since the last look. Returns the silence until `now`.
  [[nodiscard]] base::Duration look(base::TimePoint now, base::TimePoint shown, base::Duration stopped) noexcept {
    if (shown > since_) begin(shown);
    stopped_ = std::min(stopped_ + stopped, now - since_);
    return std::max(base::Duration::zero(), now - since_ - stopped_);
  }

 private:
  base::TimePoint since_;
  base::Duration stopped_{0};  // since then
};

}  // namespace camd::capture
