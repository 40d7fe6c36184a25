#include "pipeline/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "base/thread.hpp"

namespace camd::pipeline {
namespace {

using base::Duration;
using base::ErrorKind;
using base::MutexLock;
using base::Status;
using capture::SourceState;

constexpr int kStopToken = -1;

int depth_of(const device::Device& device, const PipelineOptions& options) {
  if (options.device_depth > 0) return options.device_depth;
  return device.info().kind == device::DeviceKind::kCuda ? 2 : 1;
}

bool is_final(SourceState state) noexcept { return state == SourceState::kEnded || state == SourceState::kFailed; }

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

struct Pipeline::Camera {
  Camera(std::string camera_name, capture::CameraIndex camera_index, std::size_t queue_capacity, int camera_limit)
      : name(std::move(camera_name)), index(camera_index), limit(camera_limit), completed(queue_capacity, 1) {}

  const std::string name;
  const capture::CameraIndex index;
  const int limit;  // frames between dispatch and the last postprocessor's return
  std::unique_ptr<capture::FrameRing> ring;
  std::unique_ptr<capture::FrameSource> source;
  BoundedQueue<InFlight*> completed;  // nullptr ends
  std::thread worker;
  std::atomic<bool> token_pending{false};  // its index is in ready_
  std::atomic<bool> parked{false};         // has a frame, but its limit is reached: the worker wakes the dispatcher
  std::atomic<int> on_the_way{0};
  CameraStatus status;          // guarded by Pipeline::mutex_
  bool plugin_failing = false;  // [post] so that only the first of a row of failures is logged
};

Pipeline::Pipeline(device::Device& device, infer::Engine& engine, PluginHost& plugins, const base::Clock& clock,
                   std::vector<CameraSpec> cameras, const PipelineOptions& options, PipelineListener* listener)
    : device_(device),
      engine_(engine),
      plugins_(plugins),
      clock_(clock),
      cameras_(std::move(cameras)),
      options_(options),
      listener_(listener),
      device_depth_(depth_of(device, options)),
      hold_pictures_(plugins.needs().picture),
      ledger_(cameras_.size()),
      metrics_(cameras_.size()),
      path_(device, engine, plugins, options.path),
      ready_(cameras_.size() + 1, 2 * cameras_.size() + 2),
      pool_(cameras_.size() + static_cast<std::size_t>(device_depth_) + 1, cameras_.size() + 2),
      on_device_(cameras_.size() + static_cast<std::size_t>(device_depth_) + 2, 2),
      device_room_(device_depth_, 0),
      live_sources_(cameras_.size()) {
  // Enough for every camera to have one frame with its plug-ins while the device is full.
  const std::size_t pool_size = cameras_.size() + static_cast<std::size_t>(device_depth_) + 1;
  for (std::size_t i = 0; i < pool_size; ++i) {
    in_flights_.push_back(path_.make_in_flight());
    (void)pool_.push(in_flights_.back().get());  // holds pool_size
  }
  for (std::size_t i = 0; i < cameras_.size(); ++i) {
    const int limit = cameras_[i].lossless ? device_depth_ + 1 : std::max(2, device_depth_);
    auto camera =
        std::make_unique<Camera>(cameras_[i].name, static_cast<capture::CameraIndex>(i), pool_size + 1, limit);
    capture::FrameRing::Options ring;
    ring.camera = static_cast<capture::CameraIndex>(i);
    // A slot whose picture is held until delivery is not there for capture: the ring grows by as many.
    ring.slots = options_.slots + (hold_pictures_ ? limit : 0);
    ring.policy = cameras_[i].lossless ? capture::RingPolicy::kLossless : capture::RingPolicy::kNewestWins;
    ring.memory = options_.path.transfer;
    capture::FrameObserver& observer = *this;
    camera->ring = std::make_unique<capture::FrameRing>(device_, observer, ring);
    camera_.push_back(std::move(camera));
  }
}

Pipeline::~Pipeline() { stop(false); }

void Pipeline::set_frame_limit(std::uint64_t delivered) { frame_limit_ = delivered; }

void Pipeline::start() {
  if (state() != PipelineState::kIdle) {
    throw base::Error(ErrorKind::kState, fmt::format("in state {}, start() needs state Idle", to_string(state())));
  }
  state_ = PipelineState::kStarting;
  for (auto& camera : camera_) {
    camera->worker = std::thread([this, one = camera.get()] { post_loop(*one); });
  }
  completion_ = std::thread([this] { completion_loop(); });
  dispatcher_ = std::thread([this] { dispatch_loop(); });
  state_ = PipelineState::kRunning;
  try {
    for (std::size_t i = 0; i < camera_.size(); ++i) {
      camera_[i]->source = cameras_[i].make_source(static_cast<capture::CameraIndex>(i), *camera_[i]->ring, *this);
    }
    for (auto& camera : camera_) camera->source->start();
  } catch (...) {
    stop(false);
    state_ = PipelineState::kFailed;
    throw;
  }
}

void Pipeline::stop(bool deliver_ready) {
  if (state() != PipelineState::kRunning) return;
  state_ = PipelineState::kDraining;
  for (auto& camera : camera_) {
    // A lossless source may be waiting for a slot: closing the ring first lets it go.
    camera->ring->close(deliver_ready);
  }
  for (auto& camera : camera_) {
    if (camera->source) camera->source->stop();
  }
  (void)ready_.push(kStopToken);  // has room for every camera and this one
  dispatcher_.join();
  completion_.join();
  for (auto& camera : camera_) camera->worker.join();
  for (auto& camera : camera_) camera->source.reset();
  state_ = PipelineState::kStopped;
  changed();
}

// ---- What ends a run

void Pipeline::changed() {
  MutexLock lock(mutex_);
  changed_.notify_all();
}

// A frame was closed: that matters to wait_for_end() only when the end is near.
void Pipeline::closed_one() {
  if (frame_limit_ != 0 || live_sources_ == 0) changed();
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
    if (device_lost_) return EndReason::kDeviceLost;
    if (end_requested_) return EndReason::kRequested;
    const Totals totals = ledger_.totals();
    if (frame_limit_ != 0 && totals.delivered >= frame_limit_) return EndReason::kFrameLimit;
    const bool all_final =
        std::all_of(camera_.begin(), camera_.end(), [](const auto& c) { return is_final(c->status.state); });
    if (all_final && totals.in_flight == 0) {
      const bool all_failed = std::all_of(camera_.begin(), camera_.end(),
                                          [](const auto& c) { return c->status.state == SourceState::kFailed; });
      return all_failed ? EndReason::kSourcesFailed : EndReason::kSourcesEnded;
    }
    if (clock_.now() >= deadline) return EndReason::kTimeout;
    (void)clock_.wait_until(changed_, mutex_, deadline);
  }
}

CameraStatus Pipeline::camera_status(capture::CameraIndex camera) const {
  MutexLock lock(mutex_);
  return camera_[camera]->status;
}

void Pipeline::state_changed(capture::CameraIndex camera, SourceState state, const std::string& reason) noexcept {
  {
    MutexLock lock(mutex_);
    CameraStatus& status = camera_[camera]->status;
    if (is_final(state) && !is_final(status.state)) --live_sources_;
    status = {state, reason};
    changed_.notify_all();
  }
  if (listener_ != nullptr) listener_->camera_changed(camera, state, reason);
}

void Pipeline::report_device_lost(const Status& status) {
  if (device_lost_.exchange(true)) return;
  base::log().error("device lost: {}", status.message());
  if (listener_ != nullptr) listener_->device_lost(status.message());
  changed();
}

// ---- [source]

void Pipeline::captured(capture::CameraIndex camera) noexcept { ledger_.captured(camera); }

void Pipeline::dropped(capture::CameraIndex camera, DropReason reason) noexcept {
  ledger_.dropped(camera, reason);
}  // in the ring's lock

void Pipeline::ready(capture::CameraIndex camera) noexcept {
  // One token stands for any number of ready frames: a blocked dispatcher never makes the queue grow.
  if (!camera_[camera]->token_pending.exchange(true)) (void)ready_.push(static_cast<int>(camera));
}

// ---- [dispatch]

bool Pipeline::any_ready() const {
  return std::any_of(camera_.begin(), camera_.end(), [](const auto& camera) { return camera->ring->has_ready(); });
}

void Pipeline::dispatch_loop() {
  base::name_this_thread("dispatch");
  bool draining = false;
  InFlight* in_flight = nullptr;
  while (!(draining && !any_ready())) {
    const int token = ready_.pop();
    if (token == kStopToken) {
      draining = true;
      continue;
    }
    // Room first, frame second: what is taken after the wait is the newest there is. The token only says which camera
    // has one, so waiting for it first takes nothing out of a ring, and an idle dispatcher is woken once a frame.
    if (in_flight == nullptr) {
      device_room_.wait();
      in_flight = pool_.pop();
    }
    if (!dispatch_one(*in_flight, static_cast<capture::CameraIndex>(token))) continue;
    (void)on_device_.push(std::exchange(in_flight, nullptr));  // holds the whole pool
  }
  (void)on_device_.push(nullptr);
}

bool Pipeline::dispatch_one(InFlight& in_flight, capture::CameraIndex index) {
  Camera& camera = *camera_[index];
  camera.token_pending = false;
  if (camera.on_the_way >= camera.limit) {
    camera.parked = true;
    // The worker may have finished between the two lines: then either it or this thread clears the mark.
    if (camera.on_the_way >= camera.limit || !camera.parked.exchange(false)) return false;
  }
  std::optional<capture::SlotLease> lease = camera.ring->take();
  if (camera.ring->has_ready()) ready(index);
  if (!lease) return false;

  in_flight.dispatched = clock_.now();
  in_flight.frame = lease->frame();
  if (!cameras_[index].lossless && in_flight.dispatched - in_flight.frame.captured > options_.max_age) {
    lease->release();
    ledger_.dropped(index, DropReason::kTooOld);
    closed_one();
    return false;
  }
  in_flight.lease = std::move(*lease);
  ++camera.on_the_way;
  in_flight.status = path_.enqueue(in_flight);
  return true;
}

// ---- [completion]

void Pipeline::completion_loop() {
  base::name_this_thread("completion");
  while (InFlight* in_flight = on_device_.pop()) {
    Status& status = in_flight->status;
    if (status.ok()) status = device_.synchronize(in_flight->slot_read);
    if (!hold_pictures_ && status.ok()) in_flight->lease.release();
    if (status.ok()) status = device_.synchronize(in_flight->downloaded);
    if (status.ok()) status = in_flight->execution->result();
    in_flight->completed = clock_.now();
    if (Status device_status = device_.status(); !device_status.ok()) {
      status = std::move(device_status);
      report_device_lost(status);
    }
    device_room_.signal();
    (void)camera_[in_flight->frame.camera]->completed.push(in_flight);  // holds the whole pool
  }
  for (auto& camera : camera_) (void)camera->completed.push(nullptr);
}

// ---- [post]

void Pipeline::post_loop(Camera& camera) {
  base::name_this_thread("post-" + camera.name);
  while (InFlight* in_flight = camera.completed.pop()) {
    postprocess(camera, *in_flight);
    close(camera, *in_flight);
  }
}

void Pipeline::postprocess(Camera& camera, InFlight& in_flight) {
  if (!in_flight.status.ok()) {
    // A lost device is reported once, by the completion thread; here a single frame could not be run.
    if (!device_lost_)
      base::log().error("camera {}: frame {}: {}", camera.name, in_flight.frame.sequence, in_flight.status.message());
    ledger_.dropped(camera.index, DropReason::kDeviceError);
    return;
  }
  camd_frame frame{};
  camd_picture picture{};
  fill_frame(camera, in_flight, frame, picture);
  camd_results results{sizeof(camd_results), PluginHost::kResultCapacity, 0, in_flight.detections.data()};
  const Status status = plugins_.process(frame, *in_flight.views, results);
  if (!status.ok()) {
    if (!std::exchange(camera.plugin_failing, true)) {
      base::log().error("camera {}: frame {}: {} (dropped as plugin_error; further failures in a row are only counted)",
                        camera.name, in_flight.frame.sequence, status.message());
    }
    ledger_.dropped(camera.index, DropReason::kPluginError);
    return;
  }
  if (std::exchange(camera.plugin_failing, false)) {
    base::log().info("camera {}: the plug-ins work again from frame {}", camera.name, in_flight.frame.sequence);
  }
  const base::TimePoint returned = clock_.now();
  StageTimes times{};
  path_.stage_times(in_flight, times);
  times[static_cast<std::size_t>(Stage::kPostprocess)] = returned - in_flight.completed;
  times[static_cast<std::size_t>(Stage::kTotal)] = returned - in_flight.frame.captured;
  metrics_.record(camera.index, times, in_flight.h2d_bytes, in_flight.d2h_bytes);
  ledger_.delivered(camera.index);
}

void Pipeline::fill_frame(const Camera& camera, const InFlight& in_flight, camd_frame& frame,
                          camd_picture& picture) const {
  const capture::Frame& from = in_flight.frame;
  frame.size = sizeof(frame);
  frame.camera = camera.name.c_str();
  frame.camera_index = static_cast<std::int32_t>(camera.index);
  frame.width = from.layout.width;
  frame.height = from.layout.height;
  frame.sequence = from.sequence;
  frame.captured_mono_ns = base::to_ns(from.captured);
  frame.arrived_mono_ns = base::to_ns(from.arrived);
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  frame.captured_unix_ns = std::chrono::duration_cast<Duration>(wall).count() - (clock_.now() - from.captured).count();
  const infer::InputOptions& input = engine_.input_options();
  const infer::PictureTransform map =
      infer::picture_transform(from.layout.width, from.layout.height, input.width, input.height, input.resize);
  frame.scale_x = map.scale_x;
  frame.scale_y = map.scale_y;
  frame.offset_x = map.offset_x;
  frame.offset_y = map.offset_y;
  if (!hold_pictures_) return;
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

void Pipeline::close(Camera& camera, InFlight& in_flight) {
  in_flight.lease.release();
  (void)pool_.push(&in_flight);  // returns where it came from
  --camera.on_the_way;
  if (camera.parked.exchange(false)) ready(camera.index);
  closed_one();
}

}  // namespace camd::pipeline
