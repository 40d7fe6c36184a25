// Metrics: stage latencies and byte counts of every camera. They are recorded for each frame and read once a period.
//
// record() writes a frame's times into a small array. take() summarizes them from there, exactly. Where there are more
// than 64 in a period, or totals() is called in it, they are counted in the histograms, all at once: the histograms of
// a camera lie in several pages, and fetching those after a pause costs more than all the rest of record().
//
//   function   thread
//   record()   [any], a short lock for each camera, [no-alloc]
//   take()     [metrics] only
//   totals()   [any]
//   retire()   [setup]
//
// Invariants: every recorded frame is counted in exactly one take(), and so is each of its times; those that no take()
// had seen when their camera was retired are counted in none.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/mutex.hpp"
#include "capture/frame.hpp"
#include "pipeline/core/histogram.hpp"
#include "pipeline/core/slot_table.hpp"

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
  explicit Metrics(std::size_t cameras) : cameras_(cameras) {}  // [setup]
  void grow(std::size_t cameras) { cameras_.grow(cameras); }    // [setup] until there is room for so many
  // [any] [no-alloc] One delivered frame: its times and what it copied to and from the device.
  void record(capture::CameraIndex camera, const StageTimes& times, std::size_t h2d_bytes,
              std::size_t d2h_bytes) noexcept;
  // [metrics] What was recorded since the last take().
  [[nodiscard]] CameraMetrics take(capture::CameraIndex camera);
  // [any] The times of every frame that was recorded, by stage, taken or not.
  [[nodiscard]] std::array<DurationTotals, kStageCount> totals(capture::CameraIndex camera);
  // [setup] The camera is gone, with all its frames closed: its slot begins anew.
  void retire(capture::CameraIndex camera);

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
    bool counted CAMD_GUARDED_BY(mutex) = false;                      // others of this period are
    Histograms stages{kStageCount};
  };
  SlotTable<Camera> cameras_;
};

}  // namespace camd::pipeline
