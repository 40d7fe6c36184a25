// One picture through a FramePath, without a pipeline around it.
//
// Threads: the test's own; waits until the frame's outputs are on the host.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "capture/frame_ring.hpp"
#include "pipeline/core/frame_path.hpp"

namespace camd::test {

// A gray picture of one line, all of whose bytes are `value`, in the slot's memory or in what is `lent`. Its outputs
// are in in_flight.tensors.host afterwards.
inline void run_one_frame(device::Device& device, pipeline::FramePath& path, capture::FrameRing& ring,
                          pipeline::InFlight& in_flight, int width, int value,
                          const capture::PictureMemory* lent = nullptr) {
  auto lease = ring.begin();
  const base::PictureLayout layout = base::tight_layout(base::PixelFormat::kGray8, width, 1);
  if (lent != nullptr) {
    std::memset(lent->data(), value, layout.size_bytes);
    const auto stays = [](void*) noexcept {};
    EXPECT_TRUE(lease->borrow_from(*lent, layout, {lent->data(), layout.size_bytes, stays, nullptr}));
  } else {
    std::memset(lease->data(layout), value, layout.size_bytes);
  }
  const base::TimePoint now = base::system_clock().now();
  lease->publish(now, now);
  in_flight.lease = std::move(*ring.take());
  in_flight.frame = in_flight.lease.frame();
  EXPECT_TRUE(path.enqueue(in_flight).ok());
  EXPECT_TRUE(device.synchronize(in_flight.downloaded).ok());
  in_flight.lease.release();
}

}  // namespace camd::test
