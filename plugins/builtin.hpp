// The postprocessors that come with camd, by name. Each is also built as lib/camd_plugin_NAME.so from the same source,
// so that what users' plug-ins can do is what the built-ins do.
//
// Threads: [any]; the tables are constants.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plugins/camd_plugin.h"

namespace camd::plugins {

// nullptr when there is none of that name.
[[nodiscard]] const camd_plugin* find_builtin(std::string_view name) noexcept;

// In alphabetical order, for messages ("did you mean") and `camd doctor`.
[[nodiscard]] std::vector<std::string_view> builtin_names();

// What the built-in `detections` makes of a model with this configuration (its `layout` left out or not): the layouts
// that its outputs look like, for `camd doctor`. Throws std::invalid_argument when the keys themselves are wrong.
[[nodiscard]] std::vector<std::string> suggest_layouts(const camd_model& model, std::string_view config_json);

}  // namespace camd::plugins
