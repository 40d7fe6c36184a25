// Which job is possible, who gets it, and who is woken for the next.
#include "pipeline/core/job_queue.hpp"

#include <algorithm>
#include <utility>

namespace camd::pipeline {

using base::MutexLock;
using capture::CameraIndex;

namespace {

// One frame of each camera that may come, or as many as are allowed.
std::size_t posts_of(const JobQueue::Options& options) {
  const auto cameras = static_cast<std::size_t>(
      std::count_if(options.limits.begin(), options.limits.end(), [](int limit) { return limit > 0; }));
  return options.posts > 0 ? std::min(cameras, static_cast<std::size_t>(options.posts)) : cameras;
}

constexpr std::size_t kOtherJobs = 2;  // one dispatch and one completion

}  // namespace

JobQueue::JobQueue(const Options& options)
    : device_depth_(static_cast<std::size_t>(options.device_depth)),
      frames_(static_cast<std::size_t>(options.frames)),
      posts_(posts_of(options)),
      most_workers_(posts_ + kOtherJobs),
      limits_(options.limits),
      published_(options.limits.size(), options.limits.size(), 0),
      unused_(frames_) {
  for (const int limit : options.limits) {
    announcements_.push_back(std::make_unique<Announcement>(published_));
    Camera& camera = cameras_.emplace_back();
    if (options.adopted) camera.limit = limit;
    camera.completed.reserve(static_cast<std::size_t>(limit));
  }
  waiting_.reserve(options.limits.size());
  to_post_.reserve(frames_);
  asleep_.reserve(most_workers_);
  free_.reserve(frames_);
  on_device_.reserve(frames_);
}

bool JobQueue::publish(CameraIndex camera, bool take, Job& job) {
  if (sleepers_.load() == 0) {  // all are busy, and look at published_ before they fall asleep
    // Once is enough: whoever finds the camera there takes its newest frame.
    Announcement& announcement = *announcements_[camera];
    if (announcement.pending.exchange(true)) return false;
    announced_.fetch_add(1);
    (void)published_.try_enqueue(announcement.producer, camera);  // has room for every camera
    // Read as part of a change, so that it comes before or after that of a worker who falls asleep: either the worker
    // looks at published_ once more, or it is seen here.
    if (sleepers_.fetch_add(0) == 0) return false;
  }
  base::Semaphore* sleeper = nullptr;
  {
    const MutexLock lock(mutex_);
    take_published();
    note_frame(camera);
    if (take) return take_dispatch(job);
    if (to_dispatch() == kNobody) return false;  // whoever makes it possible will look
    sleeper = take_sleeper();
  }
  if (sleeper != nullptr) sleeper->release();
  return false;
}

void JobQueue::finish(Job& job) {
  base::Semaphore* sleeper = nullptr;
  {
    const MutexLock lock(mutex_);
    settle(job);
    if (draining_ && all_done()) wake_all();
    if (something_to_do()) sleeper = take_sleeper();
  }
  if (sleeper != nullptr) sleeper->release();
}

JobQueue::Next JobQueue::next(base::Semaphore& wake_up, Job& job) {
  base::Semaphore* other = nullptr;
  {
    const MutexLock lock(mutex_);
    settle(job);
    take_published();
    if (!take_job(job)) {
      ++sleepers_;
      take_published();  // what a source published that did not see this one sleep
      if (!take_job(job)) {
        if (!draining_ || !all_done()) {
          asleep_.push_back(&wake_up);
          return Next::kSleep;
        }
        --sleepers_;
        wake_all();
        return Next::kEnd;
      }
      --sleepers_;
    }
    if (something_to_do()) other = take_sleeper();
  }
  if (other != nullptr) other->release();
  return Next::kJob;
}

void JobQueue::watch(base::Semaphore* done) {
  const MutexLock lock(mutex_);
  done_ = done;
}

void JobQueue::adopt(CameraIndex camera) {
  base::Semaphore* sleeper = nullptr;
  {
    const MutexLock lock(mutex_);
    Camera& adopted = cameras_[camera];
    adopted.limit = limits_[camera];
    adopted.postprocessing = kHeldBack;
    note_frame(camera);
    if (something_to_do()) sleeper = take_sleeper();
  }
  if (sleeper != nullptr) sleeper->release();
}

void JobQueue::release(CameraIndex camera) {
  base::Semaphore* sleeper = nullptr;
  {
    const MutexLock lock(mutex_);
    cameras_[camera].postprocessing = kNone;
    if (something_to_do()) sleeper = take_sleeper();
  }
  if (sleeper != nullptr) sleeper->release();
}

void JobQueue::leave(CameraIndex camera) {
  const MutexLock lock(mutex_);
  cameras_[camera].limit = 0;
  (void)stop_waiting(camera);
}

void JobQueue::hold(bool held) {
  base::Semaphore* sleeper = nullptr;
  {
    const MutexLock lock(mutex_);
    held_ = held;
    if (something_to_do()) sleeper = take_sleeper();
  }
  if (sleeper != nullptr) sleeper->release();
}

bool JobQueue::dispatching(CameraIndex camera) const {
  const MutexLock lock(mutex_);
  return dispatches(camera);
}

bool JobQueue::busy(CameraIndex camera) {
  const MutexLock lock(mutex_);
  take_published();
  return cameras_[camera].has_frame || cameras_[camera].on_the_way > 0 || dispatches(camera);
}

std::optional<int> JobQueue::postprocessing(CameraIndex camera) const {
  const MutexLock lock(mutex_);
  const int frame = cameras_[camera].postprocessing;
  return frame >= 0 ? std::optional<int>(frame) : std::nullopt;
}

bool JobQueue::done() const {
  const MutexLock lock(mutex_);
  return draining_ && all_done();
}

void JobQueue::drain() {
  const MutexLock lock(mutex_);
  draining_ = true;
  wake_all();
}

// What a job that was done has changed.
void JobQueue::settle(Job& job) {
  switch (std::exchange(job.kind, Job::Kind::kNone)) {
    case Job::Kind::kNone: break;
    case Job::Kind::kDispatch:
      dispatching_ = false;
      if (!job.dispatched) {  // there was nothing to serve
        const bool waits = stop_waiting(job.camera);
        cameras_[job.camera].served = served_before_;
        if (waits) note_frame(job.camera);
      }
      if (job.more) note_frame(job.camera);
      if (job.dispatched) {
        on_device_.push_back({job.camera, job.frame});
        ++cameras_[job.camera].on_the_way;
      } else if (job.frame == static_cast<int>(unused_)) {
        ++unused_;  // no frame has had it yet: it must not end up below those that are taken again and again
      } else {
        free_.push_back(job.frame);
      }
      break;
    case Job::Kind::kComplete:
      completing_ = false;
      on_device_.erase(on_device_.begin());
      cameras_[job.camera].completed.push_back(job.frame);
      to_post_.push_back(job.camera);
      break;
    case Job::Kind::kPostprocess:
      cameras_[job.camera].postprocessing = kNone;
      --posts_now_;
      --cameras_[job.camera].on_the_way;
      free_.push_back(job.frame);
      break;
  }
  if (done_ != nullptr) done_->release();
}

// Not inlined, and to_dispatch() neither: copies at each call would be more code to fetch after a pause.
[[gnu::noinline]] void JobQueue::take_published() {
  CameraIndex camera = 0;
  while (announced_.load() > 0 && published_.try_dequeue(camera)) {
    announced_.fetch_sub(1);
    announcements_[camera]->pending = false;  // first: what is published from now on is announced again
    note_frame(camera);
  }
}

void JobQueue::note_frame(CameraIndex camera) {
  Camera& its = cameras_[camera];
  if (its.limit == 0 || its.has_frame) return;
  its.has_frame = true;
  const auto later = [this](std::uint64_t served, CameraIndex other)
                         CAMD_REQUIRES(mutex_) { return served < cameras_[other].served; };
  waiting_.insert(std::upper_bound(waiting_.begin(), waiting_.end(), its.served, later), camera);
}

// True: it waited.
bool JobQueue::stop_waiting(CameraIndex camera) {
  if (!std::exchange(cameras_[camera].has_frame, false)) return false;
  waiting_.erase(std::find(waiting_.begin(), waiting_.end(), camera));
  return true;
}

bool JobQueue::take_dispatch(Job& job) {
  const std::size_t i = to_dispatch();
  if (i == kNobody) return false;
  last_camera_ = waiting_[i];
  waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
  Camera& its = cameras_[last_camera_];
  its.has_frame = false;
  served_before_ = std::exchange(its.served, ++turns_);
  job = {Job::Kind::kDispatch, last_camera_, take_free()};
  dispatching_ = true;
  return true;
}

bool JobQueue::take_job(Job& job) {
  if (take_dispatch(job)) return true;
  if (const std::size_t i = to_postprocess(); i != kNobody) {
    const CameraIndex index = to_post_[i];
    to_post_.erase(to_post_.begin() + static_cast<std::ptrdiff_t>(i));
    Camera& camera = cameras_[index];
    job = {Job::Kind::kPostprocess, index, camera.completed.front()};
    camera.completed.erase(camera.completed.begin());
    camera.postprocessing = job.frame;
    ++posts_now_;
    return true;
  }
  if (can_complete()) {
    job = {Job::Kind::kComplete, on_device_.front().camera, on_device_.front().frame};
    completing_ = true;
    return true;
  }
  return false;
}

// Those that no frame has had come first, so that the first frames warm up them all.
int JobQueue::take_free() {
  if (unused_ > 0) return static_cast<int>(--unused_);
  const int last = free_.back();
  free_.pop_back();
  return last;
}

base::Semaphore* JobQueue::take_sleeper() {
  if (asleep_.empty()) return nullptr;
  base::Semaphore* const last = asleep_.back();
  asleep_.pop_back();
  --sleepers_;
  return last;
}

void JobQueue::wake_all() {
  while (base::Semaphore* const sleeper = take_sleeper()) sleeper->release();
}

// Room first, frame second: what is taken once there is room is the newest there is.
[[gnu::noinline]] std::size_t JobQueue::to_dispatch() const {
  if (held_ || dispatching_ || on_device_.size() >= device_depth_ || free_.size() + unused_ == 0) return kNobody;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    const Camera& camera = cameras_[waiting_[i]];
    if (camera.on_the_way < camera.limit) return i;
  }
  return kNobody;
}

std::size_t JobQueue::to_postprocess() const {
  if (posts_now_ >= posts_) return kNobody;
  for (std::size_t i = 0; i < to_post_.size(); ++i) {
    if (cameras_[to_post_[i]].postprocessing == kNone) return i;
  }
  return kNobody;
}

bool JobQueue::can_complete() const { return !completing_ && !on_device_.empty(); }

bool JobQueue::something_to_do() const {
  return to_dispatch() != kNobody || to_postprocess() != kNobody || can_complete();
}

bool JobQueue::all_done() const { return free_.size() + unused_ == frames_ && waiting_.empty(); }

}  // namespace camd::pipeline
