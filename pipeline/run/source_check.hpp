// Looks at every camera of a configuration before anything is started: what can be known is refused at once.
//
// Threads: [setup].
#pragma once

#include "config/config.hpp"

namespace camd::pipeline {

// Throws Error(kConfig | kSource) with everything that capture::check_source() finds, a line each.
void check_sources(const config::Config& config);

}  // namespace camd::pipeline
