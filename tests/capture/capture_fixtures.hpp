// What the capture tests share: observers that count, a listener that remembers, waits with a deadline.
//
// Threads: every function [any].
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "capture/frame_ring.hpp"
#include "capture/frame_source.hpp"

namespace camd::capture::testing {

// Counts every fate, as the pipeline's ledger does.
class CountingObserver : public FrameObserver {
 public:
  void captured(CameraIndex) noexcept override { add(captured_); }
  void dropped(CameraIndex, RingDrop why) noexcept override { add(dropped_[static_cast<std::size_t>(why)]); }
  void ready(CameraIndex) noexcept override { add(ready_); }
  void freed(CameraIndex) noexcept override { add(freed_); }

  [[nodiscard]] int captured() const { return get(captured_); }
  [[nodiscard]] int ready() const { return get(ready_); }
  [[nodiscard]] int freed() const { return get(freed_); }
  [[nodiscard]] int dropped(RingDrop why) const { return get(dropped_[static_cast<std::size_t>(why)]); }
  [[nodiscard]] int dropped() const {
    const base::MutexLock lock(mutex_);
    int sum = 0;
    for (const int count : dropped_) sum += count;
    return sum;
  }
  // True once `ready` frames were published; false after ten seconds.
  [[nodiscard]] bool wait_ready(int ready) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    const base::MutexLock lock(mutex_);
    while (ready_ < ready) {
      if (!changed_.wait_until(mutex_, deadline) && ready_ < ready) return false;
    }
    return true;
  }

 private:
  void add(int& count) noexcept {
    const base::MutexLock lock(mutex_);
    ++count;
    changed_.notify_all();
  }
  [[nodiscard]] int get(const int& count) const {
    const base::MutexLock lock(mutex_);
    return count;
  }

  // By reference above, where the analysis does not look; only under mutex_.
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  int captured_ = 0;
  int ready_ = 0;
  int freed_ = 0;
  std::array<int, kRingDropCount> dropped_{};
};

// Remembers the states of one camera in their order.
class StateRecorder : public SourceListener {
 public:
  struct Entry {
    SourceState state;
    std::string reason;
  };
  void state_changed(CameraIndex, SourceState state, const std::string& reason) noexcept override {
    const base::MutexLock lock(mutex_);
    entries_.push_back({state, reason});
    changed_.notify_all();
  }
  // What sources are told of their frames: before they start. By default nothing.
  void set_fates(std::function<FrameFates()> fates) { fates_ = std::move(fates); }
  [[nodiscard]] FrameFates fates(CameraIndex) const noexcept override { return fates_ ? fates_() : FrameFates{}; }
  [[nodiscard]] std::vector<Entry> entries() const {
    const base::MutexLock lock(mutex_);
    return entries_;
  }
  [[nodiscard]] std::vector<SourceState> states() const {
    std::vector<SourceState> states;
    for (const Entry& entry : entries()) states.push_back(entry.state);
    return states;
  }
  [[nodiscard]] std::vector<std::string> reasons() const {
    std::vector<std::string> reasons;
    for (const Entry& entry : entries()) reasons.push_back(entry.reason);
    return reasons;
  }
  // The reason given for the last state.
  [[nodiscard]] std::string last_reason() const {
    const base::MutexLock lock(mutex_);
    return entries_.empty() ? std::string() : entries_.back().reason;
  }
  // True once `state` was entered `times` times; false after `patience`.
  [[nodiscard]] bool wait_for(SourceState state, int times = 1,
                              std::chrono::seconds patience = std::chrono::seconds(20)) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    const base::MutexLock lock(mutex_);
    for (;;) {
      int seen = 0;
      for (const Entry& entry : entries_) seen += entry.state == state ? 1 : 0;
      if (seen >= times) return true;
      if (std::chrono::steady_clock::now() >= deadline) return false;
      (void)changed_.wait_until(mutex_, deadline);
    }
  }

 private:
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<Entry> entries_ CAMD_GUARDED_BY(mutex_);
  std::function<FrameFates()> fates_;  // constant while a source runs
};

// Polls a condition that has no one to announce it; false after ten seconds.
template <typename Condition>
[[nodiscard]] bool eventually(Condition condition, std::chrono::seconds patience = std::chrono::seconds(10)) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  base::Mutex mutex;
  base::CondVar never;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    const base::MutexLock lock(mutex);
    (void)never.wait_until(mutex, std::chrono::steady_clock::now() + std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace camd::capture::testing
