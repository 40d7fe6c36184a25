// The built-in `mot`: a line per object, as MOTChallenge takes results (motchallenge.net/instructions): frame, track,
// left, top, width, height, confidence, and -1 for a place in the world. Frames and pixels count from 1.
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
    const auto track = one.track_id == 0 ? std::int64_t{-1} : static_cast<std::int64_t>(one.track_id);
    fmt::format_to(std::back_inserter(out), FMT_COMPILE("{},{},{:.2f},{:.2f},{:.2f},{:.2f},{:.4f},-1,-1,-1\n"),
                   frame.sequence + 1, track, one.box[0] + 1, one.box[1] + 1, one.box[2], one.box[3], one.score);
  }
}

class Mot final : public LineWriter {
 public:
  Mot(camd::plugin::Host host, std::string_view config_json) : LineWriter(host, config_json, "mot", &put_lines) {}
};

}  // namespace

const camd_plugin* mot_table() noexcept {
  static constexpr camd_plugin kTable =
      camd::plugin::make_table<Mot>("mot", "1.0.0", "writes a line per object as MOTChallenge takes them");
  return &kTable;
}

}  // namespace camd::plugins
