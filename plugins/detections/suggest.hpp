// Which configurations of `detections` read a model's outputs, and whether one that was written does.
//
// Threads: [setup], functions of their arguments.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plugins/builtin.hpp"
#include "plugins/camd_plugin.h"
#include "plugins/detections/options.hpp"

namespace camd::plugins {

// Those whose shapes fit and that leave the fewest outputs unread, most likely first; empty when none does. `options`
// gives classes, strides, anchors and what else is known; its layout and the keys that say how boxes and scores are
// written are tried out. With `values`, only those that the values of one frame do not speak against.
[[nodiscard]] std::vector<LayoutSuggestion> fitting_layouts(const camd_model& model, const Options& options,
                                                            const OutputValues* values);

// What one frame's values say against the configured layout and what to set instead, one line; empty when nothing
// does. Throws std::invalid_argument when the model does not fit the layout.
[[nodiscard]] std::string doubt(const camd_model& model, const Options& options, const OutputValues& values);

}  // namespace camd::plugins
