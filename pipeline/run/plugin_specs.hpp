// The entries of `postprocess:` as the plug-in host takes them.
//
// Threads: functions of their arguments, [any].
#pragma once

#include <vector>

#include "config/config.hpp"
#include "pipeline/plugin/plugin_instance.hpp"

namespace camd::pipeline {

// One for each entry, in their order.
[[nodiscard]] std::vector<PluginSpec> plugin_specs(const config::Config& config);

}  // namespace camd::pipeline
