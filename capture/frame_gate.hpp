// FrameGate: decides which of a camera's frames are worth the network. The others are closed as `gated`, before anybody
// is woken and before anything of them goes to a device.
//
// Threads: passes() [source], one thread at a time; lost() [any].
#pragma once

#include <cstdint>

#include "capture/frame.hpp"

namespace camd::capture {

class FrameGate {
 public:
  virtual ~FrameGate() = default;
  // [no-alloc] Whether the frame goes on. Asked once for each frame that a source has filled, in their order.
  [[nodiscard]] virtual bool passes(const Frame& frame) noexcept = 0;
  // A frame that had passed was not delivered: what it showed is not known downstream.
  virtual void lost(std::uint64_t sequence) noexcept = 0;
};

}  // namespace camd::capture
