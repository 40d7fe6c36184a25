// SnapshotEncoder: a thread that makes JPEGs of views and hands them on, behind a queue that is bounded.
//
// Threads: constructor, start(), stop(), destructor [setup] or [post]; give() [post]; totals() [any]. The sink is
// called
//   by the encoder's own thread.
// Invariant: taken = done + failed + dropped + waiting, at every moment.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "plugins/snapshot/view.hpp"

namespace camd::plugins {

struct SnapshotJob {
  View view;
  std::string camera;
  std::string what;  // a class or an event
  std::uint64_t track_id = 0;
  std::int64_t unix_ns = 0;  // when the picture was taken
};

struct SnapshotTotals {
  std::uint64_t taken = 0, done = 0, failed = 0, dropped = 0, waiting = 0;
};

class SnapshotEncoder {
 public:
  static constexpr std::size_t kMostJobs = 32;
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20U;

  // `sink` throws std::runtime_error where a picture cannot be kept. `log` is told that once, until one is kept again.
  using Sink = std::function<void(const SnapshotJob&, const std::string& jpeg)>;
  SnapshotEncoder(int quality, Sink sink, std::function<void(const std::string&)> log);
  ~SnapshotEncoder() { stop(); }
  SnapshotEncoder(const SnapshotEncoder&) = delete;
  SnapshotEncoder& operator=(const SnapshotEncoder&) = delete;

  void start();
  // Takes the job, or counts it as dropped where there is no room. Copies nothing, waits for nothing.
  void give(SnapshotJob job);
  void count_dropped();  // one that could not even be copied
  // [blocks] until the thread, if it was started, has done what waits. Idempotent.
  void stop();
  [[nodiscard]] SnapshotTotals totals() const;

 private:
  void run();
  const int quality_;
  const Sink sink_;
  const std::function<void(const std::string&)> log_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<SnapshotJob> jobs_;
  std::size_t bytes_ = 0;  // of jobs_
  SnapshotTotals totals_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace camd::plugins
