// The GStreamer pipeline of each kind of source, up to and including the appsink that hands its samples to camd.
//
//   file       filesrc ! decodebin ! videoconvert ! appsink (camd paces, capture/file_pace.hpp)
//   file, decoded by the device    filesrc ! parsebin ! parser ! appsink (capture/sample_decoder.hpp)
//   v4l2       v4l2src ! capsfilter(size, rate; raw or JPEG) ! decodebin ! videoconvert ! appsink
//   rtsp       rtspsrc (video streams only) ! decodebin ! videoconvert ! appsink
//   rtsp, decoded by the device    rtspsrc (video streams only) ! parsebin ! parser ! appsink
//   gstreamer  the user's text ! videoconvert ! appsink, or the text alone when it has an appsink named "camd"
//              (GStreamer's clock paces what is not live)
//
// videoconvert does nothing and copies nothing as long as the decoder offers one of the accepted formats.
// The pipeline's clock is the system's monotonic one, so that base time + running time is a CLOCK_MONOTONIC time.
// Where memory is lent (capture/memory_lender.hpp), a V4L2 driver writes its pictures into it, and so does whatever is
// last in a free pipeline that decodes nothing: a decoder reads in its pictures, which may be slow in such memory.
// Decoders of live pipelines run without frame threads: each would hold back one more picture.
//
// Threads: functions [setup]; nothing here blocks: a pipeline comes back in state NULL.
#pragma once

#include <gst/app/gstappsink.h>

#include <string>

#include "capture/gst_decoding.hpp"
#include "capture/gst_support.hpp"
#include "capture/memory_lender.hpp"
#include "config/config.hpp"

namespace camd::capture {

struct BuiltPipeline {
  GstOwned<GstElement> pipeline;
  GstOwned<GstElement> sink;  // the GstAppSink, part of the pipeline
  bool live = false;          // the source has its own pace
  bool compressed = false;    // the sink's samples are compressed pictures
  bool network = false;       // something of it is read from a server, which may be away for now
};

// Structure name of the application message that a pipeline posts when its input turns out to hold no video.
inline constexpr const char* kNoVideoMessage = "camd-no-video";
// And when the device cannot decode it; its field "reason" says why.
inline constexpr const char* kRefusedMessage = "camd-refused";
[[nodiscard]] GstMessage* refused_message(GstElement* element, const std::string& reason);

// The pipeline of the camera's source, which is not a test source. `held`: buffers that camd may keep at a time: the
// ring's slots, and one that is on its way to a slot. `decoding`: by what, and where its pictures lie. Pictures larger
// than the camera's bound make it fail (capture/gst_size_bound.hpp). `lender`: may lend the memory that pictures are
// written into; null: nobody does. Throws Error(kSource) when an element is missing, Error(kConfig) for text that is no
// pipeline.
[[nodiscard]] BuiltPipeline build_pipeline(const config::Camera& camera, unsigned held, const Decoding& decoding,
                                           const std::shared_ptr<MemoryLender>& lender = nullptr);

// What a V4L2 camera offers, in a few words, for the message that it cannot do what was asked. "" when it does not
// tell. [blocks] up to two seconds.
[[nodiscard]] std::string describe_v4l2(const std::filesystem::path& device);

}  // namespace camd::capture
