// FilePace: says when each frame of a clip is due. The clip is played in real time, once or in a loop.
//
// The first frame is due at once. The others follow at their distance from it in the clip. A second round starts one
// frame's duration after the last frame of the first, so that a looped clip keeps its pace. When the clip is more than
// a second late (the machine cannot decode in time, or the process was stopped), the schedule moves: frames are not
// hurried to catch up.
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

  // When the next frame is due. `running` is its time in the clip, empty when the clip does not say. `duration` is how
  // long it is shown, zero when the clip does not say; then the distance of the last two frames is taken.
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
  // True when the schedule has moved at least once.
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
