// Where the times of frames are noted, counted and summarized.
#include "pipeline/core/metrics.hpp"

#include <span>
#include <utility>

namespace camd::pipeline {

std::string_view to_string(Stage stage) noexcept {
  switch (stage) {
    case Stage::kTotal: return "total";
    case Stage::kCapture: return "capture";
    case Stage::kQueue: return "queue";
    case Stage::kH2d: return "h2d";
    case Stage::kPreprocess: return "preprocess";
    case Stage::kInfer: return "infer";
    case Stage::kD2h: return "d2h";
    case Stage::kPostprocess: return "postprocess";
  }
  return "?";
}

void Metrics::Camera::count_noted() {
  counted = counted || noted_count > 0;
  for (std::size_t i = 0; i < noted_count; ++i) stages.record(noted[i]);
  noted_count = 0;
}

void Metrics::record(capture::CameraIndex camera, const StageTimes& times, std::size_t h2d_bytes,
                     std::size_t d2h_bytes) noexcept {
  Camera& one = cameras_[camera];
  const base::MutexLock lock(one.mutex);
  if (one.noted_count == kMostNoted) one.count_noted();
  one.noted[one.noted_count++] = times;
  ++one.frames;
  one.h2d_bytes += h2d_bytes;
  one.d2h_bytes += d2h_bytes;
}

CameraMetrics Metrics::take(capture::CameraIndex camera) {
  Camera& one = cameras_[camera];
  CameraMetrics taken;
  double h2d = 0;
  double d2h = 0;
  bool counted = false;
  std::array<std::array<base::Duration, kMostNoted>, kStageCount> noted;
  std::size_t noted_count = 0;
  {
    const base::MutexLock lock(one.mutex);
    if (one.counted) one.count_noted();  // the rest goes where the others are
    counted = std::exchange(one.counted, false);
    noted_count = std::exchange(one.noted_count, 0);
    for (std::size_t stage = 0; stage < kStageCount; ++stage) {
      for (std::size_t i = 0; i < noted_count; ++i) noted[stage][i] = one.noted[i][stage];
      one.stages.add_taken(stage, std::span(noted[stage]).first(noted_count));
    }
    taken.frames = std::exchange(one.frames, 0);
    h2d = static_cast<double>(std::exchange(one.h2d_bytes, 0));
    d2h = static_cast<double>(std::exchange(one.d2h_bytes, 0));
  }
  if (counted) {
    one.stages.take(taken.latency);
  } else {
    for (std::size_t stage = 0; stage < kStageCount; ++stage)
      taken.latency[stage] = summary_of(std::span(noted[stage]).first(noted_count));
  }
  if (taken.frames > 0) {
    taken.h2d_bytes_per_frame = h2d / static_cast<double>(taken.frames);
    taken.d2h_bytes_per_frame = d2h / static_cast<double>(taken.frames);
  }
  return taken;
}

std::array<DurationTotals, kStageCount> Metrics::totals(capture::CameraIndex camera) {
  Camera& one = cameras_[camera];
  {
    const base::MutexLock lock(one.mutex);
    one.count_noted();
  }
  std::array<DurationTotals, kStageCount> totals;
  one.stages.totals(totals);
  return totals;
}

void Metrics::retire(capture::CameraIndex camera) {
  Camera& one = cameras_[camera];
  {
    const base::MutexLock lock(one.mutex);
    one.noted_count = 0;
    one.counted = false;
    one.frames = one.h2d_bytes = one.d2h_bytes = 0;
  }
  one.stages.forget();
}

}  // namespace camd::pipeline
