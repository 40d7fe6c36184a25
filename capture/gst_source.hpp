// The sources that GStreamer reads: file, v4l2, rtsp, gstreamer (free pipeline text).
//
// Capture stamps. `arrived` is the clock's time when the sample reached camd. `captured` is
//  - live sources: what capture/camera_clock.hpp makes of stamps and arrivals. The stamp is the RTP time stamp where
//  there
//    is one (capture/stream_times.hpp), else base time + running time of the buffer's PTS on the pipeline's monotonic
//    clock, which for v4l2 is the driver's time of the picture;
//  - file, realtime: the moment at which the picture was due (capture/file_pace.hpp). Decoding ahead does not count,
//    coming late does; a file that falls more than a second behind moves its schedule, and says so once;
//  - file, realtime: false, and buffers without PTS: the arrival. Of the latter the age is not known, and told so.
// Stamps never run backwards and never lie after the arrival (capture/camera_clock.hpp).
//
// States. Live sources come back by themselves: an error, an end or `timeout` without a frame closes the pipeline, and
// it is opened anew after 0.5 s, 1 s, 1.5 s (recovery). The first frame may take longer (kFirstFramePatience),
// because a stream shows nothing before its first key frame. Time in which camd itself did not run is no silence
// (capture/silence.hpp). An RTSP server that closes the connection before the first picture, or that answers without
// end, is noticed at once. Free pipelines that read from a server (souphttpsrc and
// the like) do the same, live or not. Files end or fail for good, and so do other pipelines without a live source; a
// file that is missing, is empty or holds no video fails, once the source has started. With loop: true a clip starts
// again at its end; one that cannot seek is opened again. Neither stamps nor pace show where, because the next picture
// is decoded before it is due.
//
// Threads: "cam:NAME" [control] builds, watches and closes the pipeline and calls the listener; frames are filled on
// GStreamer's streaming thread. Cameras share nothing.
// Invariants: as FrameSource. A camera has one pipeline at a time: after one that hung, the next is opened when that
// one has let go. stop() returns within a few seconds even if GStreamer hangs. No text from here carries a password.
#pragma once

#include <chrono>
#include <memory>

#include "capture/frame_source.hpp"

namespace camd::capture {

// How long a file may take to show its first picture.
inline constexpr base::Duration kOpenPatience = std::chrono::seconds(10);
// How long a source that comes back may take from opening to its first frame (the configured timeout, if that is
// longer).
inline constexpr base::Duration kFirstFramePatience = std::chrono::seconds(15);

// What can be known of the source without opening it. Throws Error(kConfig) for text that is no pipeline,
// Error(kSource) when GStreamer lacks an element; with the place in the configuration.
void check_gst_source(const config::Camera& camera);

// `camera.source` must be one of the four kinds. `clock` must be the system's: GStreamer's runs on that.
// Throws what check_gst_source() throws.
[[nodiscard]] std::unique_ptr<FrameSource> make_gst_source(const config::Camera& camera, CameraIndex index,
                                                           FrameRing& ring, SourceListener& listener,
                                                           const base::Clock& clock,
                                                           base::Duration first_frame_patience = kFirstFramePatience);

}  // namespace camd::capture
