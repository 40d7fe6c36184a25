// libFuzzer's target for metrics lines, which camtop reads from whoever writes them: drawn on screens of any size. Any
// end but a picture of that size, without a byte that steers the terminal, is a bug.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "apps/dashboard/model.hpp"
#include "apps/dashboard/render.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace camd::dashboard;
  if (size < 3) return 0;
  View view;
  view.columns = 1 + data[0] % 200;
  view.rows = data[1] % 80;
  view.selected = data[2] % 4;
  view.ascii = (data[2] & 4U) != 0;
  std::string_view lines(reinterpret_cast<const char*>(data + 3), size - 3);
  Model model;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    (void)mono_ns_of(line);
    if (!model.feed(line)) model.add_log(line);
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
  }
  const std::vector<Line> drawn = render(model, view);
  if (view.rows > 0 && drawn.size() != static_cast<std::size_t>(view.rows)) std::abort();
  for (const Line& line : drawn) {
    if (line.width() > view.columns) std::abort();
  }
  for (const std::vector<Line>& text : {drawn, render_summary(model, view.columns)}) {
    for (const Line& line : text) {
      for (const char c : line.plain()) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) std::abort();  // could steer the terminal
      }
    }
  }
  (void)model.problem();
  return 0;
}
