// Backoff: how long a source waits before it tries again. The wait doubles from `initial` to `most`. Each wait is made
// up to a fifth shorter or longer at random, so that cameras that were lost together do not all come back at once.
//
// Threads: one at a time. [no-alloc]
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>

#include "base/clock.hpp"

namespace camd::capture {

class Backoff {
 public:
  Backoff(base::Duration initial, base::Duration most, std::uint32_t seed) noexcept
      : initial_(initial), most_(std::max(initial, most)), next_(initial), random_(seed) {
    random_.discard(16);  // small seeds start with small numbers
  }

  // The wait before the next attempt, never longer than `most`.
  [[nodiscard]] base::Duration next() noexcept {
    const base::Duration wait = next_;
    next_ = std::min(most_, 2 * next_);
    const auto per_mille = std::uniform_int_distribution<int>(800, 1200)(random_);
    return std::min(most_, wait * per_mille / 1000);
  }
  // The source works again: the next failure starts from `initial`.
  void reset() noexcept { next_ = initial_; }

 private:
  const base::Duration initial_;
  const base::Duration most_;
  base::Duration next_;
  std::minstd_rand random_;
};

}  // namespace camd::capture
