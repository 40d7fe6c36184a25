// Starting and stopping, what ends a run, and the work of each job.
#include "pipeline/core/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.hpp"
#include "base/semaphore.hpp"
#include "base/thread.hpp"

namespace camd::pipeline {
namespace {

using base::ErrorKind;
using base::MutexLock;
using base::Status;
using capture::CameraIndex;
using capture::SourceState;

// The most frames of a camera between dispatch and the end of postprocessing.
int limit_of(const CameraSpec& camera, int device_depth) {
  return camera.lossless ? device_depth + 1 : std::max(2, device_depth);
}

// A configuration's most slots, and those that plug-ins may hold.
constexpr int kMostRingSlots = 96;

bool is_final(SourceState state) noexcept { return state == SourceState::kEnded || state == SourceState::kFailed; }

DropReason reason_of(capture::RingDrop why) noexcept {
  switch (why) {
    case capture::RingDrop::kSuperseded: return DropReason::kSuperseded;
    case capture::RingDrop::kNotFilled: return DropReason::kSourceError;
    case capture::RingDrop::kClosed: return DropReason::kShutdown;
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

// How the pictures of the cameras lie, each layout once. A camera that is new has none yet.
template <class Cameras>
std::vector<base::PictureLayout> layouts_of(const Cameras& cameras) {
  std::vector<base::PictureLayout> layouts;
  for (const auto* camera : cameras) {
    const std::optional<base::PictureLayout> layout = camera ? camera->ring->newest_layout() : std::nullopt;
    if (layout && std::find(layouts.begin(), layouts.end(), *layout) == layouts.end()) layouts.push_back(*layout);
  }
  return layouts;
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

// One camera in its slot. Hears of its ring's frames and its source's states.
struct Pipeline::Camera final : capture::FrameObserver, capture::SourceListener {
  Camera(Pipeline& its_pipeline, CameraSpec its_spec, CameraIndex its_slot)
      : pipeline(its_pipeline), spec(std::move(its_spec)), index(its_slot), lossless(spec.lossless) {}

  // [source]
  void captured(CameraIndex camera) noexcept override { pipeline.ledger_.captured(camera); }
  // In the ring's lock.
  void dropped(CameraIndex camera, capture::RingDrop why) noexcept override {
    pipeline.ledger_.dropped(camera, reason_of(why));
  }
  void ready(CameraIndex /*camera*/) noexcept override { pipeline.frame_ready(*this); }
  void state_changed(CameraIndex /*camera*/, SourceState state, const std::string& reason) noexcept override {
    pipeline.state_changed(*this, state, reason);
  }
  [[nodiscard]] capture::FrameFates fates(CameraIndex /*camera*/) const noexcept override {
    const Totals totals = pipeline.ledger_.totals(index);
    const auto dropped = [&](DropReason why) { return totals.dropped[static_cast<std::size_t>(why)]; };
    return {totals.captured,
            totals.delivered,
            dropped(DropReason::kSuperseded),
            dropped(DropReason::kTooOld),
            dropped(DropReason::kSourceError),
            dropped(DropReason::kDeviceError),
            dropped(DropReason::kPluginError)};
  }

  Pipeline& pipeline;
  const CameraSpec spec;
  const CameraIndex index;
  const bool lossless;
  // Who works on its frames; null: nobody yet. A source that is about to use a crew says so in `inside` first and looks
  // again: whoever has changed `crew` before waits until `inside` is another one, and may then destroy the crew.
  std::atomic<Crew*> crew{nullptr};
  std::atomic<Crew*> inside{nullptr};
  std::unique_ptr<capture::FrameRing> ring;
  std::unique_ptr<capture::FrameSource> source;
  // [post], which is one at a time for each camera.
  bool plugin_failing = false;  // so that only the first of a row of failures is logged
  int mapped_width = 0;         // of the pictures that `map` is for
  int mapped_height = 0;
  infer::PictureTransform map;
};

// A lane with the workers and the cameras that it works for. Its cameras never change: others need another crew.
struct Pipeline::Crew {
  Crew(const PipelineChange& change, const base::Clock& clock, const LaneOptions& of_lane)
      : device(change.device),
        engine(change.engine),
        postprocessors(change.postprocessors),
        options(change.options),
        lane(change.device, change.engine, change.postprocessors, clock, of_lane) {}

  device::Device& device;
  infer::Engine& engine;
  PostprocessorChain& postprocessors;
  const PipelineOptions options;
  base::Semaphore job_done;  // where somebody watches the jobs
  Lane lane;
  std::vector<Camera*> cameras;  // by slot; null: none
  std::vector<int> ring_slots;   // by slot
  std::vector<std::thread> workers;
};

// What a reload has built beside what runs.
struct Pipeline::Next {
  std::vector<std::unique_ptr<Camera>> cameras;  // by slot; null: nobody new
  std::vector<CameraIndex> removed;
  std::unique_ptr<Crew> crew;
};

Pipeline::Pipeline(device::Device& device, infer::Engine& engine, PostprocessorChain& postprocessors,
                   const base::Clock& clock, std::vector<CameraSpec> cameras, const PipelineOptions& options,
                   PipelineListener* listener)
    : clock_(clock), listener_(listener), ledger_(cameras.size()), metrics_(cameras.size()) {
  PipelineChange all{device, engine, postprocessors, options, {}, {}, {}};
  for (CameraSpec& spec : cameras)
    all.cameras.push_back({static_cast<CameraIndex>(all.cameras.size()), std::move(spec)});
  first_ = std::make_unique<Next>(build(all));
  // Its cameras can be asked for from now on.
  for (const auto& camera : first_->cameras) take_slot(*camera);
}

Pipeline::~Pipeline() {
  stop(false);
  if (crew_ != nullptr) {
    for (std::thread& worker : crew_->workers) {
      if (worker.joinable()) worker.join();
    }
  }
  const MutexLock lock(mutex_);
  crews_.clear();
}

void Pipeline::set_frame_limit(std::uint64_t delivered) { frame_limit_ = delivered; }

// ---- Set-up

// Rings, sources and a lane with its workers for all cameras that there will be. Nothing that runs hears of it.
Pipeline::Next Pipeline::build(const PipelineChange& change) {
  Next next;
  next.removed = change.removed;
  next.cameras.resize(cameras_.size());
  for (const PipelineChange::Camera& wanted : change.cameras) {
    if (wanted.slot >= kMostSlots) {
      throw base::Error(ErrorKind::kInternal, fmt::format("a pipeline has at most {} slots for cameras", kMostSlots));
    }
    if (next.cameras.size() <= wanted.slot) next.cameras.resize(wanted.slot + 1);
    next.cameras[wanted.slot] = std::make_unique<Camera>(*this, wanted.spec, wanted.slot);
  }
  std::vector<Camera*> all(next.cameras.size(), nullptr);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool removed = std::find(change.removed.begin(), change.removed.end(), i) != change.removed.end();
    all[i] = next.cameras[i] ? next.cameras[i].get() : (i < cameras_.size() && !removed ? cameras_[i].get() : nullptr);
  }
  const PipelineOptions& options = change.options;
  LaneOptions of_lane;
  of_lane.path = options.path;
  of_lane.adopted = false;
  of_lane.device_depth = options.device_depth > 0 ? options.device_depth : change.device.info().default_depth;
  for (const Camera* camera : all) {
    of_lane.limits.push_back(camera == nullptr ? 0 : limit_of(camera->spec, of_lane.device_depth));
  }
  next.crew = std::make_unique<Crew>(change, clock_, of_lane);
  Crew& crew = *next.crew;
  // A slot whose picture is held until delivery is not there for capture: rings grow by as many.
  for (const int limit : of_lane.limits) {
    crew.ring_slots.push_back(options.slots + (crew.lane.holds_pictures() ? limit : 0));
  }
  crew.cameras = std::move(all);
  for (const auto& camera : next.cameras) {
    if (!camera) continue;
    capture::FrameRing::Options ring;
    ring.camera = camera->index;
    ring.slots = crew.ring_slots[camera->index];
    ring.most_slots = kMostRingSlots;
    ring.policy = camera->lossless ? capture::RingPolicy::kLossless : capture::RingPolicy::kNewestWins;
    ring.memory = picture_memory(options.path.transfer);
    camera->ring = std::make_unique<capture::FrameRing>(change.device, *camera, ring);
  }
  ledger_.grow(crew.cameras.size());
  metrics_.grow(crew.cameras.size());
  crew.lane.warm(layouts_of(crew.cameras));
  return next;
}

// The camera can be asked for, and is counted among those that live.
void Pipeline::take_slot(Camera& camera) {
  const MutexLock lock(mutex_);
  if (slots_.size() <= camera.index) slots_.resize(camera.index + 1);
  Slot& slot = slots_[camera.index];
  if (slot.name.empty() || is_final(slot.status.state)) ++live_sources_;
  slot.show(camera.source.get());
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

void Pipeline::reload(const PipelineChange& change) {
  if (state() != PipelineState::kRunning) {
    throw base::Error(ErrorKind::kState, fmt::format("in state {}, reload() needs state Running", to_string(state())));
  }
  Next next = build(change);
  std::vector<CameraIndex> added;
  std::vector<CameraIndex> altered;
  for (const auto& camera : next.cameras) {
    if (!camera) continue;
    camera->source = camera->spec.make_source(camera->index, *camera->ring, *camera);
    const bool taken = camera->index < cameras_.size() && cameras_[camera->index];
    (taken ? altered : added).push_back(camera->index);
  }
  const auto undo = [&](const std::vector<CameraIndex>& slots) {
    for (const CameraIndex slot : slots) next.cameras[slot]->ring->close(false);
    for (const CameraIndex slot : slots) (void)next.cameras[slot]->source->stop();
  };
  // Who refuses now costs nothing. Nobody takes their frames yet: the newest waits in the ring.
  try {
    for (const CameraIndex slot : added) {
      take_slot(*next.cameras[slot]);
      next.cameras[slot]->source->start();
    }
  } catch (...) {
    undo(added);
    for (const CameraIndex slot : added) {
      leave_slot(slot);
      ledger_.retire(slot);
    }
    throw;
  }
  // Many cameras can be opened only once: what is altered is closed before it is opened as it shall be.
  close(altered, true);
  try {
    for (const CameraIndex slot : altered) {
      next.cameras[slot]->ring->start_at(cameras_[slot]->ring->next_sequence());
      take_slot(*next.cameras[slot]);
      next.cameras[slot]->source->start();
    }
  } catch (...) {
    undo(added);
    undo(altered);
    for (const CameraIndex slot : added) {
      leave_slot(slot);
      ledger_.retire(slot);
    }
    for (const CameraIndex slot : altered) {
      if (const std::uint64_t last = next.cameras[slot]->ring->next_sequence(); last != 0) {
        cameras_[slot]->ring->start_at(last);
      }
    }
    restore(altered);
    throw;
  }
  if (change.accepted) change.accepted();
  close(change.removed, true);
  move_to(std::move(next));
}

// Opens cameras that were closed for a reload once more, as they were.
void Pipeline::restore(const std::vector<CameraIndex>& slots) {
  PipelineChange change{crew_->device, crew_->engine, crew_->postprocessors, crew_->options, {}, {}, {}};
  for (const CameraIndex slot : slots) change.cameras.push_back({slot, cameras_[slot]->spec});
  try {
    Next next = build(change);
    for (const CameraIndex slot : slots) {
      Camera& camera = *next.cameras[slot];
      camera.ring->start_at(cameras_[slot]->ring->next_sequence());
      take_slot(camera);
      try {
        camera.source = camera.spec.make_source(slot, *camera.ring, camera);
        show_source(slot, camera.source.get());
        camera.source->start();
      } catch (const std::exception& error) {
        state_changed(camera, SourceState::kFailed, error.what());
      }
    }
    move_to(std::move(next));
  } catch (const std::exception& error) {
    for (const CameraIndex slot : slots) {
      show_source(slot, nullptr);
      state_changed(*cameras_[slot], SourceState::kFailed, error.what());
    }
  }
}

// Ends the cameras' sources, all at once: each may need all of the patience there is. A lossless one may be waiting for
// a slot: closing the ring first lets it go.
void Pipeline::close(const std::vector<CameraIndex>& slots, bool deliver_ready) {
  for (const CameraIndex slot : slots) cameras_[slot]->ring->close(deliver_ready);
  for (const CameraIndex slot : slots) {
    if (cameras_[slot]->source) cameras_[slot]->source->request_stop();
  }
  const auto deadline = std::chrono::steady_clock::now() + capture::kStopPatience;
  for (const CameraIndex slot : slots) {
    const auto left = deadline - std::chrono::steady_clock::now();
    const Camera& camera = *cameras_[slot];
    if (camera.source && !camera.source->join(std::max<base::Duration>(left, base::Duration::zero()))) {
      base::log().error("camera {}: its source hangs and is left behind", camera.spec.name);
    }
  }
}

// Every camera of the new crew belongs to it from its next frame on. Then the old crew finishes what it has, and goes.
void Pipeline::move_to(Next next) {
  Crew& fresh = *next.crew;
  Crew* const old = std::exchange(crew_, &fresh);
  {
    const MutexLock lock(mutex_);
    crews_.push_back(std::move(next.crew));
  }
  for (std::size_t i = 0; i < fresh.lane.jobs().most_workers(); ++i) {
    fresh.workers.emplace_back([this, &fresh, number = workers_made_++] {
      base::name_this_thread(fmt::format("worker-{}", number));
      work_loop(fresh);
    });
  }
  if (old != nullptr) old->lane.jobs().watch(&old->job_done);
  std::vector<CameraIndex> held;
  for (Camera* const camera : fresh.cameras) {
    if (camera == nullptr) continue;
    const CameraIndex slot = camera->index;
    const bool stays = camera->crew.exchange(&fresh) != nullptr;
    if (stays) {
      old->lane.jobs().leave(slot);
      // One at a time asks the ring for its newest frame.
      while (old->lane.jobs().dispatching(slot)) old->job_done.acquire();
      camera->ring->set_slots(std::max(camera->ring->slots(), fresh.ring_slots[slot]));
    }
    fresh.lane.jobs().adopt(slot);
    held.push_back(slot);
  }
  // The old crew's frames of a camera come first.
  while (!held.empty()) {
    const auto waits = std::partition(held.begin(), held.end(), [old](CameraIndex slot) {
      return old != nullptr && slot < old->cameras.size() && old->lane.jobs().busy(slot);
    });
    std::for_each(waits, held.end(), [&fresh](CameraIndex slot) {
      fresh.cameras[slot]->mapped_width = 0;  // the network's input may be another
      fresh.lane.jobs().release(slot);
    });
    held.erase(waits, held.end());
    if (!held.empty()) old->job_done.acquire();
  }
  if (old != nullptr) {
    old->lane.jobs().drain();
    for (std::thread& worker : old->workers) worker.join();
    for (const Camera* camera : fresh.cameras) {
      // A source that told the old crew of a frame is about to look who works now.
      while (camera != nullptr && camera->inside.load() == old) std::this_thread::yield();
    }
    std::unique_ptr<Crew> gone;
    const MutexLock lock(mutex_);
    gone = std::move(crews_.front());
    crews_.erase(crews_.begin());
  }
  for (Camera* const camera : fresh.cameras) {
    if (camera != nullptr) camera->ring->set_slots(fresh.ring_slots[camera->index]);
  }
  // Nobody holds their frames any more.
  if (cameras_.size() < next.cameras.size()) cameras_.resize(next.cameras.size());
  for (auto& camera : next.cameras) {
    if (camera) cameras_[camera->index] = std::move(camera);
  }
  for (const CameraIndex slot : next.removed) {
    leave_slot(slot);
    if (listener_ != nullptr) listener_->camera_removed(cameras_[slot]->spec.name, ledger_.totals(slot));
    cameras_[slot] = nullptr;
    ledger_.retire(slot);
  }
}

// The frames that are in a plug-in at this moment. Where there are more than one, the others may wait for the first.
std::vector<Pipeline::Inside> Pipeline::inside_plugins() const {
  std::vector<Inside> all;
  for (const Camera* camera : crew_->cameras) {
    if (camera == nullptr) continue;
    const std::optional<int> frame = crew_->lane.jobs().postprocessing(camera->index);
    if (!frame) continue;
    const std::string_view plugin = crew_->lane.frame(*frame).postprocessing->inside();
    if (!plugin.empty()) all.push_back({camera->index, std::string(plugin)});
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
  JobQueue& jobs = crew_->lane.jobs();
  jobs.watch(&crew_->job_done);
  for (Inside& inside : inside_plugins()) {
    const std::uint64_t before = out(inside.camera);
    waited_for.emplace_back(std::move(inside), before);
  }
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    std::erase_if(waited_for, [&](const auto& one) { return out(one.first.camera) != one.second; });
    const base::Duration left = deadline - std::chrono::steady_clock::now();
    if (waited_for.empty() || left <= base::Duration::zero()) break;
    (void)crew_->job_done.try_acquire_for(left);
  }
  jobs.watch(nullptr);
  std::vector<std::string> lines;
  for (const auto& [inside, before] : waited_for) {
    lines.push_back(fmt::format("{}: has not returned from process() with a frame of camera {}", inside.plugin,
                                cameras_[inside.camera]->spec.name));
  }
  return lines;
}

// Until the crew's jobs are done. False: what hangs is named and left behind.
bool Pipeline::drain(base::Duration patience) {
  JobQueue& jobs = crew_->lane.jobs();
  base::Duration without_progress{};
  while (!jobs.done()) {
    if (crew_->job_done.try_acquire_for(patience)) {
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
  for (std::thread& worker : crew_->workers) worker.join();
  return true;
}

bool Pipeline::stop(bool deliver_ready, base::Duration patience) {
  if (state() != PipelineState::kRunning) return true;
  state_ = PipelineState::kDraining;
  std::vector<CameraIndex> slots;
  for (const auto& camera : cameras_) {
    if (camera) slots.push_back(camera->index);
  }
  crew_->lane.jobs().watch(&crew_->job_done);
  close(slots, deliver_ready);
  crew_->lane.jobs().drain();
  const bool ended = drain(patience);
  for (const CameraIndex slot : slots) {
    {
      const MutexLock lock(mutex_);
      slots_[slot].show(nullptr);
    }
    cameras_[slot]->source.reset();
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
  MutexLock lock(mutex_);
  for (;;) {
    const bool lost = std::any_of(crews_.begin(), crews_.end(), [](const auto& crew) { return crew->lane.lost(); });
    if (lost) return EndReason::kDeviceLost;
    if (end_requested_) return EndReason::kRequested;
    const Totals totals = ledger_.totals();
    if (frame_limit_ != 0 && totals.delivered >= frame_limit_) return EndReason::kFrameLimit;
    const auto all_are = [this](auto&& state_is) CAMD_REQUIRES(mutex_) {
      return std::all_of(slots_.begin(), slots_.end(),
                         [&](const Slot& slot) { return slot.name.empty() || state_is(slot.status.state); });
    };
    if (all_are(is_final) && totals.in_flight == 0) {
      const bool all_failed = all_are([](SourceState state) { return state == SourceState::kFailed; });
      return all_failed ? EndReason::kSourcesFailed : EndReason::kSourcesEnded;
    }
    if (clock_.now() >= deadline) return EndReason::kTimeout;
    (void)clock_.wait_until(changed_, mutex_, deadline);
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

capture::UpstreamLosses Pipeline::camera_losses(CameraIndex index) const {
  const MutexLock lock(mutex_);
  const Slot& slot = slots_[index];
  capture::UpstreamLosses all = slot.losses;
  if (slot.source != nullptr) all += slot.source->losses();
  return all;
}

Status Pipeline::device_status() const {
  const MutexLock lock(mutex_);
  for (const auto& crew : crews_) {
    if (Status status = crew->device.status(); !status.ok()) return status;
  }
  return {};
}

std::size_t Pipeline::device_memory() const {
  const MutexLock lock(mutex_);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < crews_.size(); ++i) {
    const device::Device& device = crews_[i]->device;
    const bool told = i > 0 && &crews_[i - 1]->device == &device;
    // Host memory is the process's own, which rss_bytes tells.
    if (!told && !device.info().works_in_host_memory) bytes += device.allocated_bytes();
  }
  return bytes;
}

void Pipeline::state_changed(const Camera& camera, SourceState state, const std::string& reason) {
  SourceState before{};
  {
    MutexLock lock(mutex_);
    CameraStatus& status = slots_[camera.index].status;
    before = status.state;
    if (is_final(state) && !is_final(before)) --live_sources_;
    status = {state, reason};
    changed_.notify_all();
  }
  log_change(camera.spec.name, before, state, reason);
  if (listener_ != nullptr) listener_->camera_changed(camera.index, state, reason);
}

// ---- [source]

// The camera may move to another crew at any moment. Whoever has moved it lets the new crew look into the ring once. A
// frame that comes too late for that is told to the new crew by the second turn here.
void Pipeline::frame_ready(Camera& camera) {
  Crew* crew = camera.crew.load();
  while (crew != nullptr) {
    camera.inside.store(crew);
    Crew* now = camera.crew.load();
    if (now == crew) {
      publish(*crew, camera);
      now = camera.crew.load();
      if (now == crew) break;
    }
    crew = now;
  }
  camera.inside.store(nullptr, std::memory_order_release);
}

void Pipeline::publish(Crew& crew, Camera& camera) {
  Lane& lane = crew.lane;
  // A lossless source is in nobody's way but its own: what it makes next matters more than when this one is delivered.
  const bool dispatches = lane.sources_dispatch() && !camera.lossless;
  Job job;
  if (!lane.jobs().publish(camera.index, dispatches, job)) return;
  dispatch(crew, job);
  lane.jobs().finish(job);
}

// ---- Workers

void Pipeline::work_loop(Crew& crew) {
  Lane& lane = crew.lane;
  base::Semaphore wake_up;
  Job job;
  for (;;) {
    switch (lane.jobs().next(wake_up, job)) {
      case JobQueue::Next::kEnd: return;
      case JobQueue::Next::kSleep: wake_up.acquire(); continue;
      case JobQueue::Next::kJob: break;
    }
    InFlight& in_flight = lane.frame(job.frame);
    switch (job.kind) {
      case Job::Kind::kNone: break;
      case Job::Kind::kDispatch: dispatch(crew, job); break;
      case Job::Kind::kComplete: complete(crew, in_flight); break;
      case Job::Kind::kPostprocess:
        postprocess(crew, *crew.cameras[job.camera], in_flight);
        in_flight.lease.release();
        closed_one();
        break;
    }
  }
}

// ---- [dispatch]

void Pipeline::dispatch(Crew& crew, Job& job) {
  Camera& camera = *crew.cameras[job.camera];
  InFlight& in_flight = crew.lane.frame(job.frame);
  job.dispatched = take_frame(crew, camera, in_flight);
  if (job.dispatched) in_flight.status = crew.lane.path().enqueue(in_flight);
  job.more = camera.ring->has_ready();
}

// False: there is no frame, or it is too old.
bool Pipeline::take_frame(Crew& crew, Camera& camera, InFlight& in_flight) {
  std::optional<capture::SlotLease> lease = camera.ring->take();
  if (!lease) return false;
  in_flight.dispatched = clock_.now();
  in_flight.frame = lease->frame();
  if (!camera.lossless && in_flight.dispatched - in_flight.frame.captured > crew.options.max_age) {
    lease->release();
    ledger_.dropped(camera.index, DropReason::kTooOld);
    closed_one();
    return false;
  }
  in_flight.lease = std::move(*lease);
  return true;
}

// ---- [completion]

void Pipeline::complete(Crew& crew, InFlight& in_flight) {
  if (!crew.lane.complete(in_flight)) return;
  base::log().error("device lost: {}", in_flight.status.message());
  if (listener_ != nullptr) listener_->device_lost(crew.device.info().name, in_flight.status.message());
  changed();
}

// ---- [post]

void Pipeline::postprocess(Crew& crew, Camera& camera, InFlight& in_flight) {
  if (!in_flight.status.ok()) {
    // A lost device is reported once, in [completion]; here a single frame could not be run.
    if (!crew.lane.lost())
      base::log().error("camera {}: frame {}: {}", camera.spec.name, in_flight.frame.sequence,
                        in_flight.status.message());
    ledger_.dropped(camera.index, DropReason::kDeviceError);
    return;
  }
  camd_frame frame{};
  camd_picture picture{};
  fill_frame(crew, camera, in_flight, frame, picture);
  camd_results results{sizeof(camd_results), static_cast<std::int32_t>(in_flight.detections.size()), 0,
                       in_flight.detections.data()};
  const Status status = in_flight.postprocessing->process(frame, results);
  if (!status.ok()) {
    if (!std::exchange(camera.plugin_failing, true)) {
      base::log().error("camera {}: frame {}: {} (dropped as plugin_error; further failures in a row are only counted)",
                        camera.spec.name, in_flight.frame.sequence, status.message());
    }
    ledger_.dropped(camera.index, DropReason::kPluginError);
    return;
  }
  if (std::exchange(camera.plugin_failing, false)) {
    base::log().info("camera {}: the plug-ins work again from frame {}", camera.spec.name, in_flight.frame.sequence);
  }
  const base::TimePoint returned = clock_.now();
  StageTimes times{};
  crew.lane.path().stage_times(in_flight, times);
  times[static_cast<std::size_t>(Stage::kPostprocess)] = returned - in_flight.completed;
  times[static_cast<std::size_t>(Stage::kTotal)] = returned - in_flight.frame.captured;
  metrics_.record(camera.index, times, in_flight.h2d_bytes, in_flight.d2h_bytes);
  ledger_.delivered(camera.index);
}

void Pipeline::fill_frame(const Crew& crew, Camera& camera, const InFlight& in_flight, camd_frame& frame,
                          camd_picture& picture) const {
  const capture::Frame& from = in_flight.frame;
  frame.struct_size = sizeof(frame);
  frame.camera = camera.spec.name.c_str();
  frame.camera_index = static_cast<std::int32_t>(camera.index);
  frame.width = from.layout.width;
  frame.height = from.layout.height;
  frame.sequence = from.sequence;
  frame.captured_mono_ns = base::to_ns(from.captured);
  frame.arrived_mono_ns = base::to_ns(from.arrived);
  frame.captured_uncertainty_ns = from.uncertainty.count();
  frame.flags = from.damaged ? std::uint32_t{CAMD_FRAME_DAMAGED} : 0U;
  frame.captured_unix_ns = base::unix_now_ns() - (clock_.now() - from.captured).count();
  if (frame.width != camera.mapped_width || frame.height != camera.mapped_height) {
    const infer::InputOptions& input = crew.lane.engine().input_options();
    camera.map = infer::picture_transform(frame.width, frame.height, input.width, input.height, input.resize);
    camera.mapped_width = frame.width;
    camera.mapped_height = frame.height;
  }
  frame.scale_x = camera.map.scale_x;
  frame.scale_y = camera.map.scale_y;
  frame.offset_x = camera.map.offset_x;
  frame.offset_y = camera.map.offset_y;
  if (!crew.lane.holds_pictures()) return;
  picture.struct_size = sizeof(picture);
  picture.format = static_cast<camd_pixel_format>(from.layout.format);  // same order; tests/pipeline checks it
  picture.bt709 = from.layout.matrix == base::ColorMatrix::kBt709 ? 1 : 0;
  picture.full_range = from.layout.full_range ? 1 : 0;
  picture.plane_count = from.layout.plane_count;
  for (int i = 0; i < from.layout.plane_count; ++i) {
    const base::Plane& plane = from.layout.planes[static_cast<std::size_t>(i)];
    picture.planes[i] = {reinterpret_cast<const std::uint8_t*>(from.pixels.data() + plane.offset_bytes),
                         plane.stride_bytes, plane.width, plane.height};
  }
  frame.picture = &picture;
}

}  // namespace camd::pipeline
