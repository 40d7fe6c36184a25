#include "plugins/snapshot/encoder.hpp"

#include <exception>
#include <utility>

#include "plugins/jpeg/jpeg.hpp"

namespace camd::plugins {

SnapshotEncoder::SnapshotEncoder(int quality, Sink sink, std::function<void(const std::string&)> log)
    : quality_(quality), sink_(std::move(sink)), log_(std::move(log)) {}

void SnapshotEncoder::start() {
  if (!thread_.joinable() && !stopping_) thread_ = std::thread([this] { run(); });
}

void SnapshotEncoder::give(SnapshotJob job) {
  {
    const std::lock_guard lock(mutex_);
    ++totals_.taken;
    if (stopping_ || jobs_.size() == kMostJobs || (bytes_ + job.view.bytes() > kMostBytes && !jobs_.empty())) {
      ++totals_.dropped;
      return;
    }
    ++totals_.waiting;
    bytes_ += job.view.bytes();
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
}

void SnapshotEncoder::count_dropped() {
  const std::lock_guard lock(mutex_);
  ++totals_.taken;
  ++totals_.dropped;
}

void SnapshotEncoder::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
  const std::lock_guard lock(mutex_);
  totals_.dropped += std::exchange(totals_.waiting, 0);  // where it was never started
  jobs_.clear();
}

SnapshotTotals SnapshotEncoder::totals() const {
  const std::lock_guard lock(mutex_);
  return totals_;
}

void SnapshotEncoder::run() {
  bool told = false;
  for (;;) {
    SnapshotJob job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
      bytes_ -= job.view.bytes();
    }
    bool kept = false;
    try {
      sink_(job, jpeg_of(job.view.picture(), job.view.width(), job.view.height(), 0, quality_));
      kept = true;
      told = false;
    } catch (const std::exception& problem) {
      if (!std::exchange(told, true)) log_(problem.what());
    }
    const std::lock_guard lock(mutex_);
    --totals_.waiting;
    ++(kept ? totals_.done : totals_.failed);
  }
}

}  // namespace camd::plugins
