// How many frames in flight a lane has, and how it waits for one of them.
#include "pipeline/core/lane.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "base/cpus.hpp"
#include "capture/frame_ring.hpp"

namespace camd::pipeline {
namespace {

using base::ErrorKind;
using base::Status;

// To dispatch must not make the source wait, and helps only where the device then works while a worker wakes up.
bool may_dispatch_from_sources(const device::Device& device, const FramePathOptions& path) {
  return device.info().asynchronous && path.transfer != Transfer::kPageable && !path.wait_each;
}

constexpr int kFewestPosts = 2;
constexpr int kMostPosts = 8;

int posts_of(const LaneOptions& options) {
  const auto cameras = std::count_if(options.limits.begin(), options.limits.end(), [](int limit) { return limit > 0; });
  return std::min(static_cast<int>(cameras), options.posts > 0 ? options.posts : default_posts());
}

// Enough for the device to be full while as many as may be are with their plug-ins, and one is handed on.
int frames_of(const LaneOptions& options) { return posts_of(options) + options.device_depth + 1; }

}  // namespace

int default_posts() noexcept { return std::clamp(base::usable_cpus(), kFewestPosts, kMostPosts); }

int frames_in_flight(int cameras, int device_depth) noexcept {
  return std::min(cameras, default_posts()) + device_depth + 1;
}

Lane::Lane(device::Device& device, infer::Engine& engine, PostprocessorChain& postprocessors, const base::Clock& clock,
           const LaneOptions& options)
    : device_(device),
      engine_(engine),
      clock_(clock),
      device_depth_(options.device_depth),
      sources_dispatch_(may_dispatch_from_sources(device, options.path)),
      holds_pictures_(postprocessors.needs().picture),
      path_(device, engine, postprocessors, options.path),
      jobs_({options.limits, options.device_depth, frames_of(options), options.adopted, posts_of(options)}) {
  for (int i = 0; i < frames_of(options); ++i) frames_.push_back(path_.make_in_flight());
}

void Lane::warm(const std::vector<base::PictureLayout>& layouts) {
  struct Nobody final : capture::FrameObserver {
    void captured(capture::CameraIndex) noexcept override {}
    void dropped(capture::CameraIndex, capture::RingDrop) noexcept override {}
    void ready(capture::CameraIndex) noexcept override {}
  } nobody;
  capture::FrameRing ring(
      device_, nobody,
      {0, capture::FrameRing::kLeastSlots, capture::RingPolicy::kLossless, picture_memory(path_.options().transfer)});
  // The queue gives the last ones out first, and goes on to others only when they are all in use.
  const std::size_t used = std::min(frames_.size(), static_cast<std::size_t>(device_depth_));
  for (const base::PictureLayout& layout : layouts) {
    for (auto frame = frames_.end() - static_cast<std::ptrdiff_t>(used); frame != frames_.end(); ++frame) {
      InFlight& in_flight = **frame;
      std::optional<capture::FillLease> slot = ring.begin();
      std::memset(slot->data(layout), 0, layout.size_bytes);
      slot->publish(clock_.now(), clock_.now());
      in_flight.lease = std::move(*ring.take());
      in_flight.frame = in_flight.lease.frame();
      in_flight.status = path_.enqueue(in_flight);
      (void)wait_for(in_flight);
      in_flight.lease.release();
      const ErrorKind failure = in_flight.status.kind();
      if (!in_flight.status.ok() && (failure == ErrorKind::kDevice || failure == ErrorKind::kDeviceLost)) {
        throw base::Error(failure, in_flight.status.message());
      }
      // In mapped memory the slot is part of a graph, and this one is about to go.
      if (path_.options().transfer == Transfer::kMapped) in_flight.captured.clear();
    }
  }
}

bool Lane::complete(InFlight& in_flight) {
  const bool lost = wait_for(in_flight);
  const base::TimePoint since = std::max(in_flight.dispatched, busy_until_);
  busy_until_ = in_flight.completed;
  busy_ns_.store(busy_ns_.load(std::memory_order_relaxed) + std::max<std::int64_t>(0, (busy_until_ - since).count()),
                 std::memory_order_relaxed);
  frames_done_.store(frames_done_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return lost;
}

bool Lane::wait_for(InFlight& in_flight) {
  Status& status = in_flight.status;
  if (status.ok()) status = device_.synchronize(path_.slot_read(in_flight));
  if (!holds_pictures_ && !in_flight.tapped && status.ok()) in_flight.lease.release();
  if (status.ok()) status = device_.synchronize(in_flight.downloaded);
  if (status.ok()) {
    status = in_flight.execution->result();
  } else {
    path_.finish(in_flight);  // before its slot and its tensors are let go
  }
  in_flight.completed = clock_.now();
  Status device_status = device_.status();
  if (device_status.ok()) return false;
  status = std::move(device_status);
  return !lost_.exchange(true);
}

}  // namespace camd::pipeline
