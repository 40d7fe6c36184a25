// The work of each job, and what sources tell.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.hpp"
#include "pipeline/core/pipeline_parts.hpp"
#include "pipeline/core/plugin_picture.hpp"

namespace camd::pipeline {

using base::Status;

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
  std::optional<capture::SlotLease> lease = camera.ring->take(clock_.now());
  if (!lease) return false;
  in_flight.dispatched = clock_.now();
  in_flight.frame = lease->frame();
  if (!camera.lossless && in_flight.dispatched - in_flight.frame.captured > crew.options.max_age) {
    lease->release();
    camera.lost(in_flight.frame.sequence, DropReason::kTooOld);
    closed_one();
    return false;
  }
  in_flight.lease = std::move(*lease);
  in_flight.tapped = tap_ != nullptr && tap_->wants_picture(camera.index);
  return true;
}

// ---- [completion]

void Pipeline::complete(Crew& crew, InFlight& in_flight) {
  if (crew.lane.complete(in_flight)) crew.tell_lost(*this, in_flight.status);
}

void Pipeline::Crew::tell_lost(Pipeline& of, const Status& failure) {
  if (told_lost.exchange(true)) return;
  base::log().error("device {} lost: {}", spec.name, failure.message());
  {
    const base::MutexLock lock(of.mutex_);
    // What waits in the rings goes to the others. Where there are none, it is accounted for here.
    const bool others = std::any_of(of.shown_lanes_.begin(), of.shown_lanes_.end(),
                                    [](const auto& shown) { return !shown.first->lost(); });
    if (others) lane.jobs().hold(true);
  }
  if (of.listener_ != nullptr) of.listener_->device_lost(spec.name, failure.message());
  of.changed();
}

// ---- [post]

void Pipeline::postprocess(Crew& crew, Camera& camera, InFlight& in_flight) {
  if (!in_flight.status.ok()) {
    // A lost device is reported once, in [completion]; here a single frame could not be run.
    if (!crew.lost())
      base::log().error("camera {}: frame {}: {}", camera.spec.name, in_flight.frame.sequence,
                        in_flight.status.message());
    camera.lost(in_flight.frame.sequence, DropReason::kDeviceError);
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
    camera.lost(in_flight.frame.sequence, DropReason::kPluginError);
    return;
  }
  if (std::exchange(camera.plugin_failing, false)) {
    base::log().info("camera {}: the plug-ins work again from frame {}", camera.spec.name, in_flight.frame.sequence);
  }
  const base::TimePoint returned = clock_.now();
  sights_.note(camera.index, results, *in_flight.postprocessing);
  StageTimes times{};
  crew.lane.path().stage_times(in_flight, times);
  times[static_cast<std::size_t>(Stage::kPostprocess)] = returned - in_flight.completed;
  times[static_cast<std::size_t>(Stage::kTotal)] = returned - in_flight.frame.captured;
  metrics_.record(camera.index, times, in_flight.h2d_bytes, in_flight.d2h_bytes);
  ledger_.delivered(camera.index);
  if (tap_ == nullptr || !(in_flight.tapped || tap_->wants_frames())) return;
  tap_->delivered(frame, results, *in_flight.postprocessing, returned, in_flight.tapped ? &in_flight.frame : nullptr);
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
  frame.flags = from.damaged ? std::uint32_t{CAMD_FRAME_DAMAGED} : 0U;
  frame.captured_mono_ns = base::to_ns(from.captured);
  frame.arrived_mono_ns = base::to_ns(from.arrived);
  frame.captured_uncertainty_ns = from.uncertainty.count();
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
  picture = plugin_picture(from.layout, from.pixels.data());
  frame.picture = &picture;
}

}  // namespace camd::pipeline
