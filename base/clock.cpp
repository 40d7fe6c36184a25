#include "base/clock.hpp"

namespace camd::base {
namespace {

class SystemClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() const noexcept override {
    return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
  }
  bool wait_until(CondVar& cv, Mutex& mutex, TimePoint deadline) const override CAMD_REQUIRES(mutex) {
    return cv.wait_until(mutex, deadline);
  }
};

}  // namespace

const Clock& system_clock() noexcept {
  static const SystemClock clock;
  return clock;
}

TimePoint ManualClock::now() const noexcept {
  MutexLock lock(mutex_);
  return from_ns(now_ns_);
}

bool ManualClock::wait_until(CondVar& cv, Mutex& mutex, TimePoint deadline) const {
  if (now() >= deadline) return false;
  {
    MutexLock lock(mutex_);
    ++waiters_;
  }
  // The waiter's own mutex is not ours to lock from advance(), so a notification could be missed
  // between the check above and the wait: a short real time-out bounds that, and callers loop.
  cv.wait_until(mutex, std::chrono::steady_clock::now() + std::chrono::milliseconds(1));
  {
    MutexLock lock(mutex_);
    --waiters_;
  }
  return now() < deadline;
}

void ManualClock::advance(Duration by) {
  MutexLock lock(mutex_);
  now_ns_ += by.count();
}

int ManualClock::waiters() const {
  MutexLock lock(mutex_);
  return waiters_;
}

}  // namespace camd::base
