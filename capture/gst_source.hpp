// The sources that GStreamer reads: file, v4l2, rtsp, gstreamer (free pipeline text).
//
// Capture stamps. `arrived` is the clock's time when the sample reached camd. `captured` is
//  - live sources: base time + running time of the buffer's PTS on the pipeline's monotonic clock. For v4l2 that is the
//    driver's time of the picture, for rtsp the time at which the RTP packet arrived, smoothed by the RTP time stamps
//    (the jitter buffer's latency is part of the measured latency, the network's is unknown and is not);
//  - file, realtime: the moment at which the picture was due (capture/file_pace.hpp). Decoding ahead does not count,
//    coming late does; a file that falls more than a second behind moves its schedule, and says so once;
//  - file, realtime: false, and buffers without PTS: the arrival.
// Stamps never run backwards and never lie after the arrival (capture/capture_stamps.hpp).
//
// States. Live sources come back by themselves: an error, an end or `timeout` without a frame closes the pipeline, and
// it is opened anew after 0.5 s, 1 s, 2 s ... (recovery). A first frame may take longer (kFirstFramePatience), because
// a stream shows nothing before its first key frame. Files and pipelines without a live source end or fail for good.
// With loop: true a clip is sought back at its end, or opened again where it cannot seek; neither stamps nor pace show
// the joint, because the next picture is decoded before it is due.
//
// Threads: "cam:NAME" [control] builds, watches and closes the pipeline and calls the listener; frames are filled on
// GStreamer's streaming thread. Cameras share nothing.
// Invariants: as FrameSource. start() throws for what can be known at once: a file that is missing, empty or holds no
// video (Error(kSource), within kOpenPatience), text that is no pipeline (Error(kConfig)). stop() returns within a few
// seconds even if GStreamer hangs. No text from here carries a password.
#pragma once

#include <chrono>
#include <memory>

#include "capture/frame_source.hpp"

namespace camd::capture {

// How long a file may take to show its first picture in start().
inline constexpr base::Duration kOpenPatience = std::chrono::seconds(10);
// How long a live source may take from opening to its first frame (the configured timeout, if that is longer).
inline constexpr base::Duration kFirstFramePatience = std::chrono::seconds(15);

// `camera.source` must be one of the four kinds. `clock` must be the system's: GStreamer's runs on that.
[[nodiscard]] std::unique_ptr<FrameSource> make_gst_source(const config::Camera& camera, CameraIndex index,
                                                           FrameRing& ring, SourceListener& listener,
                                                           const base::Clock& clock);

}  // namespace camd::capture
