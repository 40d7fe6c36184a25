// FrameSource: one camera's producer of frames. A source owns its thread(s), never waits for the pipeline (unless
// lossless), never throws across a thread, and comes back by itself after a failure where its kind can.
//
// States:  starting -> running <-> stalled -> reconnecting -> running ...; ended (a file without loop), failed (for
// good)
//
// Threads: constructor, start(), stop() [setup] one thread; the listener is called from the source's own threads.
// Invariants: after stop() has returned, no frame is begun and no listener is called.
#pragma once

#include <memory>
#include <string>

#include "base/clock.hpp"
#include "capture/frame_ring.hpp"
#include "config/config.hpp"

namespace camd::capture {

enum class SourceState : std::uint8_t { kStarting, kRunning, kStalled, kReconnecting, kEnded, kFailed };
[[nodiscard]] std::string_view to_string(SourceState state) noexcept;

class SourceListener {
 public:
  virtual ~SourceListener() = default;
  // [source] `reason` is one line for the user: what happened, and where it helps, what to do.
  virtual void state_changed(CameraIndex camera, SourceState state, const std::string& reason) noexcept = 0;
};

class FrameSource {
 public:
  virtual ~FrameSource() = default;
  // Starts producing into the ring. Throws Error(kSource | kConfig) only for what can never work
  // (a missing GStreamer element, a file that does not exist); a camera that is away for now is a state, not an error.
  virtual void start() = 0;
  // [blocks] until the source's threads have ended. Idempotent.
  virtual void stop() noexcept = 0;
};

// Makes the source that `camera` describes. Ring, listener and clock must outlive it.
// Throws Error(kConfig) when this build or machine cannot make it.
[[nodiscard]] std::unique_ptr<FrameSource> make_source(const config::Camera& camera, CameraIndex index, FrameRing& ring,
                                                       SourceListener& listener, const base::Clock& clock);

// True for sources that take pictures as fast as they are used and lose none (realtime: false).
[[nodiscard]] bool is_lossless(const config::Camera& camera) noexcept;

}  // namespace camd::capture
