#include "pipeline/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "base/thread.hpp"

namespace camd::pipeline {
namespace {

using base::ErrorKind;
using base::MutexLock;
using base::Status;
using capture::SourceState;

int depth_of(const device::Device& device, const PipelineOptions& options) {
  if (options.device_depth > 0) return options.device_depth;
  return device.info().kind == device::DeviceKind::kCuda ? 2 : 1;
}

// Whether a source's thread may hand its frame to the device itself. That must not make it wait, and helps only where
// the device then works while a worker wakes up.
bool may_dispatch_from_sources(const device::Device& device, const FramePathOptions& path) {
  return device.info().asynchronous && path.transfer != Transfer::kPageable && !path.wait_each;
}

bool is_final(SourceState state) noexcept { return state == SourceState::kEnded || state == SourceState::kFailed; }

// So that a camera that is away is told of without metrics too. Sources report an outcome once, however often they try.
void log_change(const std::string& camera, SourceState before, SourceState now, const std::string& reason) {
  const bool was_away = before == SourceState::kStalled || before == SourceState::kReconnecting;
  switch (now) {
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

struct Pipeline::Camera {
  Camera(std::string camera_name, capture::CameraIndex camera_index, int camera_limit)
      : name(std::move(camera_name)), index(camera_index), limit(camera_limit) {}

  const std::string name;
  const capture::CameraIndex index;
  const int limit;  // frames between dispatch and the last postprocessor's return
  std::unique_ptr<capture::FrameRing> ring;
  std::unique_ptr<capture::FrameSource> source;
  std::atomic<bool> announced{false};                 // it is in Pipeline::published_
  std::optional<moodycamel::ProducerToken> producer;  // for published_ [source]
  // Guarded by Pipeline::work_mutex_.
  bool has_ready = false;  // its ring has a frame, or had one: superseded and dropped ones are not told
  bool postprocessing = false;
  int on_the_way = 0;
  std::vector<InFlight*> completed;  // in the order of dispatch

  CameraStatus status;  // guarded by Pipeline::mutex_
  // [post]
  bool plugin_failing = false;  // so that only the first of a row of failures is logged
  int mapped_width = 0;         // of the pictures that `map` is for
  int mapped_height = 0;
  infer::PictureTransform map;
};

struct Pipeline::Job {
  enum class Kind : std::uint8_t { kNone, kDispatch, kPost, kComplete };
  Kind kind = Kind::kNone;
  Camera* camera = nullptr;
  InFlight* in_flight = nullptr;
  // What became of kDispatch.
  bool dispatched = false;  // false: there was no frame that is worth it
  bool more = false;        // the camera has another frame
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
      sources_dispatch_(may_dispatch_from_sources(device, options.path)),
      hold_pictures_(plugins.needs().picture),
      ledger_(cameras_.size()),
      metrics_(cameras_.size()),
      path_(device, engine, plugins, options.path),
      published_(cameras_.size(), cameras_.size(), 0),
      live_sources_(cameras_.size()) {
  // Enough for every camera to have one frame with its plug-ins while the device is full.
  const std::size_t pool_size = cameras_.size() + static_cast<std::size_t>(device_depth_) + 1;
  for (std::size_t i = 0; i < pool_size; ++i) {
    in_flights_.push_back(path_.make_in_flight());
  }
  unused_ = pool_size;
  free_.reserve(pool_size);
  on_device_.reserve(pool_size);
  for (std::size_t i = 0; i < cameras_.size(); ++i) {
    const int limit = cameras_[i].lossless ? device_depth_ + 1 : std::max(2, device_depth_);
    auto camera = std::make_unique<Camera>(cameras_[i].name, static_cast<capture::CameraIndex>(i), limit);
    camera->completed.reserve(static_cast<std::size_t>(limit));
    capture::FrameRing::Options ring;
    ring.camera = static_cast<capture::CameraIndex>(i);
    // A slot whose picture is held until delivery is not there for capture: the ring grows by as many.
    ring.slots = options_.slots + (hold_pictures_ ? limit : 0);
    ring.policy = cameras_[i].lossless ? capture::RingPolicy::kLossless : capture::RingPolicy::kNewestWins;
    ring.memory = picture_memory(options_.path.transfer);
    capture::FrameObserver& observer = *this;
    camera->ring = std::make_unique<capture::FrameRing>(device_, observer, ring);
    camera->producer.emplace(published_);
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
  const std::size_t jobs_at_once = camera_.size() + 2;
  {
    MutexLock lock(work_mutex_);
    asleep_.reserve(jobs_at_once);
  }
  for (std::size_t i = 0; i < jobs_at_once; ++i) {
    workers_.emplace_back([this, i] {
      base::name_this_thread(fmt::format("worker-{}", i));
      work_loop();
    });
  }
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
  {
    MutexLock lock(work_mutex_);
    draining_ = true;
    wake_all();
  }
  for (std::thread& worker : workers_) worker.join();
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
  SourceState before{};
  {
    MutexLock lock(mutex_);
    CameraStatus& status = camera_[camera]->status;
    before = status.state;
    if (is_final(state) && !is_final(before)) --live_sources_;
    status = {state, reason};
    changed_.notify_all();
  }
  log_change(camera_[camera]->name, before, state, reason);
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

void Pipeline::ready(capture::CameraIndex index) noexcept {
  Camera& camera = *camera_[index];
  if (sleepers_.load() == 0) {  // all are busy, and look at published_ before they fall asleep
    // Once is enough: whoever finds the camera there takes its newest frame.
    if (camera.announced.exchange(true)) return;
    (void)published_.try_enqueue(*camera.producer, &camera);  // has room for every camera
    // Read as part of a change, so that it comes before or after that of a worker who falls asleep: either it looks at
    // published_ once more, or is seen here.
    if (sleepers_.fetch_add(0) == 0) return;
  }
  // A lossless source is in nobody's way but its own: what it makes next matters more than when this one is delivered.
  const bool here = sources_dispatch_ && !cameras_[index].lossless;
  base::Semaphore* sleeper = nullptr;
  Job job;
  {
    MutexLock lock(work_mutex_);
    take_published();
    camera.has_ready = true;
    if (to_dispatch() == nullptr) return;  // whoever makes it possible will look
    if (here) {
      (void)take_job(job);
    } else {
      sleeper = take_sleeper();
    }
  }
  if (here) {
    dispatch(job);
    MutexLock lock(work_mutex_);
    settle(job);
    if (something_to_do()) sleeper = take_sleeper();
  }
  if (sleeper != nullptr) sleeper->release();
}

// ---- Workers

void Pipeline::work_loop() {
  base::Semaphore bed;
  Job job;
  while (next_job(bed, job)) {
    switch (job.kind) {
      case Job::Kind::kNone: break;
      case Job::Kind::kDispatch: dispatch(job); break;
      case Job::Kind::kComplete: complete(*job.in_flight); break;
      case Job::Kind::kPost:
        postprocess(*job.camera, *job.in_flight);
        job.in_flight->lease.release();
        closed_one();
        break;
    }
  }
}

// A job that ends makes others possible: one of them is for the worker that ended it, and whoever takes a job wakes one
// other worker when he leaves one behind.
bool Pipeline::next_job(base::Semaphore& bed, Job& job) {
  for (;;) {
    base::Semaphore* other = nullptr;
    bool found = false;
    {
      MutexLock lock(work_mutex_);
      settle(job);
      take_published();
      found = take_job(job);
      if (!found) {
        ++sleepers_;
        take_published();
        found = take_job(job);
        if (found) {
          --sleepers_;
        } else if (draining_ && all_closed()) {
          wake_all();
          return false;
        } else {
          asleep_.push_back(&bed);
        }
      }
      if (found && something_to_do()) other = take_sleeper();
    }
    if (other != nullptr) other->release();
    if (found) return true;
    bed.acquire();
  }
}

// What a job that was done has changed.
void Pipeline::settle(Job& job) {
  Camera* const camera = job.camera;
  switch (std::exchange(job.kind, Job::Kind::kNone)) {
    case Job::Kind::kNone: break;
    case Job::Kind::kDispatch:
      dispatching_ = false;
      if (job.more) camera->has_ready = true;
      if (job.dispatched) {
        on_device_.push_back(job.in_flight);
        ++camera->on_the_way;
      } else {
        free_.push_back(job.in_flight);
      }
      break;
    case Job::Kind::kComplete:
      completing_ = false;
      on_device_.erase(on_device_.begin());
      camera->completed.push_back(job.in_flight);
      break;
    case Job::Kind::kPost:
      camera->postprocessing = false;
      --camera->on_the_way;
      free_.push_back(job.in_flight);
      break;
  }
}

base::Semaphore* Pipeline::take_sleeper() {
  if (asleep_.empty()) return nullptr;
  base::Semaphore* const last = asleep_.back();
  asleep_.pop_back();
  --sleepers_;
  return last;
}

void Pipeline::wake_all() {
  while (base::Semaphore* const sleeper = take_sleeper()) sleeper->release();
}

void Pipeline::take_published() {
  Camera* camera = nullptr;
  while (published_.try_dequeue(camera)) {
    camera->announced = false;  // first: what is published from now on is announced again
    camera->has_ready = true;
  }
}

// What keeps the device busy comes first, then what a camera's user waits for, then what takes its time anyway.
bool Pipeline::take_job(Job& job) {
  if (Camera* const camera = to_dispatch()) {
    job = {Job::Kind::kDispatch, camera, take_free()};
    dispatching_ = true;
    camera->has_ready = false;
    last_camera_ = camera->index;
    return true;
  }
  if (Camera* const camera = to_postprocess()) {
    job = {Job::Kind::kPost, camera, camera->completed.front()};
    camera->completed.erase(camera->completed.begin());
    camera->postprocessing = true;
    return true;
  }
  if (to_complete()) {
    InFlight* const first = on_device_.front();
    job = {Job::Kind::kComplete, camera_[first->frame.camera].get(), first};
    completing_ = true;
    return true;
  }
  return false;
}

// Those that no frame has had come first, so that the first frames warm up them all.
InFlight* Pipeline::take_free() {
  if (unused_ > 0) return in_flights_[--unused_].get();
  InFlight* const last = free_.back();
  free_.pop_back();
  return last;
}

// Room first, frame second: what is taken once there is room is the newest there is.
Pipeline::Camera* Pipeline::to_dispatch() const {
  const bool room = on_device_.size() < static_cast<std::size_t>(device_depth_);
  if (dispatching_ || !room || free_.size() + unused_ == 0) return nullptr;
  for (std::size_t i = 1; i <= camera_.size(); ++i) {
    Camera& camera = *camera_[(last_camera_ + i) % camera_.size()];
    if (camera.has_ready && camera.on_the_way < camera.limit) return &camera;
  }
  return nullptr;
}

Pipeline::Camera* Pipeline::to_postprocess() const {
  const auto found = std::find_if(camera_.begin(), camera_.end(), [](const auto& camera) {
    return !camera->postprocessing && !camera->completed.empty();
  });
  return found == camera_.end() ? nullptr : found->get();
}

bool Pipeline::something_to_do() const {
  return to_dispatch() != nullptr || to_postprocess() != nullptr || to_complete();
}

bool Pipeline::to_complete() const { return !completing_ && !on_device_.empty(); }

bool Pipeline::all_closed() const {
  return free_.size() + unused_ == in_flights_.size() &&
         std::none_of(camera_.begin(), camera_.end(), [](const auto& camera) { return camera->has_ready; });
}

// ---- [dispatch]

void Pipeline::dispatch(Job& job) {
  job.dispatched = take_frame(*job.camera, *job.in_flight);
  if (job.dispatched) job.in_flight->status = path_.enqueue(*job.in_flight);
  job.more = job.camera->ring->has_ready();
}

bool Pipeline::take_frame(Camera& camera, InFlight& in_flight) {
  std::optional<capture::SlotLease> lease = camera.ring->take();
  if (!lease) return false;
  in_flight.dispatched = clock_.now();
  in_flight.frame = lease->frame();
  if (!cameras_[camera.index].lossless && in_flight.dispatched - in_flight.frame.captured > options_.max_age) {
    lease->release();
    ledger_.dropped(camera.index, DropReason::kTooOld);
    closed_one();
    return false;
  }
  in_flight.lease = std::move(*lease);
  return true;
}

// ---- [completion]

void Pipeline::complete(InFlight& in_flight) {
  Status& status = in_flight.status;
  if (status.ok()) status = device_.synchronize(in_flight.slot_read);
  if (!hold_pictures_ && status.ok()) in_flight.lease.release();
  if (status.ok()) status = device_.synchronize(in_flight.downloaded);
  if (status.ok()) {
    status = in_flight.execution->result();
  } else {
    path_.finish(in_flight);  // before its slot and its tensors are let go
  }
  in_flight.completed = clock_.now();
  if (Status device_status = device_.status(); !device_status.ok()) {
    status = std::move(device_status);
    report_device_lost(status);
  }
}

// ---- [post]

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

void Pipeline::fill_frame(Camera& camera, const InFlight& in_flight, camd_frame& frame, camd_picture& picture) const {
  const capture::Frame& from = in_flight.frame;
  frame.size = sizeof(frame);
  frame.camera = camera.name.c_str();
  frame.camera_index = static_cast<std::int32_t>(camera.index);
  frame.width = from.layout.width;
  frame.height = from.layout.height;
  frame.sequence = from.sequence;
  frame.captured_mono_ns = base::to_ns(from.captured);
  frame.arrived_mono_ns = base::to_ns(from.arrived);
  frame.captured_unix_ns = base::unix_now_ns() - (clock_.now() - from.captured).count();
  if (frame.width != camera.mapped_width || frame.height != camera.mapped_height) {
    const infer::InputOptions& input = engine_.input_options();
    camera.map = infer::picture_transform(frame.width, frame.height, input.width, input.height, input.resize);
    camera.mapped_width = frame.width;
    camera.mapped_height = frame.height;
  }
  frame.scale_x = camera.map.scale_x;
  frame.scale_y = camera.map.scale_y;
  frame.offset_x = camera.map.offset_x;
  frame.offset_y = camera.map.offset_y;
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

}  // namespace camd::pipeline
