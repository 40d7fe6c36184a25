// The reporter's thread, and what it writes when.
#include "pipeline/run/reporter.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "base/thread.hpp"

namespace camd::pipeline {
namespace {

// A camera that flaps must not fill the memory while nobody reads stdout.
constexpr std::size_t kMaxChanges = 1000;

}  // namespace

std::vector<std::string_view> camera_states() {
  using enum capture::SourceState;
  std::vector<std::string_view> states;
  for (const auto state : {kStarting, kRunning, kStarved, kStalled, kReconnecting, kEnded, kFailed}) {
    states.push_back(capture::to_string(state));
  }
  return states;
}

CameraNow camera_now(const Pipeline& pipeline, const CameraView& camera) {
  CameraStatus status = pipeline.camera_status(camera.index);
  return {camera.name,
          std::string(capture::to_string(status.state)),
          std::move(status.reason),
          pipeline.camera_lane(camera.index),
          pipeline.ledger().totals(camera.index),
          pipeline.camera_clock(camera.index),
          pipeline.camera_losses(camera.index),
          pipeline.camera_decoder(camera.index),
          pipeline.camera_copied_bytes(camera.index)};
}

Reporter::Reporter(const base::Clock& clock, base::Duration period, LineSink sink)
    : clock_(clock), sink_(std::move(sink)), sampler_(clock), period_(period) {}

Reporter::~Reporter() { stop(0, "destroyed"); }

void Reporter::start(Pipeline& pipeline, PluginHost& plugins, const StartLine& line) {
  pipeline_ = &pipeline;
  set_plugins(plugins);
  started_ = last_period_ = clock_.now();
  {
    const base::MutexLock lock(mutex_);
    next_ = started_ + period_;
  }
  sink_(start_line(line, started_));
  thread_ = std::thread([this] { loop(); });
}

void Reporter::set_plugins(PluginHost& plugins) {
  {
    const base::MutexLock lock(plugins_mutex_);
    plugins_ = &plugins;
  }
  const base::MutexLock lock(shown_mutex_);
  shown_plugins_ = &plugins;
}

Snapshot Reporter::snapshot(Pipeline& pipeline) const {
  Snapshot now;
  for (const CameraView& camera : pipeline.cameras()) {
    now.cameras.push_back({camera_now(pipeline, camera), pipeline.metrics().totals(camera.index)});
  }
  now.lanes = pipeline.lanes();
  now.process = ProcessSampler(clock_).sample();
  const base::MutexLock lock(shown_mutex_);
  if (shown_plugins_ == nullptr) return now;
  for (PluginNumbers& plugin : shown_plugins_->numbers()) {
    PluginSnapshot& shown = now.plugins.emplace_back();
    shown.name = plugin.name;
    for (const CounterValue& one : plugin.counters) {
      shown.counters.push_back({std::string(one.name), one.kind, one.count, one.level});
    }
    shown.outlet = std::move(plugin.outlet);
    shown.health = std::move(plugin.health);
  }
  return now;
}

void Reporter::set_period(base::Duration period) {
  const base::MutexLock lock(mutex_);
  period_ = period;
  next_ = clock_.now() + period;
  wake_.notify_all();
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
  for (const CameraView& camera : pipeline_->cameras()) {
    line.cameras.push_back({camera.name, pipeline_->ledger().totals(camera.index)});
  }
  line.totals = pipeline_->ledger().totals();
  line.removed = pipeline_->ledger().removed();
  line.uptime_s = std::chrono::duration<double>(now - started_).count();
  line.exit_code = exit_code;
  line.reason = reason;
  sink_(stop_line(line, now));
}

void Reporter::camera_changed(capture::CameraIndex camera, capture::SourceState state, const std::string& reason) {
  const std::vector<CameraView> cameras = pipeline_->cameras();
  const auto found =
      std::find_if(cameras.begin(), cameras.end(), [camera](const CameraView& one) { return one.index == camera; });
  base::MutexLock lock(mutex_);
  if (found == cameras.end() || changes_.size() >= kMaxChanges) return;
  changes_.push_back({"camera", found->name, std::string(capture::to_string(state)), reason, clock_.now()});
  wake_.notify_all();
}

void Reporter::device_lost(const std::string& device, const std::string& reason) {
  base::MutexLock lock(mutex_);
  changes_.push_back({"device", device, "lost", reason, clock_.now()});
  wake_.notify_all();
}

void Reporter::reloaded(const ReloadLine& line) {
  base::MutexLock lock(mutex_);
  if (lines_.size() >= kMaxChanges) return;
  lines_.push_back(reload_line(line, clock_.now()));
  wake_.notify_all();
}

void Reporter::camera_removed(const std::string& name, const Totals& totals) {
  CameraLine line;
  line.camera = name;
  line.state = "removed";
  line.totals = totals;
  base::MutexLock lock(mutex_);
  if (lines_.size() >= kMaxChanges) return;
  lines_.push_back(camera_line(line, clock_.now()));
  wake_.notify_all();
}

void Reporter::loop() {
  base::name_this_thread("metrics");
  for (;;) {
    bool period_over = false;
    {
      base::MutexLock lock(mutex_);
      while (!stopping_ && changes_.empty() && lines_.empty() && clock_.now() < next_) {
        (void)clock_.wait_until(wake_, mutex_, next_);
      }
      if (stopping_) return;
      const base::TimePoint now = clock_.now();
      period_over = now >= next_;
      // An absolute schedule: lines do not drift. Periods missed while the reader was stuck are not made up for.
      while (next_ <= now) next_ += period_;
    }
    write_changes();
    if (period_over) write_period(clock_.now());
  }
}

void Reporter::write_changes() {
  std::vector<Change> changes;
  std::vector<std::string> lines;
  {
    base::MutexLock lock(mutex_);
    changes.swap(changes_);
    lines.swap(lines_);
  }
  for (const std::string& line : lines) sink_(line);
  for (const Change& change : changes) {
    sink_(state_line(change.what, change.name, change.state, change.reason, change.when));
  }
}

void Reporter::write_period(base::TimePoint now) {
  const double seconds = std::chrono::duration<double>(now - last_period_).count();
  if (seconds <= 0) return;
  for (const CameraView& camera : pipeline_->cameras()) write_camera(camera, seconds, now);
  std::vector<std::string> lines;  // written without the lock: their reader may be slow
  {
    const base::MutexLock lock(plugins_mutex_);
    std::size_t index = 0;
    for (const PluginNumbers& plugin : plugins_->counters()) {
      lines.push_back(plugin_line(index, plugin, now));
      for (const OutletRow& row : plugin.outlet) lines.push_back(outlet_line(index, plugin.name, row, now));
      ++index;
    }
  }
  for (const std::string& line : lines) sink_(line);
  sink_(process_line(sampler_.sample(), pipeline_->lanes(), now));
  last_period_ = now;
}

void Reporter::write_camera(const CameraView& camera, double seconds, base::TimePoint now) {
  if (told_.size() <= camera.index) told_.resize(camera.index + 1);
  Told& told = told_[camera.index];
  CameraLine line;
  static_cast<CameraNow&>(line) = camera_now(*pipeline_, camera);
  line.period_s = seconds;
  line.metrics = pipeline_->metrics().take(camera.index);
  line.seen = pipeline_->sights().take(camera.index);
  // The slot may have been another camera's, or this one's before it was removed and came back.
  if (told.name != camera.name || told.totals.captured > line.totals.captured) told = {camera.name, {}};
  line.captured_fps = static_cast<double>(line.totals.captured - told.totals.captured) / seconds;
  line.delivered_fps = static_cast<double>(line.totals.delivered - told.totals.delivered) / seconds;
  if (!line.totals.balanced()) {
    base::log().error(
        "bug: the accounting of camera {} does not balance: captured {}, delivered {}, dropped {}, in "
        "flight {}",
        line.camera, line.totals.captured, line.totals.delivered, line.totals.dropped_sum(), line.totals.in_flight);
  }
  told.totals = line.totals;
  sink_(camera_line(line, now));
}

}  // namespace camd::pipeline
