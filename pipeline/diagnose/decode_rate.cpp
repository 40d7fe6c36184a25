#include "pipeline/diagnose/decode_rate.hpp"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "base/mutex.hpp"
#include "capture/frame_ring.hpp"
#include "capture/frame_source.hpp"

namespace camd::pipeline {
namespace {

using base::MutexLock;
using base::TimePoint;

constexpr base::Duration kFirstPatience = std::chrono::seconds(60);  // until each stream has shown a picture
constexpr double kCameraRate = 30;                                   // frames a second

// Takes every picture and gives it back at once.
class Streams final : public capture::FrameObserver, public capture::SourceListener {
 public:
  explicit Streams(int count) : rings(static_cast<std::size_t>(count)), waiting_(count), seen_(rings.size()) {}

  void captured(capture::CameraIndex /*stream*/) noexcept override {}
  void dropped(capture::CameraIndex /*stream*/, capture::RingDrop /*why*/) noexcept override {}
  void ready(capture::CameraIndex stream) noexcept override {
    (void)rings[stream]->take();
    const MutexLock lock(mutex_);
    ++frames_;
    if (!seen_[stream]) {
      seen_[stream] = true;
      --waiting_;
    }
    if (waiting_ == 0) changed_.notify_all();
  }
  void state_changed(capture::CameraIndex /*stream*/, capture::SourceState state,
                     const std::string& reason) noexcept override {
    if (state != capture::SourceState::kFailed) return;
    const MutexLock lock(mutex_);
    failure_ = reason;
    changed_.notify_all();
  }

  // [blocks] until each stream has shown a picture.
  void wait_for_all() {
    const TimePoint deadline = std::chrono::steady_clock::now() + kFirstPatience;
    const MutexLock lock(mutex_);
    while (waiting_ > 0 && failure_.empty() && std::chrono::steady_clock::now() < deadline) {
      (void)changed_.wait_until(mutex_, deadline);
    }
    if (!failure_.empty()) throw base::Error(base::ErrorKind::kSource, failure_);
    if (waiting_ > 0) throw base::Error(base::ErrorKind::kSource, "shows no picture within a minute");
  }
  // [blocks] until `frames` more have come, or for `patience`. Frames a second.
  double measure(std::uint64_t frames, base::Duration patience) {
    const TimePoint begun = std::chrono::steady_clock::now();
    const TimePoint deadline = begun + patience;
    const MutexLock lock(mutex_);
    const std::uint64_t before = frames_;
    while (frames_ < before + frames && failure_.empty() && std::chrono::steady_clock::now() < deadline) {
      (void)changed_.wait_until(mutex_, deadline);
    }
    if (!failure_.empty()) throw base::Error(base::ErrorKind::kSource, failure_);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun;
    return static_cast<double>(frames_ - before) / passed.count();
  }

  std::vector<std::unique_ptr<capture::FrameRing>> rings;

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  int waiting_ CAMD_GUARDED_BY(mutex_);  // streams that have shown nothing yet
  std::vector<bool> seen_ CAMD_GUARDED_BY(mutex_);
  std::uint64_t frames_ CAMD_GUARDED_BY(mutex_) = 0;
  std::string failure_ CAMD_GUARDED_BY(mutex_);
};

}  // namespace

DecodeRate measure_decoding(device::Device& device, const std::filesystem::path& clip, const DecodeTrial& trial) {
  config::FileSource file;
  file.path = clip;
  file.loop = true;
  file.realtime = false;
  config::Camera camera;
  camera.decode = trial.mode;
  camera.source = file;
  Streams streams(trial.streams);
  std::vector<std::unique_ptr<capture::FrameSource>> sources;
  for (int i = 0; i < trial.streams; ++i) {
    const auto index = static_cast<capture::CameraIndex>(i);
    camera.name = fmt::format("stream-{}", i);
    auto& ring = streams.rings[index];
    ring = std::make_unique<capture::FrameRing>(
        device, streams,
        capture::FrameRing::Options{index, capture::FrameRing::kLeastSlots, capture::RingPolicy::kLossless,
                                    device::HostMemory::kPinned});
    sources.push_back(capture::make_source(camera, index, *ring, streams, base::system_clock()));
  }
  for (const auto& source : sources) source->start();
  streams.wait_for_all();
  DecodeRate rate;
  rate.streams = trial.streams;
  rate.frames_per_second = streams.measure(trial.frames, trial.patience);
  const capture::DecoderStatus decoder = sources.front()->decoder();
  rate.decoder = decoder.name;
  rate.device = decoder.device;
  if (const auto layout = streams.rings.front()->newest_layout()) {
    rate.width = layout->width;
    rate.height = layout->height;
  }
  for (const auto& source : sources) source->request_stop();
  return rate;
}

std::string decode_rate_text(const DecodeRate& rate) {
  return fmt::format("{} {}x{}: {:.0f} frames/s in {} streams at once, as much as {:.0f} cameras of 30 frames/s",
                     rate.decoder, rate.width, rate.height, rate.frames_per_second, rate.streams,
                     std::floor(rate.frames_per_second / kCameraRate));
}

}  // namespace camd::pipeline
