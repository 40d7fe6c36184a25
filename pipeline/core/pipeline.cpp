// Starting and stopping, what ends a run, and what can be asked.
#include "pipeline/core/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.hpp"
#include "pipeline/core/pipeline_parts.hpp"

namespace camd::pipeline {
namespace {

using base::ErrorKind;
using base::MutexLock;
using base::Status;
using capture::CameraIndex;
using capture::SourceState;

// How often it is looked whether a device is lost that no frame tells of.
constexpr base::Duration kLookAtDevices = std::chrono::milliseconds(200);

bool is_final(SourceState state) noexcept { return state == SourceState::kEnded || state == SourceState::kFailed; }

DropReason reason_of(capture::RingDrop why) noexcept {
  switch (why) {
    case capture::RingDrop::kSuperseded: return DropReason::kSuperseded;
    case capture::RingDrop::kNotFilled: return DropReason::kSourceError;
    case capture::RingDrop::kClosed: return DropReason::kShutdown;
    case capture::RingDrop::kMoved: return DropReason::kDeviceError;
    case capture::RingDrop::kGated: return DropReason::kGated;
  }
  return DropReason::kShutdown;
}

// So that a camera that is away is told of without metrics too. Sources report an outcome once, however often they try.
void log_change(const std::string& camera, SourceState before, SourceState now, const std::string& reason) {
  const bool was_away =
      before == SourceState::kStarved || before == SourceState::kStalled || before == SourceState::kReconnecting;
  switch (now) {
    case SourceState::kStarved:
    case SourceState::kStalled:
    case SourceState::kReconnecting: base::log().warn("camera {}: {}: {}", camera, to_string(now), reason); break;
    case SourceState::kFailed: base::log().error("camera {}: failed: {}", camera, reason); break;
    case SourceState::kRunning:
      if (was_away) base::log().info("camera {}: running again", camera);
      break;
    case SourceState::kStarting:
    case SourceState::kEnded: break;
  }
}

}  // namespace

std::string_view to_string(PipelineState state) noexcept {
  switch (state) {
    case PipelineState::kIdle: return "Idle";
    case PipelineState::kStarting: return "Starting";
    case PipelineState::kRunning: return "Running";
    case PipelineState::kDraining: return "Draining";
    case PipelineState::kStopped: return "Stopped";
    case PipelineState::kFailed: return "Failed";
  }
  return "?";
}

void Pipeline::Camera::dropped(CameraIndex camera, capture::RingDrop why) noexcept {
  pipeline.ledger_.dropped(camera, reason_of(why));
}

capture::FrameFates Pipeline::Camera::fates(CameraIndex /*camera*/) const noexcept {
  const Totals totals = pipeline.ledger_.totals(index);
  const auto dropped = [&](DropReason why) { return totals.dropped[static_cast<std::size_t>(why)]; };
  return {totals.captured,
          totals.delivered,
          dropped(DropReason::kSuperseded),
          dropped(DropReason::kTooOld),
          dropped(DropReason::kSourceError),
          dropped(DropReason::kDeviceError),
          dropped(DropReason::kPluginError),
          dropped(DropReason::kGated)};
}

Pipeline::Pipeline(const std::vector<LaneSpec>& lanes, PostprocessorChain& postprocessors, const base::Clock& clock,
                   std::vector<CameraSpec> cameras, const PipelineOptions& options, PipelineListener* listener,
                   FrameTap* tap)
    : clock_(clock),
      listener_(listener),
      tap_(tap),
      ledger_(cameras.size()),
      metrics_(cameras.size()),
      sights_(cameras.size()) {
  PipelineChange all{lanes, postprocessors, options, {}, {}, {}};
  for (CameraSpec& spec : cameras)
    all.cameras.push_back({static_cast<CameraIndex>(all.cameras.size()), std::move(spec)});
  first_ = std::make_unique<Next>(build(all));
  // Its cameras can be asked for from now on.
  for (const auto& camera : first_->cameras) take_slot(*camera);
}

Pipeline::~Pipeline() {
  stop(false);
  for (Crew* const crew : lanes_) {
    for (std::thread& worker : crew->workers) {
      if (worker.joinable()) worker.join();
    }
  }
  const MutexLock lock(mutex_);
  crews_.clear();
}

void Pipeline::set_frame_limit(std::uint64_t delivered) { frame_limit_ = delivered; }

// ---- Set-up

// The camera can be asked for, and is counted among those that live.
void Pipeline::take_slot(Camera& camera) {
  const MutexLock lock(mutex_);
  if (slots_.size() <= camera.index) slots_.resize(camera.index + 1);
  Slot& slot = slots_[camera.index];
  if (slot.name.empty() || is_final(slot.status.state)) ++live_sources_;
  slot.show(camera.source.get());
  if (slot.name != camera.spec.name) sights_.begin(camera.index);
  slot.name = camera.spec.name;
  slot.status = {};
  slot.clock = {};
}

// Whose clock can be asked for. It lives until another one is shown, or nobody has the slot. The one before may be
// gone.
void Pipeline::show_source(CameraIndex index, const capture::FrameSource* source) {
  const MutexLock lock(mutex_);
  slots_[index].source = source;
}

void Pipeline::leave_slot(CameraIndex index) {
  const MutexLock lock(mutex_);
  Slot& slot = slots_[index];
  if (!slot.name.empty() && !is_final(slot.status.state)) --live_sources_;
  slot = {};
  changed_.notify_all();
}

void Pipeline::start() {
  if (state() != PipelineState::kIdle) {
    throw base::Error(ErrorKind::kState, fmt::format("in state {}, start() needs state Idle", to_string(state())));
  }
  state_ = PipelineState::kStarting;
  move_to(std::move(*first_));
  first_ = nullptr;
  state_ = PipelineState::kRunning;
  try {
    for (auto& camera : cameras_) {
      camera->source = camera->spec.make_source(camera->index, *camera->ring, *camera);
      show_source(camera->index, camera->source.get());
    }
    for (auto& camera : cameras_) camera->source->start();
  } catch (...) {
    stop(false);
    state_ = PipelineState::kFailed;
    throw;
  }
}

// The frames that are in a plug-in at this moment. Where there are more than one, the others may wait for the first.
std::vector<Pipeline::Inside> Pipeline::inside_plugins() const {
  std::vector<Inside> all;
  for (Crew* const crew : lanes_) {
    for (const Camera* camera : crew->cameras) {
      if (camera == nullptr) continue;
      const std::optional<int> frame = crew->lane.jobs().postprocessing(camera->index);
      if (!frame) continue;
      const std::string_view plugin = crew->lane.frame(*frame).postprocessing->inside();
      if (!plugin.empty()) all.push_back({camera->index, std::string(plugin)});
    }
  }
  return all;
}

std::vector<std::string> Pipeline::hanging(base::Duration patience) {
  // Frames that have left the plug-ins, one way or the other.
  const auto out = [this](CameraIndex camera) {
    const Totals totals = ledger_.totals(camera);
    return totals.delivered + totals.dropped[static_cast<std::size_t>(DropReason::kPluginError)];
  };
  std::vector<std::pair<Inside, std::uint64_t>> waited_for;
  for (Crew* const crew : lanes_) crew->lane.jobs().watch(&job_done_);
  for (Inside& inside : inside_plugins()) {
    const std::uint64_t before = out(inside.camera);
    waited_for.emplace_back(std::move(inside), before);
  }
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    std::erase_if(waited_for, [&](const auto& one) { return out(one.first.camera) != one.second; });
    const base::Duration left = deadline - std::chrono::steady_clock::now();
    if (waited_for.empty() || left <= base::Duration::zero()) break;
    (void)job_done_.try_acquire_for(left);
  }
  for (Crew* const crew : lanes_) crew->lane.jobs().watch(nullptr);
  std::vector<std::string> lines;
  for (const auto& [inside, before] : waited_for) {
    lines.push_back(fmt::format("{}: has not returned from process() with a frame of camera {}", inside.plugin,
                                cameras_[inside.camera]->spec.name));
  }
  return lines;
}

// Until the crews' jobs are done. False: what hangs is named and left behind.
bool Pipeline::drain(base::Duration patience) {
  base::Duration without_progress{};
  const auto done = [&] {
    return std::all_of(lanes_.begin(), lanes_.end(), [](Crew* crew) { return crew->lane.jobs().done(); });
  };
  for (;;) {
    settle(base::Duration::zero());
    if (done()) break;
    if (job_done_.try_acquire_for(patience)) {
      without_progress = {};
      continue;
    }
    without_progress += patience;
    const std::vector<Inside> inside = inside_plugins();
    if (inside.empty() && without_progress < kDevicePatience) continue;
    std::vector<CameraIndex> failed;
    for (const Inside& one : inside) {
      base::log().error("camera {}: {}: hangs in process() and is left behind", cameras_[one.camera]->spec.name,
                        one.plugin);
      failed.push_back(one.camera);
    }
    if (inside.empty()) base::log().error("the device hangs and is left behind");
    ledger_.seal(failed);
    return false;
  }
  for (Crew* const crew : lanes_) {
    for (std::thread& worker : crew->workers) worker.join();
  }
  return true;
}

bool Pipeline::stop(bool deliver_ready, base::Duration patience, base::Duration destroy_patience) {
  if (state() != PipelineState::kRunning) return true;
  state_ = PipelineState::kDraining;
  std::vector<CameraIndex> slots;
  for (const auto& camera : cameras_) {
    if (camera) slots.push_back(camera->index);
  }
  for (Crew* const crew : lanes_) {
    crew->lane.jobs().watch(&job_done_);
    crew->lane.jobs().hold(false);  // of a lost device: what is left there is accounted for there
  }
  close(slots, deliver_ready);
  for (Crew* const crew : lanes_) crew->lane.jobs().drain();
  const bool ended = drain(patience);
  const auto deadline = std::chrono::steady_clock::now() + destroy_patience;
  for (const CameraIndex slot : slots) {
    {
      const MutexLock lock(mutex_);
      slots_[slot].show(nullptr);
    }
    keeps_sources_ = keeps_sources_ || std::chrono::steady_clock::now() >= deadline;
    if (!keeps_sources_) cameras_[slot]->source.reset();
  }
  state_ = PipelineState::kStopped;
  changed();
  return ended;
}

// ---- What ends a run

void Pipeline::changed() {
  MutexLock lock(mutex_);
  changed_.notify_all();
}

// A frame was closed: that matters to wait_for_end() only when the end is near.
void Pipeline::closed_one() {
  const bool enough = frame_limit_ != 0 && ledger_.totals().delivered >= frame_limit_;
  if (enough || live_sources_ == 0) changed();
}

void Pipeline::request_end() {
  MutexLock lock(mutex_);
  end_requested_ = true;
  changed_.notify_all();
}

void Pipeline::forget_request() {
  MutexLock lock(mutex_);
  end_requested_ = false;
}

EndReason Pipeline::wait_for_end(base::TimePoint deadline) {
  for (;;) {
    look_after_lanes();
    MutexLock lock(mutex_);
    const auto lost = [](const Crew* crew) { return crew->lost(); };
    if (!lanes_.empty() && std::all_of(lanes_.begin(), lanes_.end(), lost)) return EndReason::kDeviceLost;
    if (end_requested_) return EndReason::kRequested;
    const Totals totals = ledger_.totals();
    if (frame_limit_ != 0 && totals.delivered >= frame_limit_) return EndReason::kFrameLimit;
    const auto all_are = [this](auto&& state_is) CAMD_REQUIRES(mutex_) {
      return std::all_of(slots_.begin(), slots_.end(),
                         [&](const Slot& slot) { return slot.name.empty() || state_is(slot.status.state); });
    };
    // A shard may have no camera yet; a reload brings them.
    const bool any = std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.name.empty(); });
    if (any && all_are(is_final) && totals.in_flight == 0) {
      const bool all_failed = all_are([](SourceState state) { return state == SourceState::kFailed; });
      return all_failed ? EndReason::kSourcesFailed : EndReason::kSourcesEnded;
    }
    if (clock_.now() >= deadline) return EndReason::kTimeout;
    const bool to_leave =
        std::any_of(lanes_.begin(), lanes_.end(), [&](const Crew* crew) { return lost(crew) && !crew->left; });
    if (!to_leave) (void)clock_.wait_until(changed_, mutex_, std::min(deadline, clock_.now() + kLookAtDevices));
  }
}

std::vector<CameraView> Pipeline::cameras() const {
  const MutexLock lock(mutex_);
  std::vector<CameraView> all;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].name.empty()) all.push_back({static_cast<CameraIndex>(i), slots_[i].name});
  }
  return all;
}

std::optional<CameraIndex> Pipeline::find_camera(std::string_view name) const {
  const MutexLock lock(mutex_);
  const auto found = std::find_if(slots_.begin(), slots_.end(), [name](const Slot& slot) { return slot.name == name; });
  if (name.empty() || found == slots_.end()) return std::nullopt;
  return static_cast<CameraIndex>(found - slots_.begin());
}

CameraStatus Pipeline::camera_status(CameraIndex camera) const {
  MutexLock lock(mutex_);
  return slots_[camera].status;
}

capture::DecoderStatus Pipeline::camera_decoder(CameraIndex index) const {
  const MutexLock lock(mutex_);
  const Slot& slot = slots_[index];
  return slot.source != nullptr ? slot.source->decoder() : slot.decoder;
}

capture::ClockStatus Pipeline::camera_clock(CameraIndex index) const {
  const MutexLock lock(mutex_);
  const Slot& slot = slots_[index];
  return slot.source != nullptr ? slot.source->clock() : slot.clock;
}

std::uint64_t Pipeline::camera_copied_bytes(CameraIndex index) const {
  const MutexLock lock(mutex_);
  const Slot& slot = slots_[index];
  return slot.copied_bytes + (slot.source != nullptr ? slot.source->copied_bytes() : 0);
}

capture::UpstreamLosses Pipeline::camera_losses(CameraIndex index) const {
  const MutexLock lock(mutex_);
  const Slot& slot = slots_[index];
  capture::UpstreamLosses all = slot.losses;
  if (slot.source != nullptr) all += slot.source->losses();
  return all;
}

Status Pipeline::device_status() const {
  const MutexLock lock(mutex_);
  Status last;
  for (const auto& [crew, view] : shown_lanes_) {
    last = crew->spec.device.status();
    if (last.ok()) break;
  }
  return last;
}

void Pipeline::state_changed(const Camera& camera, SourceState state, const std::string& reason) {
  SourceState before{};
  {
    MutexLock lock(mutex_);
    CameraStatus& status = slots_[camera.index].status;
    before = status.state;
    if (is_final(state) && !is_final(before)) --live_sources_;
    if (is_final(before) && !is_final(state)) ++live_sources_;  // opened anew on another device
    status = {state, reason};
    changed_.notify_all();
  }
  log_change(camera.spec.name, before, state, reason);
  if (listener_ != nullptr) listener_->camera_changed(camera.index, state, reason);
}

}  // namespace camd::pipeline
