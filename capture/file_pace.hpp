// FilePace: when the frames of a clip are due that is played in real time, round after round.
//
// The first frame is due at once, the others by their distance from it. A round that follows starts one frame's
// duration after the last frame of the round before, so that a looped clip keeps its pace across the joint. Who is more
// than a second late (a machine that cannot decode in time, a stopped process) moves the schedule instead of hurrying
// after it.
//
// Threads: one at a time (the camera's streaming thread). [no-alloc]
#pragma once

#include <algorithm>
#include <optional>

#include "base/clock.hpp"

namespace camd::capture {

class FilePace {
 public:
  static constexpr base::Duration kMostLate = std::chrono::seconds(1);

  // The next frame is the first of another round.
  void start_round() noexcept { round_begins_ = true; }

  // When the next frame is due. `running`: its time in the clip, empty when the clip does not say; `duration`: how long
  // it is shown, zero when the clip does not say (then the distance of the last two frames counts).
  [[nodiscard]] base::TimePoint due(std::optional<base::Duration> running, base::Duration duration,
                                    base::TimePoint now) noexcept {
    base::TimePoint due = last_ + last_shown_;
    if (!started_) {
      started_ = true;
      due = now;
    } else if (running && !round_begins_) {
      due = origin_ + *running;
      step_ = std::max(due - last_, base::Duration(1));
    }
    if (running) origin_ = due - *running;
    if (now - due > kMostLate) {
      moved_ = true;
      origin_ += now - due;
      due = now;
    }
    round_begins_ = false;
    last_ = due;
    last_shown_ = duration > base::Duration::zero() ? duration : step_;
    return due;
  }
  // The schedule had to be moved at least once.
  [[nodiscard]] bool moved() const noexcept { return moved_; }

 private:
  bool started_ = false;
  bool round_begins_ = false;
  bool moved_ = false;
  base::TimePoint origin_;  // when time 0 of this round is due
  base::TimePoint last_;    // when the last frame was due
  base::Duration last_shown_ = base::Duration::zero();
  base::Duration step_ = std::chrono::milliseconds(33);
};

}  // namespace camd::capture
