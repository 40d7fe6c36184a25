// The built-in `onvif`: a frame as a line of XML, an ONVIF metadata stream (onvif.org, metadatastream.xsd, namespace
// http://www.onvif.org/ver10/schema). Places are from -1 to 1, y upwards (ONVIF Analytics Service
// Specification, 5.1.2.2).
//
// Threads: as every plug-in (camd_plugin.h).
#include <fmt/compile.h>

#include <cstdint>
#include <iterator>
#include <string_view>

#include "plugins/frame_json.hpp"
#include "plugins/jsonl/line_writer.hpp"
#include "plugins/tables.hpp"

namespace camd::plugins {
namespace {

// Text between two tags; what XML 1.0 has no place for becomes '?'.
void put_text(JsonBuffer& out, std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '&': put(out, "&amp;"); break;
      case '<': put(out, "&lt;"); break;
      case '>': put(out, "&gt;"); break;
      default: out.push_back(static_cast<unsigned char>(c) < 0x20U ? '?' : c);
    }
  }
}

void put_object(JsonBuffer& out, const camd_frame& frame, const camd_detection& one) {
  const auto x = [&](float pixels) { return 2 * pixels / static_cast<float>(frame.width) - 1; };
  const auto y = [&](float pixels) { return 1 - 2 * pixels / static_cast<float>(frame.height); };
  put(out, "<tt:Object");
  if (one.track_id != 0) fmt::format_to(std::back_inserter(out), FMT_COMPILE(" ObjectId=\"{}\""), one.track_id);
  fmt::format_to(
      std::back_inserter(out),
      FMT_COMPILE("><tt:Appearance><tt:Shape><tt:BoundingBox left=\"{:.4f}\" top=\"{:.4f}\" right=\"{:.4f}\" "
                  "bottom=\"{:.4f}\"/><tt:CenterOfGravity x=\"{:.4f}\" y=\"{:.4f}\"/></tt:Shape>"),
      x(one.box[0]), y(one.box[1]), x(one.box[0] + one.box[2]), y(one.box[1] + one.box[3]),
      x(one.box[0] + one.box[2] / 2), y(one.box[1] + one.box[3] / 2));
  fmt::format_to(std::back_inserter(out), FMT_COMPILE("<tt:Class><tt:Type Likelihood=\"{:.4f}\">"), one.score);
  put_text(out, one.class_name);
  put(out, "</tt:Type></tt:Class></tt:Appearance></tt:Object>");
}

void put_lines(JsonBuffer& out, const camd_frame& frame, const camd::plugin::Results& results,
               const camd::plugin::Events& /*events*/, std::int64_t /*now_ns*/) {
  put(out, "<tt:MetadataStream xmlns:tt=\"http://www.onvif.org/ver10/schema\"><tt:VideoAnalytics><tt:Frame UtcTime=");
  put_time(out, frame.captured_unix_ns);
  put(out, " Source=\"");
  put_text(out, frame.camera);  // letters, digits, '-', '_' and '.'
  put(out, "\">");
  for (const camd_detection& one : results) put_object(out, frame, one);
  put(out, "</tt:Frame></tt:VideoAnalytics></tt:MetadataStream>\n");
}

class Onvif final : public LineWriter {
 public:
  Onvif(camd::plugin::Host host, std::string_view config_json) : LineWriter(host, config_json, "onvif", &put_lines) {}
};

}  // namespace

const camd_plugin* onvif_table() noexcept {
  static constexpr camd_plugin kTable =
      camd::plugin::make_table<Onvif>("onvif", "1.0.0", "writes a frame as a line of ONVIF metadata");
  return &kTable;
}

}  // namespace camd::plugins
