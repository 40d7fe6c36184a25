#include "plugins/annotate/elements.hpp"

#include "plugins/annotate/gst_writer.hpp"

namespace camd::plugins {

std::vector<ElementFinding> annotate_elements() {
  init_gstreamer();
  std::vector<ElementFinding> findings{
      {"x264enc", "H.264 encoding (annotate)", "gstreamer1.0-plugins-ugly", false},
      {"mp4mux", "MP4 writing (annotate)", "gstreamer1.0-plugins-good", false},
  };
  for (ElementFinding& finding : findings) finding.present = has_element(finding.element.c_str());
  return findings;
}

}  // namespace camd::plugins
