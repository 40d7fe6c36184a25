// A session from its start to its stop, and what a user is told about a reload.
#include "pipeline/run/session.hpp"

#include <fmt/format.h>

#include <sstream>
#include <utility>

#include "base/log.hpp"
#include "base/secrets.hpp"
#include "pipeline/run/session_parts.hpp"

namespace camd::pipeline {

using base::Error;
using base::ErrorKind;

std::string_view to_string(EndReason reason) noexcept {
  switch (reason) {
    case EndReason::kTimeout: return "duration reached";
    case EndReason::kRequested: return "asked to stop";
    case EndReason::kSourcesEnded: return "every source has ended";
    case EndReason::kSourcesFailed: return "every source has failed";
    case EndReason::kFrameLimit: return "frame limit reached";
    case EndReason::kDeviceLost: return "device lost";
  }
  return "?";
}

Session::Session(ConfigLoader load, SessionOptions options, const base::Clock& clock, LineSink sink)
    : load_(std::move(load)), options_(std::move(options)), clock_(clock), sink_(std::move(sink)) {}

Session::~Session() {
  if (running()) (void)stop(EndReason::kRequested);
}

// What [any] sees from now on.
void Session::show(Run* run) {
  const base::MutexLock lock(mutex_);
  shown_ = run;
  if (run != nullptr && end_requested_) run->pipeline().request_end();
}

void Session::settle_side(bool accepted) const {
  if (options_.side == nullptr) return;
  if (accepted) {
    options_.side->commit();
  } else {
    options_.side->discard();
  }
}

void Session::start() {
  try {
    run_ = std::make_unique<Run>(build(load_(), nullptr), options_, clock_, sink_);
    ++starts_;
    show(run_.get());
    run_->start();
  } catch (...) {
    settle_side(false);
    show(nullptr);
    run_ = nullptr;
    throw;
  }
  settle_side(true);
}

bool Session::reload() {
  const base::TimePoint begun = clock_.now();
  ReloadLine line;
  try {
    std::unique_ptr<Parts> next = build(load_(), run_.get());
    line.changed = next->changed;
    const bool other_way = next->way_changed;
    if (!next->changed.empty()) {
      // Frames go the new way behind those that go the old one: nothing is touched while one of them hangs.
      const std::vector<std::string> hanging = run_->pipeline().hanging(options_.reload_patience);
      if (!hanging.empty()) throw Error(ErrorKind::kPlugin, fmt::format("{}", fmt::join(hanging, "\n")));
      run_->change_to(std::move(next));
      ++starts_;
    }
    settle_side(true);
    if (other_way) line.start = run_->parts().start_line();
    base::log().info("reloaded: {}",
                     line.changed.empty() ? "nothing has changed" : fmt::format("{}", fmt::join(line.changed, ", ")));
  } catch (const std::exception& error) {
    settle_side(false);
    std::istringstream lines(error.what());
    for (std::string one; std::getline(lines, one);) line.errors.push_back(one);
    if (line.errors.empty()) line.errors.emplace_back("no reason was given");
    base::log().error("reload refused, the old configuration runs on:{}{}", line.errors.size() == 1 ? ' ' : '\n',
                      error.what());
  }
  {
    const base::MutexLock lock(mutex_);
    refused_ = line.errors.empty() ? "" : line.errors.front();
  }
  line.config_sha256 = config::effective_sha256(run_->parts().config);
  line.duration = clock_.now() - begun;
  run_->reporter().reloaded(line);
  return line.errors.empty();
}

void Session::reopen_files() {
  const std::vector<std::string> problems = run_->parts().plugins->reopen();
  for (const std::string& problem : problems) base::log().error("{}", problem);
  if (problems.empty()) base::log().info("files opened anew");
}

EndReason Session::wait(base::TimePoint deadline) { return run_->wait(deadline); }

void Session::request_end() {
  const base::MutexLock lock(mutex_);
  end_requested_ = true;
  if (shown_ != nullptr) shown_->pipeline().request_end();
}

void Session::forget_request() {
  const base::MutexLock lock(mutex_);
  end_requested_ = false;
  if (shown_ != nullptr) shown_->pipeline().forget_request();
}

int Session::stop(EndReason why) {
  if (options_.draining) options_.draining(true);
  const int exit_code = run_->stop(why, options_.plugin_patience);
  hangs_ = run_->hangs();
  if (options_.draining) options_.draining(false);
  show(nullptr);
  if (hangs_) left_behind_ = std::move(run_);
  run_ = nullptr;
  return exit_code;
}

std::string Session::stuck_line() const {
  const base::MutexLock lock(mutex_);
  return shown_ == nullptr ? "nothing runs" : shown_->stuck_line();
}

std::string Session::status_line() const {
  const base::MutexLock lock(mutex_);
  if (shown_ == nullptr) return "nothing runs";
  return shown_->status_line() +
         (refused_.empty() ? "" : "; the last reload was refused: " + base::without_secrets(refused_));
}

std::optional<Snapshot> Session::snapshot() const {
  const base::MutexLock lock(mutex_);
  if (shown_ == nullptr) return std::nullopt;
  return shown_->snapshot();
}

std::optional<capture::CameraIndex> Session::find_camera(std::string_view name) const {
  const base::MutexLock lock(mutex_);
  return shown_ == nullptr ? std::nullopt : shown_->pipeline().find_camera(name);
}

Progress Session::progress() const {
  const base::MutexLock lock(mutex_);
  return shown_ == nullptr ? Progress{} : shown_->progress();
}

}  // namespace camd::pipeline
