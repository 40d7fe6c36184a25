// Which layouts of `detections` would take a model.
//
// Threads: [setup], a function of its arguments.
#pragma once

#include <string>
#include <vector>

#include "plugins/camd_plugin.h"
#include "plugins/detections/options.hpp"

namespace camd::plugins {

// Those that fit and leave the fewest outputs unread; empty when none does.
[[nodiscard]] std::vector<std::string> fitting_layouts(const camd_model& model, const Options& options);

}  // namespace camd::plugins
