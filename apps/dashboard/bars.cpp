// The bars and the sparkline of the dashboard (apps/dashboard/render.hpp).

#include <algorithm>
#include <cmath>
#include <string_view>

#include "apps/dashboard/render.hpp"

namespace camd::dashboard {
namespace {

constexpr std::string_view kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
constexpr std::string_view kLevels[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::string_view kAsciiLevels[] = {"_", ".", ":", "-", "=", "+", "*", "#"};

std::string repeat(std::string_view text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

}  // namespace

Line bar(double from, double to, double light, int cells, Style style, bool ascii) {
  const auto in_cells = [&](double part) { return std::clamp(part, 0.0, 1.0) * cells; };
  // The beginning snaps to a whole cell (a block character grows from the left); even the shortest stage
  // stays visible inside the bar.
  const int start = std::min(static_cast<int>(std::lround(in_cells(from))), cells - 1);
  const double end = std::max(in_cells(to), static_cast<double>(start));
  const int eighths = std::max(1, static_cast<int>(std::lround((end - start) * 8)));
  int full = eighths / 8;
  std::string_view rest = kEighths[eighths % 8];
  if (ascii) {
    full = std::max(1, (eighths + 4) / 8);
    rest = "";
  }
  int used = start + full + (rest.empty() ? 0 : 1);
  if (used > cells) {
    rest = "";
    full = cells - start;
    used = cells;
  }
  const int tail = std::max(0, static_cast<int>(std::lround(in_cells(light))) - used);
  Line line;
  line.add(repeat(" ", start));
  line.add(repeat(ascii ? "#" : "█", full) + std::string(rest), style);
  line.add(repeat(ascii ? "." : "░", tail), Style::kDim);
  line.add(repeat(" ", cells - used - tail));
  return line;
}

std::string sparkline(const std::deque<double>& values, double top, int cells, bool ascii) {
  const std::size_t shown = std::min(values.size(), static_cast<std::size_t>(std::max(0, cells)));
  std::string out;
  for (std::size_t i = values.size() - shown; i < values.size(); ++i) {
    if (values[i] < 0) {
      out += ' ';
      continue;
    }
    const double part = top > 0 ? std::clamp(values[i] / top, 0.0, 1.0) : 0.0;
    const auto level = static_cast<std::size_t>(std::lround(part * 7));
    out += ascii ? kAsciiLevels[level] : kLevels[level];
  }
  return out;
}

}  // namespace camd::dashboard
