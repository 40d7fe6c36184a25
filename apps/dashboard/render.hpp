// Draws the dashboard: takes a Model and the size of a screen, returns lines. It has no state, so tests compare whole
// frames.
//
// Threads: pure functions, [any].
// With more than kManyCameras (order.hpp) the totals of all stand on top, and the table shows the worst ones.
//
// Invariants: no line is wider than the columns; with rows > 0 there are exactly that many lines. What
// matters most is kept longest when the screen is small: header, the selected camera, its totals.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "apps/dashboard/model.hpp"
#include "apps/dashboard/text.hpp"

namespace camd::dashboard {

struct View {
  int columns = 80;
  int rows = 24;  // 0: as many as there is to say (for plain-text output)
  // The camera shown in detail, by its place in Model::cameras(); the last one when there are fewer. Empty: the first
  // of those that are shown.
  std::optional<std::size_t> selected{};
  std::string filter{};   // only cameras whose name holds it are shown
  bool typing = false;    // the filter is being typed
  bool ascii = false;     // no block characters
  bool keys = false;      // a keyboard is there: say so in the last row
  bool quit_key = false;  // ... and q does something
  int silent_s = 0;       // seconds without a metrics line, shown when above zero
};

// One frame.
[[nodiscard]] std::vector<Line> render(const Model& model, const View& view);

// The closing summary: how long, exit code, and for every camera the totals by reason and the worst period.
[[nodiscard]] std::vector<Line> render_summary(const Model& model, int columns);

// Building blocks, visible for tests.
// A bar of `cells` cells that starts at `from` and is solid up to `to` and light up to `light` (all 0..1).
[[nodiscard]] Line bar(double from, double to, double light, int cells, Style style, bool ascii);
// The newest `cells` values, from 0 to `top`; a negative value leaves a gap.
[[nodiscard]] std::string sparkline(const std::deque<double>& values, double top, int cells, bool ascii);

}  // namespace camd::dashboard
