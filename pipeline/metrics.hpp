// Metrics: stage latencies and byte counts of every camera, recorded by the stages, read once a period.
//
// A frame is only noted, in a line or two of memory. Its times are counted in the histograms later, many frames at
// once: those lie in several pages for each camera, which cost more to fetch after a pause than all the rest of
// record().
//
// Threads: record() [any], a short lock per camera, [no-alloc]; take() [metrics] only.
// Invariants: every recorded frame is counted in exactly one take(), and so is each of its times.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/mutex.hpp"
#include "capture/frame.hpp"
#include "pipeline/histogram.hpp"

namespace camd::pipeline {

// The stages of a delivered frame. Their times add up to kTotal exactly, because kQueue is all the waiting:
//   kCapture      from the capture stamp to arrival in camd
//   kQueue        waiting: for room on the device, between the device's stages, for a worker
//   kH2d          upload of the picture (0 in mapped memory)
//   kPreprocess   colour, resize, normalise
//   kInfer        the network
//   kD2h          from the network's end until the last wanted output is in host memory (0 when nothing is copied)
//   kPostprocess  from then to the last postprocessor's return, waiting for the frame before included
enum class Stage : std::uint8_t { kTotal, kCapture, kQueue, kH2d, kPreprocess, kInfer, kD2h, kPostprocess };
inline constexpr std::size_t kStageCount = 8;
[[nodiscard]] std::string_view to_string(Stage stage) noexcept;

using StageTimes = std::array<base::Duration, kStageCount>;

struct CameraMetrics {
  std::array<LatencySummary, kStageCount> latency;
  std::uint64_t frames = 0;  // delivered since the last take()
  double h2d_bytes_per_frame = 0;
  double d2h_bytes_per_frame = 0;
};

class Metrics {
 public:
  explicit Metrics(std::size_t cameras);
  void record(capture::CameraIndex camera, const StageTimes& times, std::size_t h2d_bytes,
              std::size_t d2h_bytes) noexcept;
  // What was recorded since the last take().
  [[nodiscard]] CameraMetrics take(capture::CameraIndex camera);

 private:
  static constexpr std::size_t kMostNoted = 64;  // two seconds of a camera at 30 a second, four kilobytes
  struct Camera {
    void count_noted() CAMD_REQUIRES(mutex);

    base::Mutex mutex;
    std::size_t noted_count CAMD_GUARDED_BY(mutex) = 0;
    std::uint64_t frames CAMD_GUARDED_BY(mutex) = 0;
    std::uint64_t h2d_bytes CAMD_GUARDED_BY(mutex) = 0;
    std::uint64_t d2h_bytes CAMD_GUARDED_BY(mutex) = 0;
    std::array<StageTimes, kMostNoted> noted CAMD_GUARDED_BY(mutex);  // the first `noted_count` are not in `stages` yet
    Histograms stages{kStageCount};
  };
  std::vector<std::unique_ptr<Camera>> cameras_;
};

}  // namespace camd::pipeline
