// How cameras move between lanes: where the load is uneven, and where a device is lost.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "pipeline/core/pipeline_parts.hpp"
#include "pipeline/core/placement.hpp"

namespace camd::pipeline {
namespace {

using base::MutexLock;
using capture::CameraIndex;
using capture::SourceState;

// What looking after lanes waits for cameras that move, before it goes on with them at its next look.
constexpr base::Duration kMovePatience = std::chrono::milliseconds(100);
// Cameras that move at one look at the load.
constexpr int kMostMoves = 8;
// Frames that a lane must have completed since the last look, so that their mean says something.
constexpr std::uint64_t kEnoughFrames = 10;

// Half of what was, half of what is: one look shall not move a camera.
double smoothed(double before, double now) { return before > 0 ? (before + now) / 2 : now; }

}  // namespace

// `to` works for the camera from its next frame on, also one that waits in its ring already.
void Pipeline::hand_over(Camera& camera, Crew& to, bool open_anew) {
  Moving& moving = moving_.emplace_back();
  moving.slot = camera.index;
  moving.to = &to;
  moving.from = camera.crew.exchange(&to);
  moving.takes_over = moving.from != nullptr;
  moving.open_anew = open_anew;
  if (moving.takes_over) moving.from->lane.jobs().leave(camera.index);
  const MutexLock lock(mutex_);
  slots_[camera.index].lane = to.spec.name;
}

// True: the camera has arrived.
bool Pipeline::go_on(Moving& moving) {
  Camera& camera = *moving.to->cameras[moving.slot];
  if (!moving.adopted) {
    // One at a time asks the ring for its newest frame.
    if (moving.takes_over && moving.from->lane.jobs().dispatching(moving.slot)) return false;
    camera.ring->move_to(moving.to->spec.device, picture_memory(moving.to->spec.path.transfer),
                         moving.to->postprocessors.needs().picture_memory);
    camera.ring->set_slots(std::max(camera.ring->slots(), moving.to->ring_slots[moving.slot]));
    moving.to->lane.jobs().adopt(moving.slot);
    moving.adopted = true;
    if (moving.open_anew) {
      {
        const MutexLock lock(mutex_);
        slots_[camera.index].show(nullptr);
      }
      camera.source = nullptr;  // before the ring opens: a source that goes closes it
      camera.ring->reopen();
      try {
        camera.source = camera.spec.make_source(camera.index, *camera.ring, camera);
        show_source(camera.index, camera.source.get());
        camera.source->start();
      } catch (const std::exception& error) {
        state_changed(camera, SourceState::kFailed, error.what());
      }
    }
  }
  // The old crew's frames of the slot come first.
  const bool has_any = moving.from != nullptr && moving.slot < moving.from->cameras.size();
  if (has_any && moving.from->lane.jobs().busy(moving.slot)) return false;
  camera.mapped_width = 0;  // the network's input may be another
  moving.to->lane.jobs().release(moving.slot);
  return true;
}

// [blocks] until every camera that moves has arrived, or for `patience` of real time.
void Pipeline::settle(base::Duration patience) {
  for (const Moving& moving : moving_) {
    if (moving.from != nullptr) moving.from->lane.jobs().watch(&job_done_);
  }
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    std::erase_if(moving_, [this](Moving& moving) { return go_on(moving); });
    const base::Duration passed = std::chrono::steady_clock::now() - begin;
    if (moving_.empty() || passed >= patience) return;
    if (patience == base::Duration::max()) {
      job_done_.acquire();
    } else {
      (void)job_done_.try_acquire_for(patience - passed);
    }
  }
}

// While frames go on. Who has not arrived then is looked at again.
void Pipeline::settle_now() {
  settle(kMovePatience);
  if (!moving_.empty()) return;
  for (Crew* const crew : lanes_) crew->lane.jobs().watch(nullptr);
}

void Pipeline::look_after_lanes() {
  if (state() != PipelineState::kRunning) return;
  // Pictures that a lost device should have decoded never come as far as complete(). A frame that is under way does,
  // and nobody may be told before the device has let it go.
  for (Crew* const crew : lanes_) {
    const auto under_way = [&](const auto& camera) {
      return camera && camera->crew.load() == crew && crew->lane.jobs().busy(camera->index);
    };
    if (std::any_of(cameras_.begin(), cameras_.end(), under_way)) continue;
    if (const base::Status status = crew->spec.device.status(); !status.ok()) crew->tell_lost(*this, status);
  }
  if (lanes_.size() > 1) {
    if (!moving_.empty()) settle_now();
    const auto lost = [](const Crew* crew) { return crew->lost(); };
    const bool any = std::any_of(lanes_.begin(), lanes_.end(), lost);
    if (any && !std::all_of(lanes_.begin(), lanes_.end(), lost)) {
      evacuate();
      show_lanes();
    }
  }
  const base::TimePoint now = clock_.now();
  if (now - looked_ < kLookAtLoad) return;
  measure_load(std::chrono::duration<double>(now - looked_).count());
  looked_ = now;
  if (lanes_.size() > 1) balance();
  show_lanes();
}

void Pipeline::measure_load(double seconds) {
  for (Crew* const crew : lanes_) {
    const LaneWork work = crew->lane.work();
    const std::uint64_t frames = work.frames - crew->work_before.frames;
    const double busy = std::chrono::duration<double>(work.busy - crew->work_before.busy).count();
    crew->work_before = work;
    crew->busy = busy / seconds;
    crew->completed_rate = static_cast<double>(frames) / seconds;
    if (frames >= kEnoughFrames) {
      crew->seconds_per_frame = smoothed(crew->seconds_per_frame, busy / static_cast<double>(frames));
    }
  }
  for (const auto& camera : cameras_) {
    if (!camera) continue;
    const std::uint64_t captured = ledger_.totals(camera->index).captured;
    const std::uint64_t before = std::exchange(camera->captured_before, captured);
    // A camera that is away comes back: what it asked for is kept free for it.
    if (captured > before) camera->rate = smoothed(camera->rate, static_cast<double>(captured - before) / seconds);
  }
}

bool Pipeline::on_its_way(CameraIndex slot) const {
  return std::any_of(moving_.begin(), moving_.end(), [slot](const Moving& moving) { return moving.slot == slot; });
}

// What placement asks for. `cameras` and `loads` have the same order; cameras on their way are not movable.
void Pipeline::loads_now(std::vector<LaneLoad>& of_lanes, std::vector<Camera*>& cameras,
                         std::vector<CameraLoad>& of_cameras) const {
  for (const Crew* crew : lanes_) of_lanes.push_back({crew->seconds_per_frame, !crew->lost()});
  for (const auto& camera : cameras_) {
    if (!camera) continue;
    const auto lane = std::find(lanes_.begin(), lanes_.end(), camera->crew.load());
    const bool stays = on_its_way(camera->index) || !camera->source || camera->source->makes_pictures_on_device();
    cameras.push_back(camera.get());
    of_cameras.push_back({static_cast<std::size_t>(lane - lanes_.begin()), camera->rate, !stays});
  }
}

void Pipeline::balance() {
  std::vector<LaneLoad> of_lanes;
  std::vector<Camera*> cameras;
  std::vector<CameraLoad> of_cameras;
  loads_now(of_lanes, cameras, of_cameras);
  for (int i = 0; i < kMostMoves; ++i) {
    const std::optional<Move> move = next_move(of_lanes, of_cameras);
    if (!move) break;
    const std::vector<double> loads = loads_of(of_lanes, of_cameras);
    CameraLoad& of_camera = of_cameras[move->camera];
    base::log().info("camera {} goes from {} to {}, because the load is uneven: {:.0f} and {:.0f} % of their time",
                     cameras[move->camera]->spec.name, lanes_[of_camera.lane]->spec.name, lanes_[move->lane]->spec.name,
                     100 * loads[of_camera.lane], 100 * loads[move->lane]);
    hand_over(*cameras[move->camera], *lanes_[move->lane], false);
    of_camera.lane = move->lane;
  }
  settle_now();
}

// The cameras of lanes whose device is lost go to the others: first those that need not be opened anew.
void Pipeline::evacuate() {
  std::vector<LaneLoad> of_lanes;
  std::vector<Camera*> cameras;
  std::vector<CameraLoad> of_cameras;
  loads_now(of_lanes, cameras, of_cameras);
  const auto go = [&](std::size_t i, bool open_anew) {
    const std::size_t to = place(of_lanes, of_cameras, of_cameras[i].rate);
    hand_over(*cameras[i], *lanes_[to], open_anew);
    of_cameras[i].lane = to;
  };
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    if (of_lanes[i].usable || lanes_[i]->left) continue;
    lanes_[i]->left = true;
    const auto count =
        std::count_if(of_cameras.begin(), of_cameras.end(), [i](const CameraLoad& camera) { return camera.lane == i; });
    base::log().warn("device {} is lost: its {} cameras go on with the other devices", lanes_[i]->spec.name, count);
  }
  std::vector<std::size_t> decoded_there;
  std::vector<CameraIndex> slots;
  for (std::size_t i = 0; i < cameras.size(); ++i) {
    // One that is still on its way to a lost lane goes on at the next look.
    if (of_lanes[of_cameras[i].lane].usable || on_its_way(cameras[i]->index)) continue;
    if (cameras[i]->source && cameras[i]->source->makes_pictures_on_device()) {
      decoded_there.push_back(i);
      slots.push_back(cameras[i]->index);
    } else {
      go(i, false);
    }
  }
  settle_now();
  if (decoded_there.empty()) return;
  close(slots, true);
  for (const std::size_t i : decoded_there) go(i, true);
  settle_now();
}

void Pipeline::show_lanes() {
  const MutexLock lock(mutex_);
  shown_lanes_.resize(lanes_.size());
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    Crew& crew = *lanes_[i];
    auto& [shown, view] = shown_lanes_[i];
    if (shown != &crew) {
      shown = &crew;
      view.name = crew.spec.name;
      view.device = crew.spec.device.info().name;
      view.device_depth = crew.lane.device_depth();
    }
    view.cameras = 0;
    double rate = 0;
    for (const auto& camera : cameras_) {
      if (!camera || camera->crew.load() != &crew) continue;
      ++view.cameras;
      rate += camera->rate;
    }
    view.load = rate * crew.seconds_per_frame;
    view.busy = crew.busy;
    view.completed = crew.completed_rate;
  }
}

std::vector<LaneView> Pipeline::lanes() const {
  const MutexLock lock(mutex_);
  std::vector<LaneView> views;
  std::vector<const device::Device*> told;
  for (const auto& [crew, shown] : shown_lanes_) {
    LaneView& view = views.emplace_back(shown);
    const device::Device& device = crew->spec.device;
    view.lost = crew->lost();
    // Host memory is the process's own, which rss_bytes tells.
    const bool again = std::find(told.begin(), told.end(), &device) != told.end();
    if (!again && !device.info().works_in_host_memory) view.memory_bytes = device.allocated_bytes();
    told.push_back(&device);
  }
  return views;
}

std::string Pipeline::camera_lane(CameraIndex camera) const {
  const MutexLock lock(mutex_);
  return slots_[camera].lane;
}

}  // namespace camd::pipeline
