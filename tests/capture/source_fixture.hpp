// A camera with its ring on the host device, for the tests of sources that GStreamer reads.
//
// Threads: [test].
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "capture/frame_source.hpp"
#include "capture/test_pattern.hpp"
#include "capture_fixtures.hpp"
#include "device/host_device.hpp"

namespace camd::capture::testing {

class SourceTest : public ::testing::Test {
 protected:
  void make(const config::Source& source, const std::string& name = "cam",
            config::DamagedMode damaged = config::DamagedMode::kKeep) {
    config::Camera camera;
    camera.name = name;
    camera.damaged = damaged;
    camera.source = source;
    source_.reset();
    ring_ = std::make_unique<FrameRing>(
        *device_, observer_,
        FrameRing::Options{0, 4, is_lossless(camera) ? RingPolicy::kLossless : RingPolicy::kNewestWins,
                           device::HostMemory::kPinned});
    source_ = make_source(camera, 0, *ring_, states_, base::system_clock());
  }
  // Waits for the next frame and takes it; empty when none comes.
  [[nodiscard]] std::optional<SlotLease> next(std::chrono::seconds patience = std::chrono::seconds(20)) {
    std::optional<SlotLease> lease;
    (void)eventually(
        [&] {
          lease = ring_->take();
          return lease.has_value();
        },
        patience);
    return lease;
  }
  // As next(); nothing once the source has ended or failed and all its frames are taken.
  [[nodiscard]] std::optional<SlotLease> next_or_end() {
    std::optional<SlotLease> lease;
    EXPECT_TRUE(eventually(
        [&] {
          const std::vector<SourceState> states = states_.states();
          const bool over =
              !states.empty() && (states.back() == SourceState::kEnded || states.back() == SourceState::kFailed);
          lease = ring_->take();
          return over || lease.has_value();
        },
        std::chrono::seconds(20)));
    return lease;
  }
  // The sequence number in the pixels; -1 when it cannot be read.
  [[nodiscard]] static std::int64_t stamp_of(const Frame& frame) {
    const auto stamp = read_test_pattern(frame.layout, frame.pixels);
    return stamp ? static_cast<std::int64_t>(stamp->sequence) : -1;
  }
  // Starts the source and waits until it has failed for good; the reason.
  [[nodiscard]] std::string failure() {
    const std::vector<SourceState> before = states_.states();
    const auto failures = std::count(before.begin(), before.end(), SourceState::kFailed);
    source_->start();
    EXPECT_TRUE(states_.wait_for(SourceState::kFailed, static_cast<int>(failures) + 1));
    source_->stop();
    return states_.last_reason();
  }
  // The error of a source that cannot be made; fails the test when there is none.
  [[nodiscard]] base::Error make_error(const config::Source& source) {
    try {
      make(source);
    } catch (const base::Error& error) {
      return error;
    }
    ADD_FAILURE() << "the source was made";
    return {base::ErrorKind::kInternal, ""};
  }

  std::unique_ptr<device::HostDevice> device_ = device::make_host_device(base::system_clock());
  CountingObserver observer_;
  StateRecorder states_;
  std::unique_ptr<FrameRing> ring_;
  std::unique_ptr<FrameSource> source_;  // dies first
};

}  // namespace camd::capture::testing
