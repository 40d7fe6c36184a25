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

class Silence {
 public:
  // A wait that comes back later than asked by less than this is a busy machine's, and counts.
  static constexpr base::Duration kSlack = std::chrono::seconds(1);

  // Silence counts from `now`.
  void begin(base::TimePoint now) noexcept {
    since_ = looked_ = now;
    kept_ = base::Duration::zero();
  }
  // `shown`: when the camera showed its last picture, or earlier than begin(). `waited`: what the caller asked to wait
  // for at most since begin() or the last look. Returns the silence until `now`.
  [[nodiscard]] base::Duration look(base::TimePoint now, base::TimePoint shown, base::Duration waited) noexcept {
    if (shown > since_) {
      since_ = shown;
      kept_ = base::Duration::zero();
    }
    const base::Duration late = now - std::max(looked_, since_) - waited;
    if (late > kSlack) kept_ += late;
    looked_ = now;
    return std::max(base::Duration::zero(), now - since_ - kept_);
  }

 private:
  base::TimePoint since_;
  base::TimePoint looked_;
  base::Duration kept_{0};  // for how long camd did not run since then
};

}  // namespace camd::capture
