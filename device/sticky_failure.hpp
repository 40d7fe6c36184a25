// StickyFailure: the first failure of a device. Once set it stays, and every later call of the device answers it.
//
// Threads: [any]. lost() is one atomic load, so that each call of a device can ask first.
#pragma once

#include <atomic>

#include "base/error.hpp"
#include "base/mutex.hpp"

namespace camd::device {

class StickyFailure {
 public:
  [[nodiscard]] bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  // Ok, or the failure that is kept.
  [[nodiscard]] base::Status status() const {
    if (!lost()) return {};
    const base::MutexLock lock(mutex_);
    return failure_;
  }
  // Keeps `failure`, which must not be ok, unless one is kept already.
  void set(const base::Status& failure) {
    const base::MutexLock lock(mutex_);
    if (!failure_.ok()) return;
    failure_ = failure;
    lost_.store(true, std::memory_order_release);
  }

 private:
  std::atomic<bool> lost_{false};
  mutable base::Mutex mutex_;
  base::Status failure_ CAMD_GUARDED_BY(mutex_);
};

}  // namespace camd::device
