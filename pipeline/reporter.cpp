#include "pipeline/reporter.hpp"

#include <utility>

#include "base/log.hpp"
#include "base/thread.hpp"

namespace camd::pipeline {
namespace {

// A camera that flaps must not fill the memory while nobody reads stdout.
constexpr std::size_t kMaxChanges = 1000;

}  // namespace

Reporter::Reporter(const base::Clock& clock, base::Duration period, LineSink sink)
    : clock_(clock), period_(period), sink_(std::move(sink)), sampler_(clock) {}

Reporter::~Reporter() { stop(0, "destroyed"); }

void Reporter::start(Pipeline& pipeline, const device::Device& device, const StartLine& line) {
  pipeline_ = &pipeline;
  device_ = &device;
  started_ = last_period_ = clock_.now();
  last_totals_.assign(pipeline.cameras().size(), {});
  sink_(start_line(line, started_));
  thread_ = std::thread([this] { loop(); });
}

void Reporter::stop(int exit_code, const std::string& reason) {
  if (!thread_.joinable()) return;
  {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  thread_.join();
  const base::TimePoint now = clock_.now();
  write_changes();
  write_period(now);
  StopLine line;
  for (std::size_t i = 0; i < pipeline_->cameras().size(); ++i) {
    line.cameras.push_back(
        {pipeline_->cameras()[i].name, pipeline_->ledger().totals(static_cast<capture::CameraIndex>(i))});
  }
  line.totals = pipeline_->ledger().totals();
  line.uptime_s = std::chrono::duration<double>(now - started_).count();
  line.exit_code = exit_code;
  line.reason = reason;
  sink_(stop_line(line, now));
}

void Reporter::camera_changed(capture::CameraIndex camera, capture::SourceState state, const std::string& reason) {
  base::MutexLock lock(mutex_);
  if (changes_.size() >= kMaxChanges) return;
  changes_.push_back({false, camera, std::string(capture::to_string(state)), reason, clock_.now()});
  wake_.notify_all();
}

void Reporter::device_lost(const std::string& reason) {
  base::MutexLock lock(mutex_);
  changes_.push_back({true, 0, "lost", reason, clock_.now()});
  wake_.notify_all();
}

void Reporter::loop() {
  base::name_this_thread("metrics");
  base::TimePoint next = started_ + period_;
  for (;;) {
    bool period_over = false;
    {
      base::MutexLock lock(mutex_);
      while (!stopping_ && changes_.empty() && clock_.now() < next) (void)clock_.wait_until(wake_, mutex_, next);
      if (stopping_) return;
      period_over = clock_.now() >= next;
    }
    write_changes();
    if (!period_over) continue;
    const base::TimePoint now = clock_.now();
    write_period(now);
    // An absolute schedule: lines do not drift. Periods missed while the reader was stuck are not made up for.
    while (next <= now) next += period_;
  }
}

void Reporter::write_changes() {
  std::vector<Change> changes;
  {
    base::MutexLock lock(mutex_);
    changes.swap(changes_);
  }
  for (const Change& change : changes) {
    const std::string name = change.device ? device_->info().name : pipeline_->cameras()[change.camera].name;
    sink_(state_line(change.device ? "device" : "camera", name, change.state, change.reason, change.when));
  }
}

void Reporter::write_period(base::TimePoint now) {
  const double seconds = std::chrono::duration<double>(now - last_period_).count();
  if (seconds <= 0) return;
  for (std::size_t i = 0; i < pipeline_->cameras().size(); ++i) {
    const auto index = static_cast<capture::CameraIndex>(i);
    CameraLine line;
    line.camera = pipeline_->cameras()[i].name;
    line.state = capture::to_string(pipeline_->camera_status(index).state);
    line.period_s = seconds;
    line.totals = pipeline_->ledger().totals(index);
    line.metrics = pipeline_->metrics().take(index);
    line.captured_fps = static_cast<double>(line.totals.captured - last_totals_[i].captured) / seconds;
    line.delivered_fps = static_cast<double>(line.totals.delivered - last_totals_[i].delivered) / seconds;
    if (!line.totals.balanced()) {
      base::log().error(
          "bug: the accounting of camera {} does not balance: captured {}, delivered {}, dropped {}, in "
          "flight {}",
          line.camera, line.totals.captured, line.totals.delivered, line.totals.dropped_sum(), line.totals.in_flight);
    }
    last_totals_[i] = line.totals;
    sink_(camera_line(line, now));
  }
  // On the host device what is allocated is the process's own memory, which rss_bytes tells.
  const bool gpu = device_->info().kind == device::DeviceKind::kCuda;
  sink_(process_line(sampler_.sample(), gpu ? device_->allocated_bytes() : 0, now));
  last_period_ = now;
}

}  // namespace camd::pipeline
