// FrameSource: one camera's producer of frames. A source owns its thread(s), never waits for the pipeline (unless
// lossless), never throws across a thread, and comes back by itself after a failure where its kind can.
//
// States:  starting -> running <-> starved, stalled -> reconnecting -> running ...; ended (a file without loop), failed
// (for good)
//
// Threads: constructor, start(), request_stop(), join(), stop() [setup] one thread; the listener is called from the
// source's own threads.
// Invariants: after join() has returned, no frame is begun and no listener is called, even where a thread hangs and is
// left behind: it holds what it needs, and finds ring and listener cut off should it ever go on.
#pragma once

#include <memory>
#include <string>

#include "base/clock.hpp"
#include "capture/camera_clock.hpp"
#include "capture/frame_ring.hpp"
#include "capture/picture_losses.hpp"
#include "capture/starvation.hpp"
#include "config/config.hpp"

namespace camd::capture {

// kStarved: it runs, but none of its frames is delivered (capture/starvation.hpp), or its packets cannot be decoded.
enum class SourceState : std::uint8_t { kStarting, kRunning, kStarved, kStalled, kReconnecting, kEnded, kFailed };
[[nodiscard]] std::string_view to_string(SourceState state) noexcept;

class SourceListener {
 public:
  virtual ~SourceListener() = default;
  // [source] `reason` is one line for the user: what happened, and where it helps, what to do.
  virtual void state_changed(CameraIndex camera, SourceState state, const std::string& reason) noexcept = 0;
  // [source] What became of the camera's frames. Optional: without it a source does not know that it starves.
  [[nodiscard]] virtual FrameFates fates(CameraIndex /*camera*/) const noexcept { return {}; }
};

// What decodes a camera's pictures. Empty: nothing does, or nothing has come yet.
struct DecoderStatus {
  std::string name;    // "NVDEC H.264", "avdec_h264"
  std::string device;  // "cuda:0", "cpu"
};

// What a source that ends in order may take for it: a pipeline of GStreamer is given a second to let go.
inline constexpr base::Duration kStopPatience = std::chrono::milliseconds(1500);

class FrameSource {
 public:
  virtual ~FrameSource() = default;
  // Starts producing into the ring, and does not wait for the camera: a file that is not there or is no video, and a
  // camera that is away, are states and not errors. Throws Error(kState) when called twice.
  virtual void start() = 0;
  // Asks the source to end, closes its ring, and does not wait: many sources end at the same time. Idempotent.
  virtual void request_stop() noexcept = 0;
  // [blocks] After request_stop(): until the source's threads have ended, or for `patience` of real time where one of
  // them hangs in foreign code (a driver, a server, a file system that is away). False: it hangs and was left behind.
  // Idempotent.
  virtual bool join(base::Duration patience) noexcept = 0;
  // [blocks] Both, with enough patience for a source that ends in order. Idempotent.
  bool stop() noexcept;
  // [any] Whether it makes pictures in the memory of the device that its ring had when it was opened. Such a source
  // must be opened anew where the ring moves to another device.
  [[nodiscard]] virtual bool makes_pictures_on_device() const noexcept { return false; }
  // [any] What the capture times rest on. Sources that make up their pictures know.
  [[nodiscard]] virtual ClockStatus clock() const noexcept {
    ClockStatus status;
    status.source = ClockSource::kMonotonic;
    return status;
  }
  // [any] What was lost on the way here. Sources that make up their pictures lose nothing.
  [[nodiscard]] virtual UpstreamLosses losses() const noexcept { return {}; }
  // [any] Bytes of pictures that were copied into slots, since it was made. Sources that make up their pictures write
  // them there.
  [[nodiscard]] virtual std::uint64_t copied_bytes() const noexcept { return 0; }
  // [any] What decodes its pictures now.
  [[nodiscard]] virtual DecoderStatus decoder() const { return {}; }
};

// [any] Whether a thread in foreign code (GStreamer's, a driver's) was left behind since the process began. It may go
// on at any time, so the process must not end by destroying what that code uses: it ends by _Exit().
[[nodiscard]] bool left_threads_behind() noexcept;
// [any] Notes that one was.
void note_left_behind() noexcept;

// What can be known of a camera's source without opening it: whether its pipeline's text can be read, and whether
// GStreamer has the elements. Throws Error(kConfig | kSource) with the place in the configuration. [setup]
void check_source(const config::Camera& camera);

// Makes the source that `camera` describes. Ring, listener and clock must outlive it; the clock also its threads that
// are left behind.
// Throws what check_source() throws.
[[nodiscard]] std::unique_ptr<FrameSource> make_source(const config::Camera& camera, CameraIndex index, FrameRing& ring,
                                                       SourceListener& listener, const base::Clock& clock);

// True for sources that take pictures as fast as they are used and lose none (realtime: false).
[[nodiscard]] bool is_lossless(const config::Camera& camera) noexcept;

}  // namespace camd::capture
