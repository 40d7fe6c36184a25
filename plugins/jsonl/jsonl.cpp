// The built-in `jsonl`: one JSON object per frame and line (docs/plugins.md has the fields in their order).
//
// Threads: as every plug-in (camd_plugin.h).
#include "plugins/frame_json.hpp"
#include "plugins/jsonl/line_writer.hpp"
#include "plugins/tables.hpp"

namespace camd::plugins {
namespace {

void put_line(JsonBuffer& out, const camd_frame& frame, const camd::plugin::Results& results,
              const camd::plugin::Events& events, std::int64_t now_ns) {
  put_frame(out, frame, results, events, now_ns);
  out.push_back('\n');
}

class Jsonl final : public LineWriter {
 public:
  Jsonl(camd::plugin::Host host, std::string_view config_json) : LineWriter(host, config_json, "jsonl", &put_line) {}
};

}  // namespace

const camd_plugin* jsonl_table() noexcept {
  static constexpr camd_plugin kTable =
      camd::plugin::make_table<Jsonl>("jsonl", "1.0.0", "writes one JSON object per frame into a file");
  return &kTable;
}

}  // namespace camd::plugins
