// What can be seen of a configuration without a device and without a trace: settings, cameras' pipelines, plug-ins'
// keys, limits of the process.
//
// Threads: [setup].
#pragma once

#include <optional>
#include <vector>

#include "config/loader.hpp"
#include "infer/model_report.hpp"
#include "pipeline/plugin/plugin_calls.hpp"
#include "pipeline/run/mistakes.hpp"
#include "pipeline/run/plugin_maker.hpp"

namespace camd::pipeline {

// [blocks] Adds all that is wrong. What the reading left out is not looked at. Returns the plug-ins' libraries: who
// makes instances next keeps them until then.
[[nodiscard]] std::vector<LoadedPlugin> check_config(const config::Reading& reading, const Patience& patience,
                                                     Mistakes& mistakes);

// [blocks] What the model's engines will take. Nothing, and why in `mistakes`, where its file cannot be read.
[[nodiscard]] std::optional<infer::ModelReport> check_model(const config::Config& config, Mistakes& mistakes);

}  // namespace camd::pipeline
