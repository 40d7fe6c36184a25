// What a reload builds beside what runs, and how it takes over.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

#include "base/log.hpp"
#include "base/thread.hpp"
#include "pipeline/core/pipeline_parts.hpp"
#include "pipeline/core/placement.hpp"

namespace camd::pipeline {
namespace {

using base::ErrorKind;
using base::MutexLock;
using capture::SourceState;

// The most frames of a camera between dispatch and the end of postprocessing.
int limit_of(const CameraSpec& camera, int device_depth) {
  return camera.lossless ? device_depth + 1 : std::max(2, device_depth);
}

// A configuration's most slots, and those that plug-ins may hold.
constexpr int kMostRingSlots = 96;

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

// Rings, sources and lanes with their workers for all cameras that there will be. Nothing that runs hears of it.
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
  for (const LaneSpec& spec : change.lanes) {
    LaneOptions of_lane;
    of_lane.path = spec.path;
    of_lane.adopted = false;
    of_lane.device_depth = spec.device_depth > 0 ? spec.device_depth : spec.device.info().default_depth;
    for (const Camera* camera : all) {
      of_lane.limits.push_back(camera == nullptr ? 0 : limit_of(camera->spec, of_lane.device_depth));
    }
    Crew& crew = *next.crews.emplace_back(std::make_unique<Crew>(spec, change, clock_, of_lane));
    // A slot whose picture is held until delivery is not there for capture: rings grow by as many.
    for (const int limit : of_lane.limits) {
      crew.ring_slots.push_back(change.options.slots + (crew.lane.holds_pictures() ? limit : 0));
    }
    crew.cameras = all;
  }
  place_cameras(next);
  for (const auto& camera : next.cameras) {
    if (!camera) continue;
    const Crew& crew = *next.placed[camera->index];
    capture::FrameRing::Options ring;
    ring.camera = camera->index;
    ring.slots = crew.ring_slots[camera->index];
    ring.most_slots = kMostRingSlots;
    ring.policy = camera->lossless ? capture::RingPolicy::kLossless : capture::RingPolicy::kNewestWins;
    ring.gate = camera->gate.get();
    ring.memory = picture_memory(crew.spec.path.transfer);
    ring.shared = crew.postprocessors.needs().picture_memory;
    camera->ring = std::make_unique<capture::FrameRing>(crew.spec.device, *camera, ring);
  }
  ledger_.grow(all.size());
  metrics_.grow(all.size());
  sights_.grow(all.size());
  if (tap_ != nullptr) tap_->make_room(all.size());
  for (const auto& crew : next.crews) crew->lane.warm(layouts_of(all));
  return next;
}

// Cameras that stay keep the lane of the same name, the others go where the load is least.
void Pipeline::place_cameras(Next& next) const {
  std::vector<LaneLoad> loads;
  for (const auto& crew : next.crews) {
    const auto same =
        std::find_if(lanes_.begin(), lanes_.end(), [&](const Crew* one) { return one->spec.name == crew->spec.name; });
    const bool runs = same != lanes_.end() && (*same)->seconds_per_frame > 0;
    if (runs) crew->seconds_per_frame = (*same)->seconds_per_frame;
    if (!runs && crew->spec.frames_per_second > 0) crew->seconds_per_frame = 1 / crew->spec.frames_per_second;
    loads.push_back({crew->seconds_per_frame, crew->spec.device.status().ok()});
  }
  // Where all are lost, the cameras' frames are accounted for by one of them.
  if (std::none_of(loads.begin(), loads.end(), [](const LaneLoad& load) { return load.usable; })) {
    loads.front().usable = true;
  }
  std::vector<CameraLoad> cameras;
  next.placed.assign(next.crews.front()->cameras.size(), nullptr);
  std::vector<Camera*> others;
  for (Camera* const camera : next.crews.front()->cameras) {
    if (camera == nullptr) continue;
    const Crew* const crew = camera->crew.load();
    const auto lane = std::find_if(next.crews.begin(), next.crews.end(), [crew](const auto& one) {
      return crew != nullptr && one->spec.name == crew->spec.name;
    });
    const auto index = static_cast<std::size_t>(lane - next.crews.begin());
    if (lane == next.crews.end() || !loads[index].usable) {
      others.push_back(camera);
      continue;
    }
    next.placed[camera->index] = lane->get();
    cameras.push_back({index, camera->rate});
  }
  for (const Camera* const camera : others) {
    const std::size_t index = place(loads, cameras, camera->rate);
    next.placed[camera->index] = next.crews[index].get();
    cameras.push_back({index, camera->rate});
  }
}

// What runs, to be changed. Lanes whose device is lost are left out, unless there is no other.
PipelineChange Pipeline::as_it_is() const {
  PipelineChange change{{}, lanes_.front()->postprocessors, lanes_.front()->options, {}, {}, {}};
  for (const Crew* crew : lanes_) {
    if (!crew->lost()) change.lanes.push_back(crew->spec);
  }
  if (change.lanes.empty()) change.lanes.push_back(lanes_.front()->spec);
  return change;
}

void Pipeline::reload(const PipelineChange& change) {
  if (state() != PipelineState::kRunning) {
    throw base::Error(ErrorKind::kState, fmt::format("in state {}, reload() needs state Running", to_string(state())));
  }
  settle(base::Duration::max());
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
  PipelineChange change = as_it_is();
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

// Every camera belongs to its new crew from its next frame on. Then the old crews finish what they have, and go.
void Pipeline::move_to(Next next) {
  std::vector<Crew*> fresh;
  for (const auto& crew : next.crews) fresh.push_back(crew.get());
  const std::vector<Crew*> old = std::exchange(lanes_, fresh);
  // Until the next look at the load a device is told to do what it did at the last one.
  for (Crew* const crew : fresh) {
    const auto before =
        std::find_if(old.begin(), old.end(), [crew](const Crew* one) { return one->spec.name == crew->spec.name; });
    if (before == old.end()) continue;
    crew->busy = (*before)->busy;
    crew->completed_rate = (*before)->completed_rate;
  }
  {
    const MutexLock lock(mutex_);
    for (auto& crew : next.crews) crews_.push_back(std::move(crew));
  }
  show_lanes();
  for (Crew* const crew : fresh) {
    for (std::size_t i = 0; i < crew->lane.jobs().most_workers(); ++i) {
      crew->workers.emplace_back([this, crew, number = workers_made_++] {
        base::name_this_thread(fmt::format("worker-{}", number));
        work_loop(*crew);
      });
    }
  }
  for (Crew* const crew : old) {
    crew->lane.jobs().watch(&job_done_);
    crew->lane.jobs().hold(false);  // of a lost device: what is left there is accounted for there
  }
  for (Camera* const camera : fresh.front()->cameras) {
    if (camera == nullptr) continue;
    const CameraIndex slot = camera->index;
    const bool new_here = camera->crew.load() == nullptr;
    hand_over(*camera, *next.placed[slot], false);
    // Of the camera that had the slot before, too.
    if (new_here && slot < cameras_.size() && cameras_[slot]) moving_.back().from = cameras_[slot]->crew.load();
  }
  settle(base::Duration::max());
  for (Crew* const crew : old) crew->lane.jobs().drain();
  for (Crew* const crew : old) {
    for (std::thread& worker : crew->workers) worker.join();
    for (const Camera* camera : fresh.front()->cameras) {
      // A source that told the old crew of a frame is about to look who works now.
      while (camera != nullptr && camera->inside.load() == crew) std::this_thread::yield();
    }
  }
  if (!old.empty()) {
    std::vector<std::unique_ptr<Crew>> gone;
    const MutexLock lock(mutex_);
    const auto first = crews_.end() - static_cast<std::ptrdiff_t>(fresh.size());
    std::move(crews_.begin(), first, std::back_inserter(gone));
    crews_.erase(crews_.begin(), first);
  }
  for (Camera* const camera : fresh.front()->cameras) {
    if (camera != nullptr) camera->ring->set_slots(next.placed[camera->index]->ring_slots[camera->index]);
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
    metrics_.retire(slot);
  }
  looked_ = clock_.now();
  show_lanes();
}

}  // namespace camd::pipeline
