// The one clock of camd: monotonic, injectable, so that tests decide what time it is.
//
// Threads: every function [any]. Times are points of CLOCK_MONOTONIC in nanoseconds
// (std::chrono::steady_clock with libstdc++), the clock that V4L2 and GStreamer stamp with.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/mutex.hpp"

namespace camd::base {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

[[nodiscard]] inline std::int64_t to_ns(TimePoint t) noexcept { return t.time_since_epoch().count(); }
[[nodiscard]] inline TimePoint from_ns(std::int64_t ns) noexcept { return TimePoint(Duration(ns)); }

class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual TimePoint now() const noexcept = 0;
  // [blocks] until notified or `deadline` on this clock; false on time-out. Spurious wake-ups happen:
  // call it in a loop that checks the condition, holding `mutex`.
  virtual bool wait_until(CondVar& cv, Mutex& mutex, TimePoint deadline) const CAMD_REQUIRES(mutex) = 0;
};

// The real clock. A single instance without state.
[[nodiscard]] const Clock& system_clock() noexcept;

// The wall clock, nanoseconds since 1970. It may jump: for stamps that people read, never for differences.
[[nodiscard]] std::int64_t unix_now_ns() noexcept;

// Tests' clock: stands still until advance(). wait_until() wakes when time is advanced past the deadline.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(TimePoint start = from_ns(1'000'000'000)) : now_ns_(to_ns(start)) {}
  [[nodiscard]] TimePoint now() const noexcept override;
  bool wait_until(CondVar& cv, Mutex& mutex, TimePoint deadline) const override CAMD_REQUIRES(mutex);
  void advance(Duration by);
  // Threads that are inside wait_until() now: tests use it as a gate ("everyone is asleep").
  [[nodiscard]] int waiters() const;

 private:
  mutable Mutex mutex_;
  std::int64_t now_ns_ CAMD_GUARDED_BY(mutex_);
  mutable int waiters_ CAMD_GUARDED_BY(mutex_) = 0;
};

}  // namespace camd::base
