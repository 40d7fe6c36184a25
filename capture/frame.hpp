// Frame: what one picture is. Immutable once published; the pixels are borrowed from its slot.
//
// Threads: plain values, [any].
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.hpp"
#include "base/picture.hpp"

namespace camd::capture {

// Position of a camera in the configuration.
using CameraIndex = std::uint32_t;

struct Frame {
  CameraIndex camera = 0;
  std::uint64_t sequence = 0;  // counts captured frames of the camera from 0: gaps are dropped frames
  base::PictureLayout layout;
  base::TimePoint captured;       // when the picture was taken, on the monotonic clock (capture/camera_clock.hpp)
  base::Duration uncertainty{0};  // of `captured`: the truth may be off by as much, in either direction
  bool damaged = false;           // something of it was lost or wrong on its way (capture/picture_losses.hpp)
  base::TimePoint arrived;        // when camd received it
  // layout.size_bytes bytes that the CPU can read, valid as long as the lease on the slot. Empty for a picture that
  // lies in the device's own memory, where a decoder made it: SlotLease::device_pixels() is its address.
  std::span<const std::byte> pixels;
  bool on_device = false;
};

}  // namespace camd::capture
