// Whether what stands still is looked at often enough behind a gate (capture/motion_gate.hpp) for the plug-ins that
// forget what they do not see.
//
// Threads: [setup].
#pragma once

#include "config/config.hpp"
#include "pipeline/run/mistakes.hpp"

namespace camd::pipeline {

// `track` and `zones` have to remember for twice the longest pause that a camera's gate makes, so that one look may
// miss.
void check_gates(const config::Config& config, Mistakes& mistakes);

}  // namespace camd::pipeline
