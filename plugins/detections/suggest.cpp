#include "plugins/detections/suggest.hpp"

#include <algorithm>
#include <exception>

#include "plugins/detections/decoder.hpp"

namespace camd::plugins {

std::vector<std::string> fitting_layouts(const camd_model& model, const Options& options) {
  std::vector<std::string> fitting;
  std::size_t most = 0;
  for (const std::string& name : layout_names()) {
    try {
      const std::size_t used = make_decoder(parse_layout(name), model, options)->used_outputs().size();
      if (used > most) fitting.clear();
      most = std::max(most, used);
      if (used == most) fitting.push_back(name);
    } catch (const std::exception&) {
      continue;  // does not fit
    }
  }
  // `ssd` takes any list of rows: one that knows strides says more.
  if (fitting.size() > 1) fitting.erase(std::remove(fitting.begin(), fitting.end(), "ssd"), fitting.end());
  return fitting;
}

}  // namespace camd::plugins
