#include "capture/test_source.hpp"

#include <fmt/format.h>

#include <cmath>
#include <thread>
#include <utility>

#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/thread.hpp"
#include "capture/test_pattern.hpp"

namespace camd::capture {
namespace {

using base::MutexLock;
using base::TimePoint;

constexpr base::Duration kMostLate = std::chrono::seconds(1);

constexpr base::Duration kBetweenLooks = std::chrono::milliseconds(100);

class TestSource final : public FrameSource {
 public:
  TestSource(const config::TestSource& settings, const std::string& name, CameraIndex index, FrameRing& ring,
             SourceListener& listener, const base::Clock& clock)
      : settings_(settings),
        name_(name),
        index_(index),
        ring_(ring),
        listener_(listener),
        clock_(clock),
        pattern_(base::tight_layout(settings.format, settings.width, settings.height)) {
    if (!(settings.fps > 0)) {
      throw base::Error(base::ErrorKind::kConfig, fmt::format("camera {}: fps must be above 0", name));
    }
  }
  ~TestSource() override { stop(); }

  void start() override {
    if (thread_.joinable()) {
      throw base::Error(base::ErrorKind::kState, fmt::format("camera {}: start() was called twice", name_));
    }
    listener_.state_changed(index_, SourceState::kStarting, "");
    thread_ = std::thread([this] { run(); });
  }

  void request_stop() noexcept override {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
      changed_.notify_all();
    }
    ring_.close(true);  // the thread may wait there for a slot
  }

  // The thread runs nothing foreign: it ends.
  bool join(base::Duration /*patience*/) noexcept override {
    if (thread_.joinable()) thread_.join();
    return true;
  }

 private:
  void run() noexcept {
    base::name_this_thread("test:" + name_);
    TimePoint start = clock_.now();
    for (std::int64_t k = 0;; ++k) {
      if (settings_.frames > 0 && k >= settings_.frames) {
        listener_.state_changed(index_, SourceState::kEnded, fmt::format("all {} frames were made", k));
        return;
      }
      if (settings_.realtime) {
        const TimePoint due = start + base::Duration(std::llround(static_cast<double>(k) * 1e9 / settings_.fps));
        if (!wait_until(due)) return;
        const base::Duration late = clock_.now() - due;
        if (late > kMostLate) {
          start += late;
          stopped_ += late;
          if (!moved_)
            base::log().warn("camera {}: late by {} ms, the schedule moves", name_, late.count() / 1'000'000);
          moved_ = true;
        }
      }
      if (stopped() || ring_.closed()) return;
      try {
        make_frame();
      } catch (const std::exception& error) {  // no memory for a slot: it will not come by trying again
        listener_.state_changed(index_, SourceState::kFailed, error.what());
        return;
      }
      if (k == 0) listener_.state_changed(index_, SourceState::kRunning, "");
      look_for_deliveries(k == 0);
    }
  }

  void look_for_deliveries(bool first) {
    const TimePoint now = clock_.now();
    if (first) starvation_.begin(now, listener_.fates(index_));
    if (now < next_look_) return;
    next_look_ = now + kBetweenLooks;
    const bool was_starved = starvation_.starved();
    starvation_.look(now, listener_.fates(index_), std::exchange(stopped_, base::Duration::zero()));
    if (starvation_.starved() == was_starved) return;
    listener_.state_changed(index_, was_starved ? SourceState::kRunning : SourceState::kStarved,
                            was_starved ? "" : starvation_.reason());
  }

  void make_frame() {
    std::optional<FillLease> lease = ring_.begin();
    if (!lease) return;
    const base::PictureLayout& layout = pattern_.layout();
    const std::span<std::byte> pixels(lease->data(layout), layout.size_bytes);
    const TimePoint birth = clock_.now();
    pattern_.draw(pixels, lease->sequence());
    (void)stamp_test_pattern(layout, pixels, {lease->sequence(), base::to_ns(birth)});
    lease->publish(birth, clock_.now());
  }

  // False when the source is being stopped.
  bool wait_until(TimePoint due) {
    const MutexLock lock(mutex_);
    while (!stopping_ && clock_.now() < due) (void)clock_.wait_until(changed_, mutex_, due);
    return !stopping_;
  }
  bool stopped() {
    const MutexLock lock(mutex_);
    return stopping_;
  }

  const config::TestSource settings_;
  const std::string name_;
  const CameraIndex index_;
  FrameRing& ring_;
  SourceListener& listener_;
  const base::Clock& clock_;
  const TestPattern pattern_;
  base::Mutex mutex_;
  base::CondVar changed_;
  bool stopping_ CAMD_GUARDED_BY(mutex_) = false;
  // Of the thread
  bool moved_ = false;
  Starvation starvation_{config::Recovery().timeout};
  TimePoint next_look_;
  base::Duration stopped_{0};  // for how long it did not run since the last look
  std::thread thread_;
};

}  // namespace

std::unique_ptr<FrameSource> make_test_source(const config::TestSource& settings, const std::string& name,
                                              CameraIndex index, FrameRing& ring, SourceListener& listener,
                                              const base::Clock& clock) {
  return std::make_unique<TestSource>(settings, name, index, ring, listener, clock);
}

}  // namespace camd::capture
