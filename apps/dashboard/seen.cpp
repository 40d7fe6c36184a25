#include "apps/dashboard/seen.hpp"

#include <fmt/format.h>

#include <string>

namespace camd::dashboard {
namespace {

std::string counted(double count, const char* one, const char* many) {
  return format_number(count) + " " + (count == 1 ? one : many);
}

}  // namespace

Line seen_line(const Seen& seen, const char* dot) {
  Line line;
  if (seen.tracks <= 0 || seen.tracks != seen.detections) line.add(counted(seen.detections, "detection", "detections"));
  if (seen.tracks > 0 && seen.tracks != seen.detections) line.add(", ");
  if (seen.tracks > 0) line.add(counted(seen.tracks, "track", "tracks"));
  const auto part = [&](const std::string& text, Style style) { line.add(dot, Style::kDim).add(text, style); };
  for (const Seen::Place& zone : seen.zones) {
    part(fmt::format("{} {} inside, {} entered", zone.name, format_number(zone.first), format_number(zone.second)),
         Style::kPlain);
  }
  for (const Seen::Place& gate : seen.lines) {
    part(fmt::format("{} {} in, {} out", gate.name, format_number(gate.first), format_number(gate.second)),
         Style::kPlain);
  }
  for (const std::string& text : seen.texts) part(text, Style::kMove);
  return line;
}

}  // namespace camd::dashboard
