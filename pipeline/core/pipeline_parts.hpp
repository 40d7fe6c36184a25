// The parts of a Pipeline: its cameras, and the crews that work for them. Private to pipeline*.cpp.
//
// Threads: each member says who may touch it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "capture/motion_gate.hpp"
#include "pipeline/core/pipeline.hpp"

namespace camd::pipeline {

// One camera in its slot. Hears of its ring's frames and its source's states.
struct Pipeline::Camera final : capture::FrameObserver, capture::SourceListener {
  Camera(Pipeline& its_pipeline, CameraSpec its_spec, CameraIndex its_slot)
      : pipeline(its_pipeline), spec(std::move(its_spec)), index(its_slot), lossless(spec.lossless) {
    if (spec.gate) gate = std::make_unique<capture::MotionGate>(*spec.gate);
  }

  // [source]
  void captured(CameraIndex camera) noexcept override { pipeline.ledger_.captured(camera); }
  // In the ring's lock.
  void dropped(CameraIndex camera, capture::RingDrop why) noexcept override;
  // [dispatch] [post] A frame that was on its way is not delivered.
  void lost(std::uint64_t sequence, DropReason why) noexcept {
    if (gate) gate->lost(sequence);
    pipeline.ledger_.dropped(index, why);
  }
  void ready(CameraIndex /*camera*/) noexcept override { pipeline.frame_ready(*this); }
  void state_changed(CameraIndex /*camera*/, capture::SourceState state, const std::string& reason) noexcept override {
    pipeline.state_changed(*this, state, reason);
  }
  [[nodiscard]] capture::FrameFates fates(CameraIndex camera) const noexcept override;

  Pipeline& pipeline;
  const CameraSpec spec;
  const CameraIndex index;
  const bool lossless;
  // Who works on its frames; null: nobody yet. A source that is about to use a crew says so in `inside` first and looks
  // again: whoever has changed `crew` before waits until `inside` is another one, and may then destroy the crew.
  std::atomic<Crew*> crew{nullptr};
  std::atomic<Crew*> inside{nullptr};
  std::unique_ptr<capture::FrameGate> gate;  // null: there is none
  std::unique_ptr<capture::FrameRing> ring;
  std::unique_ptr<capture::FrameSource> source;
  // [setup] What the last look at the load saw, and the rate of capture that came of it.
  std::uint64_t captured_before = 0;
  double rate = 0;
  // [post], which is one at a time for each camera.
  bool plugin_failing = false;  // so that only the first of a row of failures is logged
  int mapped_width = 0;         // of the pictures that `map` is for
  int mapped_height = 0;
  infer::PictureTransform map;
};

// A lane with its workers. It has a place for each of the pipeline's cameras, and works for those that it has adopted.
// Cameras that come later need other crews.
struct Pipeline::Crew {
  Crew(const LaneSpec& its_spec, const PipelineChange& change, const base::Clock& clock, const LaneOptions& of_lane)
      : spec(its_spec),
        postprocessors(change.postprocessors),
        options(change.options),
        lane(its_spec.device, its_spec.engine, change.postprocessors, clock, of_lane) {}

  // [any] Whether the device is lost, as far as anybody has noticed.
  [[nodiscard]] bool lost() const noexcept { return told_lost.load() || lane.lost(); }
  // [completion] [setup] The first call tells everybody.
  void tell_lost(Pipeline& of, const base::Status& failure);

  const LaneSpec spec;
  PostprocessorChain& postprocessors;
  const PipelineOptions options;
  Lane lane;
  std::vector<Camera*> cameras;  // by slot; null: none
  std::vector<int> ring_slots;   // by slot
  std::vector<std::thread> workers;
  // [setup] What the last look at the load saw.
  LaneWork work_before;
  double seconds_per_frame = 0;  // 0: not known
  double busy = 0;               // part of the time in which the device had a frame
  double completed_rate = 0;
  std::atomic<bool> told_lost{false};
  bool left = false;  // the device is lost and its cameras were told to go
};

// What a reload has built beside what runs.
struct Pipeline::Next {
  std::vector<std::unique_ptr<Camera>> cameras;  // by slot; null: nobody new
  std::vector<CameraIndex> removed;
  std::vector<std::unique_ptr<Crew>> crews;
  std::vector<Crew*> placed;  // by slot: who will work for it; null: there is no camera
};

// A camera on its way from one crew to another.
struct Pipeline::Moving {
  CameraIndex slot = 0;
  Crew* from = nullptr;  // whose frames of this slot come first; null: there are none
  Crew* to = nullptr;
  bool takes_over = false;  // the same camera: two crews must not ask its ring at the same time
  bool open_anew = false;   // its source has ended, as it made pictures on the device that it leaves
  bool adopted = false;
};

}  // namespace camd::pipeline
