// Lane: one device with all that works for it: the engine, the way of a frame through the device, the frames in flight
// and the queue of jobs on them. Every camera belongs to one lane; lanes share nothing with each other. There is one
// for each device, and as many more while a reload moves the cameras to them.
//
// Threads: constructor, accessors of parts [any]; complete() [completion]; lost(), work() [any].
// Invariants: as many frames in flight as it takes for the device to be full while as many are with their plug-ins as
//          may be at once, all made in the constructor; however many cameras there are. A device that was lost stays
//          lost. Device, engine, postprocessors and clock outlive the lane.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "device/device.hpp"
#include "infer/engine.hpp"
#include "pipeline/core/frame_path.hpp"
#include "pipeline/core/in_flight.hpp"
#include "pipeline/core/job_queue.hpp"
#include "pipeline/core/postprocessor_chain.hpp"

namespace camd::pipeline {

struct LaneOptions {
  FramePathOptions path;
  int device_depth = 1;     // the most frames on the device at once
  std::vector<int> limits;  // JobQueue::Options::limits
  bool adopted = true;      // JobQueue::Options::adopted
  int posts = 0;            // JobQueue::Options::posts; 0: as many as the processors are good for
};

// How many frames a lane postprocesses at once unless it is told: plug-ins are code of the CPU.
[[nodiscard]] int default_posts() noexcept;

// What a lane has done so far.
struct LaneWork {
  std::uint64_t frames = 0;  // completed
  base::Duration busy{0};    // time in which the device had a frame
};

// The frames that a lane of so many cameras has in flight: one of each with its plug-ins, or of as many as are worked
// for at once, while the device is full.
[[nodiscard]] int frames_in_flight(int cameras, int device_depth) noexcept;

class Lane {
 public:
  // [setup] Allocates everything. Throws Error(kDevice | kModel).
  Lane(device::Device& device, infer::Engine& engine, PostprocessorChain& postprocessors, const base::Clock& clock,
       const LaneOptions& options);
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  [[nodiscard]] device::Device& device() const noexcept { return device_; }
  [[nodiscard]] const infer::Engine& engine() const noexcept { return engine_; }
  [[nodiscard]] FramePath& path() noexcept { return path_; }
  [[nodiscard]] JobQueue& jobs() noexcept { return jobs_; }
  // Job::frame.
  [[nodiscard]] InFlight& frame(int index) noexcept { return *frames_[static_cast<std::size_t>(index)]; }

  // Whether a source's thread may hand its frame to the device itself (docs/adr/0020-sources-dispatch.md).
  [[nodiscard]] bool sources_dispatch() const noexcept { return sources_dispatch_; }
  // Whether plug-ins read the picture, so that its slot is held until they have returned.
  [[nodiscard]] bool holds_pictures() const noexcept { return holds_pictures_; }

  // [setup] [blocks] Sends a black picture of each layout all the way, by each of the frames in flight that will be
  // used first: the first picture of a camera then finds kernels loaded, graphs captured and memory touched. Before any
  // job. Throws Error(kDeviceLost | kDevice): memory for it cannot be had. Any other failure is left to the camera's
  // frames.
  void warm(const std::vector<base::PictureLayout>& layouts);

  // [completion] [blocks] until the device has done the frame, which gets its status and the time of its completion.
  // Frees its slot as soon as the device has read it, unless plug-ins or a tap read the picture. True: the device is
  // lost, and nobody has been told so before.
  [[nodiscard]] bool complete(InFlight& in_flight);
  // Whether complete() has found the device lost.
  [[nodiscard]] bool lost() const noexcept { return lost_.load(); }
  // [any] What warm() did is not in it.
  [[nodiscard]] LaneWork work() const noexcept { return {frames_done_.load(), base::Duration(busy_ns_.load())}; }
  [[nodiscard]] int device_depth() const noexcept { return device_depth_; }

 private:
  [[nodiscard]] bool wait_for(InFlight& in_flight);

  device::Device& device_;
  infer::Engine& engine_;
  const base::Clock& clock_;
  const int device_depth_;
  const bool sources_dispatch_;
  const bool holds_pictures_;
  std::atomic<bool> lost_{false};
  // Written by [completion] alone, which is one at a time.
  std::atomic<std::uint64_t> frames_done_{0};
  std::atomic<std::int64_t> busy_ns_{0};
  base::TimePoint busy_until_{};
  FramePath path_;
  std::vector<std::unique_ptr<InFlight>> frames_;
  JobQueue jobs_;
};

}  // namespace camd::pipeline
