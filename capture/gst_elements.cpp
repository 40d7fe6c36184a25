#include "capture/gst_elements.hpp"

#include <gst/gst.h>

#include <array>
#include <memory>

#include "capture/gst_support.hpp"

namespace camd::capture {
namespace {

struct Wanted {
  const char* element;
  const char* purpose;
  const char* package;
};

constexpr std::array kWanted{
    Wanted{"appsink", "taking pictures into camd", "gstreamer1.0-plugins-base"},
    Wanted{"decodebin3", "choosing decoders", "gstreamer1.0-plugins-base"},
    Wanted{"videoconvert", "formats that camd does not take as they are", "gstreamer1.0-plugins-base"},
    Wanted{"qtdemux", "MP4 files", "gstreamer1.0-plugins-good"},
    Wanted{"matroskademux", "Matroska and WebM files", "gstreamer1.0-plugins-good"},
    Wanted{"v4l2src", "USB and built-in cameras", "gstreamer1.0-plugins-good"},
    Wanted{"rtspsrc", "network cameras", "gstreamer1.0-plugins-good"},
    Wanted{"rtph264depay", "H.264 from network cameras", "gstreamer1.0-plugins-good"},
    Wanted{"jpegdec", "Motion-JPEG cameras", "gstreamer1.0-plugins-good"},
    Wanted{"h264parse", "H.264 streams", "gstreamer1.0-plugins-bad"},
    Wanted{"avdec_h264", "H.264 decoding", "gstreamer1.0-libav"},
    Wanted{"avdec_h265", "H.265 decoding", "gstreamer1.0-libav"},
};

}  // namespace

std::string gstreamer_version() {
  init_gstreamer();
  const std::unique_ptr<gchar, decltype(&g_free)> text(gst_version_string(), &g_free);
  return text.get();
}

std::vector<ElementFinding> find_elements() {
  init_gstreamer();
  std::vector<ElementFinding> findings;
  for (const Wanted& wanted : kWanted) {
    GstElementFactory* factory = gst_element_factory_find(wanted.element);
    findings.push_back({wanted.element, wanted.purpose, wanted.package, factory != nullptr});
    if (factory != nullptr) gst_object_unref(factory);
  }
  return findings;
}

}  // namespace camd::capture
