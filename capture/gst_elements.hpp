// Which GStreamer elements the sources lean on, whether they are installed, and which Debian package brings them.
//
// Threads: [any], [blocks] while GStreamer reads its registry.
#pragma once

#include <string>
#include <vector>

namespace camd::capture {

struct ElementFinding {
  std::string element;
  std::string purpose;  // "H.264 decoding"
  std::string package;  // Debian's
  bool present = false;
};

[[nodiscard]] std::string gstreamer_version();
[[nodiscard]] std::vector<ElementFinding> find_elements();

}  // namespace camd::capture
