// What runs, and what a user is told about it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "pipeline/run/session_parts.hpp"

namespace camd::pipeline {

using base::Error;
using base::ErrorKind;

namespace {
constexpr base::Duration kLookAtInterrupts = std::chrono::seconds(1);
}  // namespace

Session::Run::Run(std::unique_ptr<Parts> parts, const SessionOptions& options, const base::Clock& clock,
                  const LineSink& sink)
    : clock_(clock), parts_(std::move(parts)) {
  std::vector<CameraSpec> cameras;
  for (const config::Camera& camera : parts_->config.cameras) cameras.push_back(camera_spec(camera, clock));
  reporter_ = std::make_unique<Reporter>(clock, parts_->config.metrics.period, sink);
  pipeline_ = std::make_unique<Pipeline>(parts_->lane_specs(), *parts_->plugins, clock, std::move(cameras),
                                         parts_->pipeline, reporter_.get(), options.tap);
  pipeline_->set_frame_limit(options.frame_limit);
}

std::vector<LaneParts> Session::Run::lanes_left() const {
  std::vector<LaneParts> left;
  for (const LaneParts& lane : parts_->lanes) {
    if (lane.device->status().ok()) left.push_back(lane);
  }
  return left.empty() ? parts_->lanes : left;
}

void Session::Run::start() {
  // The start line comes first, so the reporter starts before the cameras; when they cannot start, its stop line says
  // so.
  reporter_->start(*pipeline_, *parts_->plugins, parts_->start_line());
  try {
    pipeline_->start();
  } catch (const Error& error) {
    reporter_->stop(base::exit_code(error.kind()), error.what());
    throw;
  }
}

void Session::Run::change_to(std::unique_ptr<Parts> next) {
  const bool other_plugins = next->plugins != parts_->plugins;
  PipelineChange change{next->lane_specs(), *next->plugins, next->pipeline, {}, next->gone, {}};
  for (std::size_t i = 0; i < next->config.cameras.size(); ++i) {
    if (!next->opened[i]) continue;
    change.cameras.push_back(
        {static_cast<capture::CameraIndex>(next->places[i]), camera_spec(next->config.cameras[i], clock_)});
  }
  change.accepted = [&] {
    if (other_plugins) next->plugins->enter();
  };
  const auto same_way = [](const LaneParts& a, const LaneParts& b) { return a.engine == b.engine && a.path == b.path; };
  const bool other_way =
      !(next->pipeline == parts_->pipeline) ||
      !std::equal(next->lanes.begin(), next->lanes.end(), parts_->lanes.begin(), parts_->lanes.end(), same_way);
  if (other_plugins || other_way || !change.cameras.empty() || !change.removed.empty()) pipeline_->reload(change);
  if (next->difference.period) reporter_->set_period(next->config.metrics.period);
  const std::unique_ptr<Parts> before = std::exchange(parts_, std::move(next));
  for (const LaneParts& lane : before->lanes) {
    if (!lane.device->status().ok()) lost_.push_back(lane.device);
  }
  if (!other_plugins) return;
  reporter_->set_plugins(*parts_->plugins);
  for (const std::string& problem : parts_->plugins->leave()) base::log().error("{}", problem);
  for (const std::string& problem : before->plugins->finish()) base::log().error("{}", problem);
  hangs_ = hangs_ || before->plugins->hangs();
}

EndReason Session::Run::wait(base::TimePoint deadline) {
  std::vector<std::string> gpus;
  for (const LaneParts& lane : parts_->lanes) {
    if (const std::string& gpu = lane.device->info().bus_address; !gpu.empty()) gpus.push_back(gpu);
  }
  if (gpus.empty()) return pipeline_->wait_for_end(deadline);
  for (;;) {
    interrupted_.look(gpus);
    const base::TimePoint next = std::min(deadline, clock_.now() + kLookAtInterrupts);
    const EndReason why = pipeline_->wait_for_end(next);
    if (why != EndReason::kTimeout || next == deadline) return why;
  }
}

int Session::Run::stop(EndReason why, base::Duration plugin_patience) {
  const bool ended = pipeline_->stop(true, plugin_patience);
  int exit_code = 0;
  if (why == EndReason::kSourcesFailed) exit_code = base::exit_code(ErrorKind::kSource);
  if (why == EndReason::kDeviceLost || !pipeline_->device_status().ok()) {
    exit_code = base::exit_code(ErrorKind::kDeviceLost);
  }
  for (const std::string& problem : parts_->plugins->finish()) {
    base::log().error("{}", problem);
    if (exit_code == 0) exit_code = base::exit_code(ErrorKind::kPlugin);
  }
  if (!ended && exit_code == 0) exit_code = base::exit_code(ErrorKind::kInternal);
  hangs_ = hangs_ || !ended || pipeline_->keeps_sources() || parts_->plugins->hangs();
  reporter_->stop(exit_code, std::string(to_string(why)));
  return exit_code;
}

std::string Session::Run::stuck_line() const {
  std::string line = "still waiting for";
  const char* separator = "";
  for (const CameraView& camera : pipeline_->cameras()) {
    const Totals totals = pipeline_->ledger().totals(camera.index);
    line += fmt::format("{} {} frames of camera {}", std::exchange(separator, ","), totals.in_flight, camera.name);
  }
  return line;
}

std::string Session::Run::status_line() const {
  constexpr std::size_t kMostNamed = 5;
  std::size_t running = 0;
  std::vector<std::string> others;
  const std::vector<CameraView> cameras = pipeline_->cameras();
  for (const CameraView& camera : cameras) {
    const CameraStatus status = pipeline_->camera_status(camera.index);
    if (status.state == capture::SourceState::kRunning) {
      ++running;
    } else {
      others.push_back(fmt::format("{} {}", camera.name, capture::to_string(status.state)));
    }
  }
  std::string line = fmt::format("{} of {} cameras running", running, cameras.size());
  for (std::size_t i = 0; i < std::min(others.size(), kMostNamed); ++i) line += ", " + others[i];
  if (others.size() > kMostNamed) line += fmt::format(", and {} more", others.size() - kMostNamed);
  return line;
}

// What a ring drops by itself is no progress: it does so too when nobody takes anything out of it.
Progress Session::Run::progress() const {
  const Totals totals = pipeline_->ledger().totals();
  Progress now{totals.delivered, totals.in_flight};
  for (const DropReason reason : {DropReason::kTooOld, DropReason::kDeviceError, DropReason::kPluginError}) {
    now.finished += totals.dropped[static_cast<std::size_t>(reason)];
  }
  return now;
}

}  // namespace camd::pipeline
