// The built-in `coco`: a JSON object per object and line, as COCO takes results (cocodataset.org/#format-results); `jq
// -s .` makes the array of them. The picture's id is the frame's sequence number.
//
// Threads: as every plug-in (camd_plugin.h).
#include <fmt/compile.h>

#include <cstdint>
#include <iterator>

#include "plugins/frame_json.hpp"
#include "plugins/jsonl/line_writer.hpp"
#include "plugins/tables.hpp"

namespace camd::plugins {
namespace {

void put_lines(JsonBuffer& out, const camd_frame& frame, const camd::plugin::Results& results,
               const camd::plugin::Events& /*events*/, std::int64_t /*now_ns*/) {
  for (const camd_detection& one : results) {
    fmt::format_to(
        std::back_inserter(out),
        FMT_COMPILE("{{\"image_id\":{},\"category_id\":{},\"bbox\":[{:.2f},{:.2f},{:.2f},{:.2f}],\"score\":{:.4f}"),
        frame.sequence, one.class_id, one.box[0], one.box[1], one.box[2], one.box[3], one.score);
    if (one.keypoint_count > 0) {  // COCO's third number: 2, seen
      put(out, ",\"keypoints\":[");
      for (int k = 0; k < one.keypoint_count; ++k) {
        fmt::format_to(std::back_inserter(out), FMT_COMPILE("{}{:.2f},{:.2f},2"), k > 0 ? "," : "", one.keypoints[k][0],
                       one.keypoints[k][1]);
      }
      put(out, "]");
    }
    put(out, "}\n");
  }
}

class Coco final : public LineWriter {
 public:
  Coco(camd::plugin::Host host, std::string_view config_json) : LineWriter(host, config_json, "coco", &put_lines) {}
};

}  // namespace

const camd_plugin* coco_table() noexcept {
  static constexpr camd_plugin kTable =
      camd::plugin::make_table<Coco>("coco", "1.0.0", "writes a JSON object per object as COCO takes results");
  return &kTable;
}

}  // namespace camd::plugins
