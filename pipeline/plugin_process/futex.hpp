// Waiting for a word in memory that two processes share, and waking who waits for it (futex(2)).
//
// Threads: [any]. Invariants: nothing is allocated. A wake-up without a reason happens: look at the word again.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>

#include "base/clock.hpp"

namespace camd::pipeline {

// [blocks] while the word is `seen`, until somebody wakes or until `deadline` on CLOCK_MONOTONIC; null: without end.
// False: the deadline has passed.
inline bool futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
                       const base::TimePoint* deadline) noexcept {
  static_assert(sizeof(word) == sizeof(std::uint32_t));
  timespec until{};
  if (deadline != nullptr) {
    const std::int64_t ns = base::to_ns(*deadline);
    until.tv_sec = ns / 1'000'000'000;
    until.tv_nsec = ns % 1'000'000'000;
  }
  // FUTEX_WAIT_BITSET takes a point in time where FUTEX_WAIT takes a length.
  const long done = syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, seen, deadline == nullptr ? nullptr : &until, nullptr,
                            FUTEX_BITSET_MATCH_ANY);
  return done == 0 || errno != ETIMEDOUT;
}

inline void futex_wake(const std::atomic<std::uint32_t>& word) noexcept {
  (void)syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace camd::pipeline
