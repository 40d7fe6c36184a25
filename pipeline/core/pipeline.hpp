// Pipeline: carries frames from cameras to plug-ins. It owns the cameras, the lanes that compute their frames, the
// workers and the accounting, and starts and stops them in order.
//
//   Idle -> Starting -> Running -> Draining -> Stopped        Failed: start() threw
//
// Sources fill slots and publish them, on threads of their own. What follows are three jobs for each frame, and not
// threads: the workers of a lane are equal, and take whatever its queue gives out (job_queue.hpp says in which order).
// So a frame that meets an idle pipeline wakes one worker and not one for each job (docs/adr/0013-jobs-not-threads.md).
//
//   [dispatch]    takes the newest frame of a camera and enqueues it on the device
//   [completion]  waits for the device, in the order of dispatch; frees slots
//   [post]        runs the plug-ins, in the order of dispatch; closes the frame
//
// Where the device works by itself, a live source that finds a worker asleep dispatches its frame itself before it
// wakes that worker (docs/adr/0020-sources-dispatch.md).
//
// Each device has a lane, each camera belongs to one of them, and cameras are spread by measured load. Cameras outlive
// the lane that computes their frames: each stays in its slot, with its ring, sequence numbers and accounting. A camera
// moves to another lane between two of its frames: when the load is uneven, when its device is lost, and when reload()
// has made new lanes for other cameras, other plug-ins, another network or other devices. What a camera published
// before is postprocessed by the old lane before anything of it in the new one. The first start is a reload from
// nothing (docs/adr/0025-reload-between-frames.md, docs/adr/0027-several-devices.md).
//
// Back-pressure: a frame is taken from its ring only when the device has room (device_depth) and its camera has fewer
// than the allowed number of frames on the way. Until then it waits in the ring, where a newer one supersedes it: the
// newest wins, nothing grows.
//
// Threads: constructor, start(), reload(), wait_for_end(), stop(), hanging(), set_frame_limit() [setup], one thread;
// the rest [any].
// Invariants: every captured frame is closed in the ledger exactly once; after stop() nothing is in flight in it. A
// camera's frames are postprocessed one at a time and in their order, across reloads too. A reload that throws has
// changed nothing for cameras that it does not alter. Clock, listener, tap and every device that was ever given outlive
// the pipeline; engines and postprocessors do so until a reload that replaced them has returned.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/mutex.hpp"
#include "base/semaphore.hpp"
#include "capture/frame_source.hpp"
#include "config/config.hpp"
#include "device/device.hpp"
#include "infer/engine.hpp"
#include "pipeline/core/frame_path.hpp"
#include "pipeline/core/frame_tap.hpp"
#include "pipeline/core/in_flight.hpp"
#include "pipeline/core/job_queue.hpp"
#include "pipeline/core/lane.hpp"
#include "pipeline/core/ledger.hpp"
#include "pipeline/core/metrics.hpp"
#include "pipeline/core/placement.hpp"
#include "pipeline/core/postprocessor_chain.hpp"
#include "pipeline/core/sights.hpp"

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
  std::optional<config::MotionGate> gate{};  // none: every frame goes on
};

// What a lane is made of.
struct LaneSpec {
  std::string name;  // of the device, as users write it: "cuda:0"
  device::Device& device;
  infer::Engine& engine;
  FramePathOptions path;
  int device_depth = 0;          // the most frames on the device at once; 0: DeviceInfo::default_depth
  double frames_per_second = 0;  // that the device can do; 0: not known before frames have come
};

struct PipelineOptions {
  int slots = 3;                                            // of each ring; more are added while plug-ins hold pictures
  base::Duration max_age = std::chrono::milliseconds(200);  // lossless cameras are exempt

  friend bool operator==(const PipelineOptions&, const PipelineOptions&) = default;
};

// What reload() shall bring about. A camera that stays keeps the lane of its device's name; where there is none any
// more, or where it has another kind of memory for pictures (picture_memory()), every camera that stays must be
// altered.
struct PipelineChange {
  struct Camera {
    capture::CameraIndex slot = 0;  // a free one: the camera is added; a taken one: it is altered
    CameraSpec spec;
  };
  // What all frames go through from now on; may be what they go through already. One lane or more.
  std::vector<LaneSpec> lanes;
  PostprocessorChain& postprocessors;
  PipelineOptions options;
  std::vector<Camera> cameras;
  std::vector<capture::CameraIndex> removed;  // slots
  // Called once, when nothing can be refused any more and no new frame has gone the new way. May be empty. Must not
  // throw.
  std::function<void()> accepted;
};

// A camera as it is at this moment.
struct CameraView {
  capture::CameraIndex index = 0;  // its slot: stays the same as long as the camera has its name
  std::string name;
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
  kDeviceLost,     // the last device is lost
};

// What a plug-in may take for a frame once everything shall end, and what a device may.
inline constexpr base::Duration kPluginPatience = std::chrono::milliseconds(1500);
inline constexpr base::Duration kDevicePatience = std::chrono::seconds(8);
// What destroying the sources may take then. A GPU's driver destroys decoders one after the other, each in some 50 ms.
inline constexpr base::Duration kDestroyPatience = std::chrono::seconds(1);
// How often the load of the lanes is looked at, by the pipeline's clock.
inline constexpr base::Duration kLookAtLoad = std::chrono::seconds(1);

// A lane as it is at this moment.
struct LaneView {
  std::string name;
  std::string device;  // DeviceInfo::name
  bool lost = false;
  std::size_t cameras = 0;
  double load = 0;               // part of the device's time that the cameras ask for
  double busy = 0;               // part of the last second in which it had a frame
  double completed = 0;          // frames a second that came back from it, in that time
  int device_depth = 0;          // the most frames on it at once
  std::size_t memory_bytes = 0;  // that it has taken; 0 where it works in host memory
};

// Hears of changes of state. [source] or [completion]: must be quick and must not call the pipeline.
class PipelineListener {
 public:
  virtual ~PipelineListener() = default;
  virtual void camera_changed(capture::CameraIndex camera, capture::SourceState state, const std::string& reason) = 0;
  // Once for each lane. `device` is LaneSpec::name.
  virtual void device_lost(const std::string& device, const std::string& reason) = 0;
  // [setup] A reload has removed the camera; all its frames are closed.
  virtual void camera_removed(const std::string& /*name*/, const Totals& /*totals*/) {}
};

class Pipeline final {
 public:
  // [setup] Allocates everything, and spreads the cameras over the lanes. Throws Error(kDevice | kModel). `listener`
  // and `tap` may be null.
  Pipeline(const std::vector<LaneSpec>& lanes, PostprocessorChain& postprocessors, const base::Clock& clock,
           std::vector<CameraSpec> cameras, const PipelineOptions& options, PipelineListener* listener,
           FrameTap* tap = nullptr);
  ~Pipeline();  // stop(false); [blocks] until what hung has returned
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // [setup] Idle -> Running. Throws what a source throws when it can never work; then the state is Failed and all is
  // stopped.
  void start();
  // [setup] [blocks] Running -> Running, with `change`. Cameras that it neither alters nor removes lose no frame by it.
  // A removed camera's last frames are delivered; so are those of an altered one, which keeps its sequence numbers and
  // its account. Returns when the frames of before have passed the plug-ins and nothing of the old lane is left. Throws
  // Error(kDevice | kModel | kSource | kConfig): all is as it was, except that a camera that it would have altered may
  // have been opened anew. In other states: Error(kState).
  void reload(const PipelineChange& change);
  // [setup] [blocks] Running -> Stopped: sources, then what is on the way, then the workers. With `deliver_ready`
  // frames that wait in the rings are still delivered, else they are dropped as shutdown. In other states: nothing.
  // Where a plug-in does not return and no frame has moved for `patience` of real time, or a device for
  // kDevicePatience, it is named and left behind, and the ledger is sealed: false. The destructor then waits until it
  // has returned after all; whoever cannot wait must leave the process without it.
  // Sources that are not destroyed within `destroy_patience` are kept: see keeps_sources().
  bool stop(bool deliver_ready, base::Duration patience = kPluginPatience,
            base::Duration destroy_patience = kDestroyPatience);
  // [setup] Whether stop() has kept sources, which have ended, because destroying them takes long. The destructor
  // destroys them. A process that ends leaves them to the system, as quickly as it can.
  [[nodiscard]] bool keeps_sources() const noexcept { return keeps_sources_; }
  // [setup] [blocks] Which camera's frame is in which plug-in, a line each, and did not come out of it for `patience`
  // of real time. Returns as soon as all that are in one now have come out.
  [[nodiscard]] std::vector<std::string> hanging(base::Duration patience);

  // [setup] [blocks] until something ends the run, or `deadline` on the pipeline's clock. Meanwhile it looks after the
  // lanes: the cameras of one whose device is lost move to the others at once, and once a second cameras move where the
  // load is uneven.
  [[nodiscard]] EndReason wait_for_end(base::TimePoint deadline);
  void request_end();                             // [any]
  void forget_request();                          // [any] undoes request_end()
  void set_frame_limit(std::uint64_t delivered);  // before start(); 0: none

  [[nodiscard]] PipelineState state() const noexcept { return state_.load(); }
  [[nodiscard]] const Ledger& ledger() const noexcept { return ledger_; }
  [[nodiscard]] Metrics& metrics() noexcept { return metrics_; }
  [[nodiscard]] Sights& sights() noexcept { return sights_; }
  // In the order of their slots.
  [[nodiscard]] std::vector<CameraView> cameras() const;
  // The slot of the camera of that name; nothing where there is none.
  [[nodiscard]] std::optional<capture::CameraIndex> find_camera(std::string_view name) const;
  [[nodiscard]] CameraStatus camera_status(capture::CameraIndex camera) const;
  // What the camera's capture times rest on, now or last.
  [[nodiscard]] capture::ClockStatus camera_clock(capture::CameraIndex index) const;
  // What was lost before a frame was captured, since the camera was added.
  [[nodiscard]] capture::UpstreamLosses camera_losses(capture::CameraIndex index) const;
  [[nodiscard]] std::uint64_t camera_copied_bytes(capture::CameraIndex index) const;
  // [any] What decodes the camera's pictures; empty where nothing does.
  [[nodiscard]] capture::DecoderStatus camera_decoder(capture::CameraIndex index) const;
  // Bytes that the lanes' devices have taken, but for devices that work in host memory.
  [[nodiscard]] std::size_t device_memory() const;
  // Ok, or the failure of the first device that has one.
  // LaneSpec::name of the lane that works for the camera; empty: none does yet.
  [[nodiscard]] std::string camera_lane(capture::CameraIndex camera) const;
  // In the order of LaneSpec. Empty before start().
  [[nodiscard]] std::vector<LaneView> lanes() const;
  // Ok, or the failure of the last device that was lost where none is left.
  [[nodiscard]] base::Status device_status() const;

 private:
  struct Camera;
  struct Crew;
  struct Next;
  struct Moving;
  struct Slot {
    // Another source takes over, or none. The one before lives still.
    void show(const capture::FrameSource* now) {
      if (source != nullptr) clock = source->clock();
      if (source != nullptr) losses += source->losses();
      if (source != nullptr) decoder = source->decoder();
      if (source != nullptr) copied_bytes += source->copied_bytes();
      source = now;
    }
    std::string name;  // empty: nobody has it
    CameraStatus status;
    capture::DecoderStatus decoder;                // the last one of a source that is gone
    const capture::FrameSource* source = nullptr;  // asked by camera_clock() under mutex_
    capture::ClockStatus clock;                    // the last one of a source that is gone
    capture::UpstreamLosses losses;                // of sources that are gone
    std::uint64_t copied_bytes = 0;                // of sources that are gone
    std::string lane;
  };

  struct Inside {
    CameraIndex camera = 0;
    std::string plugin;
  };
  [[nodiscard]] std::vector<Inside> inside_plugins() const;
  [[nodiscard]] bool drain(base::Duration patience);
  [[nodiscard]] PipelineChange as_it_is() const;
  [[nodiscard]] Next build(const PipelineChange& change);
  void place_cameras(Next& next) const;
  void move_to(Next next);
  void hand_over(Camera& camera, Crew& to, bool open_anew);
  [[nodiscard]] bool go_on(Moving& moving);
  [[nodiscard]] bool on_its_way(capture::CameraIndex slot) const;
  void settle(base::Duration patience);
  void settle_now();
  void look_after_lanes();
  void measure_load(double seconds);
  void evacuate();
  void balance();
  void show_lanes();
  void loads_now(std::vector<LaneLoad>& of_lanes, std::vector<Camera*>& cameras,
                 std::vector<CameraLoad>& of_cameras) const;
  void take_slot(Camera& camera);
  void show_source(capture::CameraIndex index, const capture::FrameSource* source);
  void leave_slot(capture::CameraIndex slot);
  void restore(const std::vector<capture::CameraIndex>& slots);
  void close(const std::vector<capture::CameraIndex>& slots, bool deliver_ready);
  void state_changed(const Camera& camera, capture::SourceState state, const std::string& reason);
  void frame_ready(Camera& camera);

  void publish(Crew& crew, Camera& camera);
  void work_loop(Crew& crew);
  void dispatch(Crew& crew, Job& job);
  [[nodiscard]] bool take_frame(Crew& crew, Camera& camera, InFlight& in_flight);
  void complete(Crew& crew, InFlight& in_flight);
  void postprocess(Crew& crew, Camera& camera, InFlight& in_flight);
  void fill_frame(const Crew& crew, Camera& camera, const InFlight& in_flight, camd_frame& frame,
                  camd_picture& picture) const;
  void changed();
  void closed_one();

  const base::Clock& clock_;
  PipelineListener* const listener_;
  FrameTap* const tap_;  // null: nobody can look on

  Ledger ledger_;
  Metrics metrics_;
  Sights sights_;
  std::atomic<PipelineState> state_{PipelineState::kIdle};
  std::vector<std::unique_ptr<Camera>> cameras_;  // [setup] by slot; null: a free one
  std::size_t workers_made_ = 0;                  // [setup] of all lanes so far
  std::atomic<std::size_t> live_sources_{0};      // that have neither ended nor failed
  std::uint64_t frame_limit_ = 0;                 // before start()
  bool keeps_sources_ = false;                    // [setup]
  std::unique_ptr<Next> first_;                   // [setup] until start()
  std::vector<Crew*> lanes_;                      // [setup] those that work, in the order of LaneSpec
  std::vector<Moving> moving_;                    // [setup] cameras whose old lane still has frames of them
  base::TimePoint looked_;                        // [setup] when the load was measured last
  base::Semaphore job_done_;                      // where somebody watches the jobs

  mutable base::Mutex mutex_;
  base::CondVar changed_;  // something that may end the run
  bool end_requested_ CAMD_GUARDED_BY(mutex_) = false;
  std::vector<Slot> slots_ CAMD_GUARDED_BY(mutex_);
  std::vector<std::pair<Crew*, LaneView>> shown_lanes_ CAMD_GUARDED_BY(mutex_);  // lanes_, for [any]
  // Those that work, and during a reload those before them. Destroyed before the cameras, whose slots their frames may
  // hold.
  std::vector<std::unique_ptr<Crew>> crews_ CAMD_GUARDED_BY(mutex_);
};

}  // namespace camd::pipeline
