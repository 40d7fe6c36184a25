// What `camd check` and `camd doctor` say of a configuration's model.
//
// Threads: [any], [blocks]: reads the model and prepares it for each engine.
#pragma once

#include <vector>

#include "config/config.hpp"
#include "infer/model_report.hpp"
#include "pipeline/diagnose/doctor.hpp"

namespace camd::pipeline {

// Inputs, outputs, operators, engines with their memory, and how the plug-in `detections` reads the outputs. kBroken:
// no engine of the configured device runs it, the configured engine does not, or `detections` cannot read it. Never
// throws for what it finds.
[[nodiscard]] std::vector<Finding> examine_model(const config::Config& config, infer::ReportDepth depth);

}  // namespace camd::pipeline
