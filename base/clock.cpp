#include "base/clock.hpp"

#include <time.h>

namespace camd::base {
namespace {

// What the clocks of <chrono> do as well, by way of libstdc++, whose pages the first reading after a pause would have
// to fetch (docs/adr/0021-warm-first.md).
std::int64_t read_ns(clockid_t clock) noexcept {
  timespec t{};
  (void)clock_gettime(clock, &t);  // cannot fail for these clocks
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

class SystemClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() const noexcept override { return from_ns(read_ns(CLOCK_MONOTONIC)); }
  bool wait_until(CondVar& cv, Mutex& mutex, TimePoint deadline) const override CAMD_REQUIRES(mutex) {
    return cv.wait_until(mutex, deadline);
  }
};

}  // namespace

const Clock& system_clock() noexcept {
  static const SystemClock clock;
  return clock;
}

std::int64_t unix_now_ns() noexcept { return read_ns(CLOCK_REALTIME); }

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
