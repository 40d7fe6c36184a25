// Health: whether frames come through, as far as those who ask can know.
//
// Threads: [any], a short lock.
// Invariant: nothing is watched between two questions: what is compared is the answer of now with that of before.
#pragma once

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "pipeline/run/session.hpp"

namespace camd::http {

// Frames that are on their way for so long, and none of them comes to its end: the pipeline hangs.
inline constexpr base::Duration kNoProgress = std::chrono::seconds(10);

class Health {
 public:
  // How long frames have been on their way without one that came through, seen from the questions: 0 where all is well.
  [[nodiscard]] base::Duration stuck_for(const pipeline::Progress& now, base::TimePoint when);

 private:
  base::Mutex mutex_;
  pipeline::Progress last_ CAMD_GUARDED_BY(mutex_);
  base::TimePoint since_ CAMD_GUARDED_BY(mutex_);
};

}  // namespace camd::http
