#include "capture/gst_support.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <mutex>

#include "base/error.hpp"
#include "base/log.hpp"

namespace camd::capture {
namespace {

using base::Error;
using base::ErrorKind;

// Where Debian keeps the elements that camd asks for by name.
std::string_view package_of(std::string_view factory) {
  if (factory == "rtspsrc" || factory == "v4l2src" || factory == "jpegdec") return "gstreamer1.0-plugins-good";
  if (factory.substr(0, 3) == "av_" || factory.substr(0, 6) == "avdec_") return "gstreamer1.0-libav";
  return "gstreamer1.0-plugins-base";
}

// GLib's own way to keep informational messages off stdout may only be chosen before the first thread; this may later.
GLogWriterOutput write_to_stderr(GLogLevelFlags level, const GLogField* fields, gsize count, gpointer) {
  if (g_log_writer_default_would_drop(level, nullptr) != FALSE) return G_LOG_WRITER_HANDLED;
  const GstOwned<gchar> text(g_log_writer_format_fields(level, fields, count, FALSE));
  base::tell_error(text.get());  // nor may a reader of stderr that is slow hold up the thread that says it
  return G_LOG_WRITER_HANDLED;
}

}  // namespace

void init_gstreamer() {
  static std::once_flag once;
  std::call_once(once, [] {
    // v4l2src (1.22) that is stopped while none of its buffers is out lets go of its pool in a way of its own, which
    // keeps the pool for ever, and with it the descriptor: the camera's name is taken when it is plugged in again. With
    // this it takes its older way. Set before other threads read the environment.
    (void)setenv("GST_V4L2_FORCE_DRAIN", "1", 0);
    // stdout carries metrics only.
    g_log_set_writer_func(&write_to_stderr, nullptr, nullptr);
    g_set_print_handler([](const gchar* text) { base::tell_error(text); });
    GError* raised = nullptr;
    if (gst_init_check(nullptr, nullptr, &raised) == FALSE) {
      const GstOwned<GError> error(raised);
      throw Error(ErrorKind::kSource,
                  fmt::format("GStreamer cannot start: {}", error ? error->message : "no reason given"));
    }
  });
}

GstElement* make_element(const char* factory, const char* name) {
  GstElement* const element = gst_element_factory_make(factory, name);
  if (element == nullptr) {
    throw Error(ErrorKind::kSource,
                fmt::format("GStreamer has no element \"{}\": apt-get install {}", factory, package_of(factory)));
  }
  return element;
}

std::string mask_credentials(std::string_view text) {
  std::string masked;
  for (;;) {
    const std::size_t scheme = text.find("://");
    if (scheme == std::string_view::npos) break;
    const std::size_t authority = scheme + 3;
    const std::size_t end = std::min(text.find_first_of("/ \t\n\"'<>?#", authority), text.size());
    const std::size_t at = text.substr(0, end).rfind('@');
    const std::size_t colon = text.find(':', authority);
    if (at != std::string_view::npos && at >= authority && colon < at) {
      masked += text.substr(0, colon + 1);
      masked += "***";
      masked += text.substr(at, end - at);
    } else {
      masked += text.substr(0, end);
    }
    text.remove_prefix(end);
  }
  masked += text;
  return masked;
}

std::string message_line(GstMessage* message) {
  GError* raised = nullptr;
  gchar* detail_text = nullptr;
  if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_WARNING) {
    gst_message_parse_warning(message, &raised, &detail_text);
  } else {
    gst_message_parse_error(message, &raised, &detail_text);
  }
  const GstOwned<GError> error(raised);
  const GstOwned<gchar> owned_detail(detail_text);
  const gchar* const element =
      GST_MESSAGE_SRC(message) != nullptr ? GST_OBJECT_NAME(GST_MESSAGE_SRC(message)) : nullptr;
  std::string line =
      fmt::format("{}: {}", element != nullptr ? element : "GStreamer", error ? error->message : "no reason given");
  // The detail reads "file.c(123): function (): /path:\nwhat happened": only its last line speaks to the user.
  std::string_view detail = owned_detail ? owned_detail.get() : std::string_view();
  while (!detail.empty() && (detail.back() == '\n' || detail.back() == ' ')) detail.remove_suffix(1);
  if (const std::size_t newline = detail.rfind('\n'); newline != std::string_view::npos) {
    line += " (";
    line += detail.substr(newline + 1);
    line += ')';
  }
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return mask_credentials(line);
}

}  // namespace camd::capture
