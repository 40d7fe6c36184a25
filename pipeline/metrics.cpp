#include "pipeline/metrics.hpp"

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

Metrics::Metrics(std::size_t cameras) {
  cameras_.reserve(cameras);
  for (std::size_t i = 0; i < cameras; ++i) cameras_.push_back(std::make_unique<Camera>());
}

void Metrics::record(capture::CameraIndex camera, const StageTimes& times, std::size_t h2d_bytes,
                     std::size_t d2h_bytes) noexcept {
  Camera& one = *cameras_[camera];
  one.stages.record(times);
  one.frames.fetch_add(1, std::memory_order_relaxed);
  one.h2d_bytes.fetch_add(h2d_bytes, std::memory_order_relaxed);
  one.d2h_bytes.fetch_add(d2h_bytes, std::memory_order_relaxed);
}

CameraMetrics Metrics::take(capture::CameraIndex camera) {
  Camera& one = *cameras_[camera];
  CameraMetrics taken;
  one.stages.take(taken.latency);
  taken.frames = one.frames.exchange(0, std::memory_order_relaxed);
  const auto h2d = static_cast<double>(one.h2d_bytes.exchange(0, std::memory_order_relaxed));
  const auto d2h = static_cast<double>(one.d2h_bytes.exchange(0, std::memory_order_relaxed));
  if (taken.frames > 0) {
    taken.h2d_bytes_per_frame = h2d / static_cast<double>(taken.frames);
    taken.d2h_bytes_per_frame = d2h / static_cast<double>(taken.frames);
  }
  return taken;
}

}  // namespace camd::pipeline
