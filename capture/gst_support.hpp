// What every GStreamer part of capture needs: owners of its objects, its initialisation, its messages as one line.
//
// Threads: functions [any]. Invariant: no text that comes from here carries a password.
#pragma once

#include <gst/gst.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/clock.hpp"

namespace camd::capture {

struct GstRelease {
  void operator()(GstElement* object) const noexcept { gst_object_unref(object); }
  void operator()(GstBus* object) const noexcept { gst_object_unref(object); }
  void operator()(GstPad* object) const noexcept { gst_object_unref(object); }
  void operator()(GstObject* object) const noexcept { gst_object_unref(object); }
  void operator()(GstCaps* caps) const noexcept { gst_caps_unref(caps); }
  void operator()(GstMessage* message) const noexcept { gst_message_unref(message); }
  void operator()(GstSample* sample) const noexcept { gst_sample_unref(sample); }
  void operator()(GError* error) const noexcept { g_error_free(error); }
  void operator()(gchar* text) const noexcept { g_free(text); }
};
template <typename T>
using GstOwned = std::unique_ptr<T, GstRelease>;

// Once a process, without the command line; later calls return at once. Whatever GStreamer prints goes to stderr.
// Throws Error(kSource) when GStreamer cannot start.
void init_gstreamer();

// A new element of the pipeline. Throws Error(kSource) that names the element and the package that brings it.
// Returns a floating reference, for gst_bin_add().
[[nodiscard]] GstElement* make_element(const char* factory, const char* name);

// "rtsp://user:secret@host" -> "rtsp://user:***@host", wherever in the text it stands.
[[nodiscard]] std::string mask_credentials(std::string_view text);

// An error or warning message of the bus in one line: which element, what, and GStreamer's own detail.
[[nodiscard]] std::string message_line(GstMessage* message);

// What became of a change of state. kLive: done, and the pipeline is a live one (NO_PREROLL); kHung: not done yet.
enum class StateChange { kDone, kLive, kFailed, kHung };

}  // namespace camd::capture
