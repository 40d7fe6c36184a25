// JobQueue: what the workers of a lane do next, and which of them sleep. It knows cameras and frames in flight by their
// numbers only: no device, no plug-ins, no clock. It never blocks, except for its own short lock.
//
// A frame passes through three jobs. Whoever has done one asks for the next:
//
//   job          at once       possible when
//   dispatch     one           a camera has a frame and is below its limit, and the device has room for a frame
//   postprocess  one a camera, and `posts` in all   a frame of the camera is complete
//   complete     one           a frame is on the device
//
// They are given out in this order: what keeps the device busy comes first, then what a camera's user waits for. To
// complete a frame comes last, because it waits for the device. Frames are completed, and each camera's frames are
// postprocessed, in the order in which they were dispatched.
//
// Of the cameras that have a frame, the one whose last dispatch is the longest ago is dispatched first; those that had
// none come before them, in the order in which they came. So where cameras ask for more than the device can do, each
// gets the same number of frames, whatever its rate, its delay and the moment at which its pictures come, and what it
// gets is its newest picture (docs/adr/0032-as-many-as-pay.md), or one that has hardly waited (capture::FrameRing).
//
// Whoever takes a job and leaves another behind wakes one sleeping worker: the one that fell asleep last, because its
// stack and what the kernel keeps of its thread are most likely still in a cache. Frames in flight are reused in the
// same way: the one that came back last goes out first (docs/adr/0021-warm-first.md).
//
// A camera can come later and leave earlier than its queue: adopt(), leave(). So it moves from one queue to another
// between two frames. What it published last in the old queue is postprocessed before what it publishes in the new one:
// until release() the new queue holds the camera's postprocessing back, and nothing else.
//
// Threads: constructor [setup]; publish() [source], one thread at a time for each camera; finish() on the thread that
//          publish() gave a job; next() [worker]; watch(), adopt(), release(), leave(), drain() [setup]; hold(),
//          busy(), dispatching(), postprocessing(), done() [any]. Nothing allocates after the constructor.
// Invariants: a frame in flight is free, in one job, on the device, or complete. A published frame is never forgotten:
//          a worker that falls asleep has looked at what was published, or the source sees that it sleeps.
#pragma once

#include <concurrentqueue.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.hpp"
#include "base/semaphore.hpp"
#include "capture/frame.hpp"

namespace camd::pipeline {

struct Job {
  enum class Kind : std::uint8_t { kNone, kDispatch, kComplete, kPostprocess };
  Kind kind = Kind::kNone;
  capture::CameraIndex camera = 0;
  int frame = 0;  // which of the frames in flight
  // What came of kDispatch; whoever has done it says so.
  bool dispatched = false;  // false: the camera had no frame that is worth it
  bool more = false;        // the camera has another frame
};

class JobQueue {
 public:
  struct Options {
    // For each camera of the pipeline: the most frames between dispatch and the end of postprocessing, >= 1. A camera
    // of another lane has 0.
    std::vector<int> limits;
    int device_depth = 1;  // the most frames on the device at once
    int frames = 0;        // frames in flight that the lane has
    bool adopted = true;   // false: no camera is here before adopt()
    int posts = 0;         // the most frames that are postprocessed at once; 0: one of each camera
  };
  enum class Next : std::uint8_t {
    kJob,    // `job` is the caller's
    kSleep,  // nothing to do: the caller waits for its semaphore and asks again
    kEnd,    // nothing to do, and there never will be
  };

  explicit JobQueue(const Options& options);
  JobQueue(const JobQueue&) = delete;
  JobQueue& operator=(const JobQueue&) = delete;

  // The most jobs that are done at once: more workers than this have nothing to do.
  [[nodiscard]] std::size_t most_workers() const noexcept { return most_workers_; }

  // [source] [no-alloc] `camera` has a new frame. Wakes a worker where one sleeps and can do something about it. With
  // `take`, the source would rather dispatch itself: where a worker sleeps and dispatch is possible, it gets that job
  // (true), does it and calls finish(). Where no worker sleeps this takes no lock: each looks again before it sleeps.
  [[nodiscard]] bool publish(capture::CameraIndex camera, bool take, Job& job);
  // [source] [no-alloc] The job from publish() is done. Wakes a worker where something is left to do.
  void finish(Job& job);

  // [worker] [no-alloc] The job that `job` holds is done (kNone: there was none); takes the next. `wake_up` is the
  // worker's own; after kSleep it is released once, and until then it must live.
  [[nodiscard]] Next next(base::Semaphore& wake_up, Job& job);

  // [setup] From now on each job that is done releases `done`, which outlives the queue; null: none does any more.
  void watch(base::Semaphore* done);
  // [setup] The camera's frames are dispatched from now on, also one that waits in its ring already. Until release()
  // none of them is postprocessed.
  void adopt(capture::CameraIndex camera);
  void release(capture::CameraIndex camera);
  // [setup] None of the camera's frames is dispatched from now on. What is under way goes on.
  void leave(capture::CameraIndex camera);
  // [any] [no-alloc] While it is held, the queue dispatches nothing; what is under way goes on.
  void hold(bool held);
  // [any] Whether one of the camera's frames is being dispatched: its ring must not be asked by anybody else.
  [[nodiscard]] bool dispatching(capture::CameraIndex camera) const;
  // [any] Whether one of the camera's frames is anywhere between publish() and the end of postprocessing.
  [[nodiscard]] bool busy(capture::CameraIndex camera);
  // [any] The frame in flight of this camera that is being postprocessed.
  [[nodiscard]] std::optional<int> postprocessing(capture::CameraIndex camera) const;

  // [setup] No frame is published any more. What has been published is still done; then every worker gets kEnd.
  void drain();
  // [any] Whether all that was published before drain() is done: every worker has its kEnd, or gets it.
  [[nodiscard]] bool done() const;

 private:
  static constexpr int kNone = -1;
  static constexpr int kHeldBack = -2;

  struct Camera {
    int limit = 0;               // 0: the camera is not here
    int on_the_way = 0;          // frames between dispatch and the end of postprocessing
    bool has_frame = false;      // or had one: the queue is not told when a frame is superseded or dropped; in waiting_
    std::uint64_t served = 0;    // the number of its last dispatch; 0: none
    int postprocessing = kNone;  // the frame in flight that is, or kHeldBack
    std::vector<int> completed;  // frames in flight that wait for postprocessing, in the order of dispatch
  };
  // A source's side of `published_`. Each has its own cache line, as sources write them without the lock.
  struct alignas(64) Announcement {
    explicit Announcement(moodycamel::ConcurrentQueue<capture::CameraIndex>& queue) : producer(queue) {}
    std::atomic<bool> pending{false};  // the camera is in `published_`
    moodycamel::ProducerToken producer;
  };
  struct OnDevice {
    capture::CameraIndex camera = 0;
    int frame = 0;
  };

  void settle(Job& job) CAMD_REQUIRES(mutex_);
  void note_frame(capture::CameraIndex camera) CAMD_REQUIRES(mutex_);
  bool stop_waiting(capture::CameraIndex camera) CAMD_REQUIRES(mutex_);
  [[nodiscard]] bool dispatches(capture::CameraIndex camera) const CAMD_REQUIRES(mutex_) {
    return dispatching_ && last_camera_ == camera;
  }
  void take_published() CAMD_REQUIRES(mutex_);
  [[nodiscard]] bool take_dispatch(Job& job) CAMD_REQUIRES(mutex_);
  [[nodiscard]] bool take_job(Job& job) CAMD_REQUIRES(mutex_);
  [[nodiscard]] int take_free() CAMD_REQUIRES(mutex_);
  // The worker that fell asleep last, whom the caller must then wake; null when none sleeps.
  [[nodiscard]] base::Semaphore* take_sleeper() CAMD_REQUIRES(mutex_);
  void wake_all() CAMD_REQUIRES(mutex_);
  // Whose turn it is for this job: a place in waiting_ or to_post_, or kNobody.
  [[nodiscard]] std::size_t to_dispatch() const CAMD_REQUIRES(mutex_);
  [[nodiscard]] std::size_t to_postprocess() const CAMD_REQUIRES(mutex_);
  [[nodiscard]] bool can_complete() const CAMD_REQUIRES(mutex_);
  [[nodiscard]] bool something_to_do() const CAMD_REQUIRES(mutex_);
  [[nodiscard]] bool all_done() const CAMD_REQUIRES(mutex_);

  static constexpr std::size_t kNobody = static_cast<std::size_t>(-1);

  const std::size_t device_depth_;
  const std::size_t frames_;
  const std::size_t posts_;
  const std::size_t most_workers_;
  const std::vector<int> limits_;

  // Cameras that have published since a worker last looked, each at most once. A source gets past busy workers through
  // it without waiting for their lock. Has room for every camera.
  moodycamel::ConcurrentQueue<capture::CameraIndex> published_;
  // How many of them there are, or will be at once: changed before a camera is put in and after it was taken out. Most
  // looks find none, and asking the queue itself costs ten times as much.
  std::atomic<int> announced_{0};
  std::vector<std::unique_ptr<Announcement>> announcements_;  // by camera
  std::atomic<int> sleepers_{0};  // workers that will not look at `published_` again before they are woken

  // Held to look at what follows and to change it, never while a job is done. The vectors have all the capacity that
  // they need from the beginning.
  mutable base::Mutex mutex_;
  base::Semaphore* done_ CAMD_GUARDED_BY(mutex_) = nullptr;  // watch()
  std::vector<Camera> cameras_ CAMD_GUARDED_BY(mutex_);
  std::vector<capture::CameraIndex> waiting_ CAMD_GUARDED_BY(mutex_);  // for dispatch, in the order of their last one
  std::vector<capture::CameraIndex> to_post_ CAMD_GUARDED_BY(mutex_);  // of each complete frame, in their order
  std::size_t posts_now_ CAMD_GUARDED_BY(mutex_) = 0;                  // frames that are being postprocessed
  std::vector<base::Semaphore*> asleep_ CAMD_GUARDED_BY(mutex_);       // the last one is woken first
  std::size_t unused_ CAMD_GUARDED_BY(mutex_);     // frames in flight 0 .. unused_-1 have not been used yet
  std::vector<int> free_ CAMD_GUARDED_BY(mutex_);  // the other free ones; the last one goes out first
  std::vector<OnDevice> on_device_
      CAMD_GUARDED_BY(mutex_);  // in the order of dispatch; the completing one is the first
  capture::CameraIndex last_camera_ CAMD_GUARDED_BY(mutex_) = 0;  // that was dispatched
  std::uint64_t served_before_ CAMD_GUARDED_BY(mutex_) = 0;       // by that camera
  std::uint64_t turns_ CAMD_GUARDED_BY(mutex_) = 0;               // dispatches so far
  bool held_ CAMD_GUARDED_BY(mutex_) = false;
  bool dispatching_ CAMD_GUARDED_BY(mutex_) = false;
  bool completing_ CAMD_GUARDED_BY(mutex_) = false;
  bool draining_ CAMD_GUARDED_BY(mutex_) = false;
};

}  // namespace camd::pipeline
