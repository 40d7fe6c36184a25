// PathProbe: drives a FramePath with pictures of its own and measures it host to host: what `camd bench` tabulates and
// what `transfer: auto` chooses by.
//
// Threads: one thread; measure() and throughput() [block].
// Invariants: filling a slot is never part of a time. Times are exact (sorted values, nearest rank).
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/clock.hpp"
#include "base/picture.hpp"
#include "capture/frame_ring.hpp"
#include "pipeline/core/frame_path.hpp"

namespace camd::pipeline {

// Microseconds.
struct ProbeTimes {
  double min = 0, p50 = 0, p90 = 0, p99 = 0, p999 = 0, max = 0;
};

struct ProbeResult {
  // From the picture in host memory until the last wanted output can be read by the host; the stages by the device's
  // own clock, as in metrics.
  ProbeTimes e2e, h2d, preprocess, infer, d2h;
  ProbeTimes postprocess;     // the chain behind it, where that was called
  std::size_t h2d_bytes = 0;  // a frame
  std::size_t d2h_bytes = 0;
};

// A few different pictures: a path that mixes frames up is found out, and no kernel or cache can take a short cut.
[[nodiscard]] std::vector<std::vector<std::byte>> make_probe_pictures(const base::PictureLayout& layout);

class PathProbe {
 public:
  static constexpr int kInFlight = 3;  // frames in flight for the throughput
  static constexpr int kMostInFlight = 8;

  // `clock` measures. All references must outlive the probe. Throws Error(kDevice | kModel).
  PathProbe(const base::Clock& clock, device::Device& device, infer::Engine& engine, PostprocessorChain& postprocessors,
            const FramePathOptions& options, const base::PictureLayout& layout,
            const std::vector<std::vector<std::byte>>& pictures, int in_flight = kInFlight);

  // One frame after the other, `pace_fps` > 0: at that rate; `postprocess`: and the chain behind each. Throws
  // Error(kDeviceLost | kModel | kPlugin).
  [[nodiscard]] ProbeResult measure(int frames, int warmup, double pace_fps, bool postprocess = false);
  // Frames a second with all frames in flight that there are.
  [[nodiscard]] double throughput(int frames);
  // [blocks] One more frame in flight. Never more than kMostInFlight.
  void add_in_flight();
  // The outputs of every picture, as the host sees them, one after the other.
  [[nodiscard]] std::vector<std::vector<std::byte>> outputs();

 private:
  class NoObserver final : public capture::FrameObserver {
   public:
    void captured(capture::CameraIndex) noexcept override {}
    void dropped(capture::CameraIndex, capture::RingDrop) noexcept override {}
    void ready(capture::CameraIndex) noexcept override {}
  };
  void load(InFlight& in_flight, bool fill);
  void start(InFlight& in_flight);
  void finish(InFlight& in_flight);
  void postprocess(InFlight& in_flight);

  const base::Clock& clock_;
  device::Device& device_;
  infer::Engine& engine_;
  const base::PictureLayout layout_;
  const std::vector<std::vector<std::byte>>& pictures_;
  NoObserver observer_;
  FramePath path_;
  capture::FrameRing ring_;
  std::vector<std::unique_ptr<InFlight>> in_flights_;
};

}  // namespace camd::pipeline
