// The closing summary.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "apps/dashboard/order.hpp"
#include "apps/dashboard/render.hpp"

namespace camd::dashboard {
namespace {

constexpr std::size_t kTold = 10;  // cameras of many

}  // namespace

std::vector<Line> render_summary(const Model& model, int columns) {
  std::vector<Line> lines;
  Line head(model.version().empty() ? "camd" : "camd " + model.version(), Style::kBold);
  head.add(fmt::format(" ran for {}", format_elapsed(model.uptime_ns())));
  if (model.exit_code()) {
    head.add(fmt::format(", exit code {}", *model.exit_code()), *model.exit_code() == 0 ? Style::kPlain : Style::kBad);
    if (!model.stop_reason().empty()) head.add(": " + model.stop_reason());
  } else if (!model.stopped()) {
    head.add(" (no stop line seen)", Style::kDim);
  }
  lines.push_back(std::move(head));
  int widest = 0;
  // Of many the worst are named, and all are added up.
  std::vector<std::size_t> told = cameras_in_order(model, "");
  const bool many = told.size() > kManyCameras;
  if (many) {
    Totals sum;
    for (const Camera& cam : model.cameras()) {
      sum.captured += cam.totals.captured;
      sum.delivered += cam.totals.delivered;
      sum.in_flight += cam.totals.in_flight;
      for (std::size_t i = 0; i < kDropReasons; ++i) sum.dropped[i] += cam.totals.dropped[i];
    }
    lines.emplace_back(fmt::format("{} cameras: captured {} = delivered {} + dropped {} + in flight {}", told.size(),
                                   sum.captured, sum.delivered, sum.dropped_sum(), sum.in_flight),
                       Style::kBold);
    std::stable_sort(told.begin(), told.end(), [&](std::size_t a, std::size_t b) {
      return model.cameras()[a].totals.lost_sum() > model.cameras()[b].totals.lost_sum();
    });
    told.resize(kTold);
    lines.emplace_back(fmt::format("the {} that dropped most:", kTold));
  }
  for (const std::size_t i : told) widest = std::max(widest, text_width(model.cameras()[i].name));
  widest = std::min({widest, 24, std::max(8, columns / 4)});
  for (const std::size_t index : told) {
    const Camera& cam = model.cameras()[index];
    const Totals& t = cam.totals;
    Line line(pad_right(cam.name, widest + 2));
    line.add(fmt::format("captured {} = delivered {} + dropped {} + in flight {}", t.captured, t.delivered,
                         t.dropped_sum(), t.in_flight));
    if (!t.balanced()) line.add("  does not balance", Style::kBad);
    lines.push_back(std::move(line));
    std::string reasons;
    for (std::size_t i = 0; i < kDropReasons; ++i) {
      if (t.dropped[i] > 0)
        reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", drop_reason(i), t.dropped[i]);
    }
    const std::string indent(static_cast<std::size_t>(widest + 2), ' ');
    if (!reasons.empty()) lines.emplace_back(indent + "dropped: " + reasons);
    if (cam.worst_p99 >= 0) {
      lines.emplace_back(indent + fmt::format("total in the worst period: p99 {} ms; slowest frame {} ms",
                                              format_ms(cam.worst_p99), format_ms(cam.worst_max)));
    }
  }
  if (const std::string problem = model.problem(); !problem.empty()) lines.emplace_back(problem, Style::kWarn);
  return lines;  // never cut: the terminal may wrap them
}

}  // namespace camd::dashboard
