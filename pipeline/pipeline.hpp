// Pipeline: owns the stages of a frame's life, their threads and what is in flight, and starts and stops them in order.
//
//   Idle -> Starting -> Running -> Draining -> Stopped        Failed: start() threw
//
// Sources fill slots and publish, on threads of their own. The stages behind them are jobs, not threads: equal workers,
// enough for every stage to be busy at once, take whatever there is to do. Who has finished a job takes the next one,
// so that a frame that meets an idle pipeline wakes one worker and not one for each stage (adr/0013). Where the device
// works by itself, a live source that finds nobody dispatching does it before it wakes that worker (adr/0020):
//
//   job           at once       does
//   [dispatch]    one           takes the newest frame of a camera and enqueues it on the device
//   [completion]  one           waits for the device, in the order of dispatch; frees slots, hands frames on
//   [post]        one a camera  runs the plug-ins, in the order of dispatch; closes the frame
//
// Back-pressure: a frame is taken from its ring only when the device has room (device_depth) and its camera has fewer
// than the allowed number of frames on the way. Until then it waits in the ring, where a newer one supersedes it: the
// newest wins, nothing grows.
//
// Threads of the public functions: constructor, start(), stop() [setup] one thread; the rest [any].
// Invariants: every captured frame is closed in the ledger exactly once; after stop() nothing is in flight.
// Device, engine, plug-in host and clock outlive the pipeline.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <concurrentqueue.h>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "base/semaphore.hpp"
#include "capture/frame_source.hpp"
#include "pipeline/frame_path.hpp"
#include "pipeline/ledger.hpp"
#include "pipeline/metrics.hpp"
#include "pipeline/plugin_host.hpp"

namespace camd::pipeline {

enum class PipelineState : std::uint8_t { kIdle, kStarting, kRunning, kDraining, kStopped, kFailed };
[[nodiscard]] std::string_view to_string(PipelineState state) noexcept;

// Makes a camera's source. Called once, in start().
using SourceFactory = std::function<std::unique_ptr<capture::FrameSource>(
    capture::CameraIndex camera, capture::FrameRing& ring, capture::SourceListener& listener)>;

struct CameraSpec {
  std::string name;
  bool lossless = false;  // takes pictures as fast as they are used and drops none
  SourceFactory make_source;
};

struct PipelineOptions {
  FramePathOptions path;
  int slots = 3;                                            // of each ring; more are added while plug-ins hold pictures
  base::Duration max_age = std::chrono::milliseconds(200);  // lossless cameras are exempt
  // Frames on the device at once, 0: one on the host (a second would only wait where it cannot be superseded),
  // two on a GPU (one is uploaded while another is computed).
  int device_depth = 0;
};

struct CameraStatus {
  capture::SourceState state = capture::SourceState::kStarting;
  std::string reason;
};

// Why wait_for_end() returned.
enum class EndReason : std::uint8_t {
  kTimeout,        // the deadline has passed
  kRequested,      // request_end()
  kSourcesEnded,   // every source has ended or failed, at least one ended, and their frames are closed
  kSourcesFailed,  // every source has failed for good
  kFrameLimit,     // the wanted number of frames was delivered
  kDeviceLost,
};

// Hears of changes of state. [source] or [completion]: must be quick and must not call the pipeline.
class PipelineListener {
 public:
  virtual ~PipelineListener() = default;
  virtual void camera_changed(capture::CameraIndex camera, capture::SourceState state, const std::string& reason) = 0;
  virtual void device_lost(const std::string& reason) = 0;
};

class Pipeline final : private capture::FrameObserver, private capture::SourceListener {
 public:
  // Allocates everything. Throws Error(kDevice | kModel). `listener` may be null.
  Pipeline(device::Device& device, infer::Engine& engine, PluginHost& plugins, const base::Clock& clock,
           std::vector<CameraSpec> cameras, const PipelineOptions& options, PipelineListener* listener);
  ~Pipeline() override;  // stop(false)
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Idle -> Running. Throws what a source throws when it can never work; then the state is Failed and all is stopped.
  void start();
  // Running -> Stopped [blocks]: sources, then what is on the way, then the stages' threads. With `deliver_ready`
  // frames that wait in the rings are still delivered, else they are dropped as shutdown. In other states: nothing.
  void stop(bool deliver_ready);

  // [any] [blocks] until something ends the run, or `deadline` on the pipeline's clock.
  [[nodiscard]] EndReason wait_for_end(base::TimePoint deadline);
  void request_end();                             // [any]
  void forget_request();                          // [any] undoes request_end()
  void set_frame_limit(std::uint64_t delivered);  // before start(); 0: none

  [[nodiscard]] PipelineState state() const noexcept { return state_.load(); }
  [[nodiscard]] const Ledger& ledger() const noexcept { return ledger_; }
  [[nodiscard]] Metrics& metrics() noexcept { return metrics_; }
  [[nodiscard]] const std::vector<CameraSpec>& cameras() const noexcept { return cameras_; }
  [[nodiscard]] CameraStatus camera_status(capture::CameraIndex camera) const;
  [[nodiscard]] base::Status device_status() const { return device_.status(); }

 private:
  struct Camera;  // ring, source, state

  // capture::FrameObserver
  void captured(capture::CameraIndex camera) noexcept override;
  void dropped(capture::CameraIndex camera, DropReason reason) noexcept override;
  void ready(capture::CameraIndex index) noexcept override;
  // capture::SourceListener
  void state_changed(capture::CameraIndex camera, capture::SourceState state,
                     const std::string& reason) noexcept override;

  struct Job;
  void work_loop();
  // Settles the job that was done and takes the next, asleep on `bed` until there is one. False: none will come.
  [[nodiscard]] bool next_job(base::Semaphore& bed, Job& job);
  void settle(Job& job) CAMD_REQUIRES(work_mutex_);
  // The worker that fell asleep last, whom the caller must then wake; null when none sleeps. What it needs is still in
  // some cache: its stack, and all that the kernel keeps of a thread.
  [[nodiscard]] base::Semaphore* take_sleeper() CAMD_REQUIRES(work_mutex_);
  void wake_all() CAMD_REQUIRES(work_mutex_);
  void take_published() CAMD_REQUIRES(work_mutex_);
  [[nodiscard]] bool take_job(Job& job) CAMD_REQUIRES(work_mutex_);
  [[nodiscard]] InFlight* take_free() CAMD_REQUIRES(work_mutex_);
  [[nodiscard]] Camera* to_dispatch() const CAMD_REQUIRES(work_mutex_);
  [[nodiscard]] Camera* to_postprocess() const CAMD_REQUIRES(work_mutex_);
  [[nodiscard]] bool to_complete() const CAMD_REQUIRES(work_mutex_);
  [[nodiscard]] bool something_to_do() const CAMD_REQUIRES(work_mutex_);
  [[nodiscard]] bool all_closed() const CAMD_REQUIRES(work_mutex_);
  void dispatch(Job& job);
  [[nodiscard]] bool take_frame(Camera& camera, InFlight& in_flight);
  void complete(InFlight& in_flight);
  void postprocess(Camera& camera, InFlight& in_flight);
  void fill_frame(Camera& camera, const InFlight& in_flight, camd_frame& frame, camd_picture& picture) const;
  void report_device_lost(const base::Status& status);
  void changed();
  void closed_one();

  device::Device& device_;
  infer::Engine& engine_;
  PluginHost& plugins_;
  const base::Clock& clock_;
  const std::vector<CameraSpec> cameras_;
  const PipelineOptions options_;
  PipelineListener* const listener_;
  const int device_depth_;
  const bool sources_dispatch_;
  const bool hold_pictures_;

  Ledger ledger_;
  Metrics metrics_;
  FramePath path_;
  std::atomic<PipelineState> state_{PipelineState::kIdle};
  // Cameras that have published since a worker last looked, each at most once: a source gets past busy workers without
  // waiting for their lock, and knocks only where one sleeps. Allocated in the constructor.
  moodycamel::ConcurrentQueue<Camera*> published_;
  std::vector<std::unique_ptr<Camera>> camera_;
  std::vector<std::unique_ptr<InFlight>> in_flights_;

  std::vector<std::thread> workers_;

  std::atomic<int> sleepers_{0};  // workers that may not look at published_ again by themselves

  // What else there is to do. Held to look and to change it only, never while a job is done. The queues have the
  // capacity that they need from the beginning.
  mutable base::Mutex work_mutex_;
  // Of workers without a job; the last one is woken first.
  std::vector<base::Semaphore*> asleep_ CAMD_GUARDED_BY(work_mutex_);
  std::size_t unused_ CAMD_GUARDED_BY(work_mutex_) = 0;            // the first of in_flights_, which no frame has had
  std::vector<InFlight*> free_ CAMD_GUARDED_BY(work_mutex_);       // the others; the last comes first
  std::vector<InFlight*> on_device_ CAMD_GUARDED_BY(work_mutex_);  // in the order of dispatch, the completing one too
  std::size_t last_camera_ CAMD_GUARDED_BY(work_mutex_) = 0;       // that was dispatched: cameras take turns
  bool dispatching_ CAMD_GUARDED_BY(work_mutex_) = false;
  bool completing_ CAMD_GUARDED_BY(work_mutex_) = false;
  bool draining_ CAMD_GUARDED_BY(work_mutex_) = false;
  std::atomic<bool> device_lost_{false};
  std::atomic<std::size_t> live_sources_;  // that have neither ended nor failed

  mutable base::Mutex mutex_;  // what ends a run, and the cameras' states
  base::CondVar changed_;
  bool end_requested_ CAMD_GUARDED_BY(mutex_) = false;
  std::uint64_t frame_limit_ = 0;
};

}  // namespace camd::pipeline
