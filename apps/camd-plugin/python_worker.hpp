// A worker whose plug-ins are Python scripts: this process becomes the interpreter, confined as it is by then.
//
// Threads: the main one.
#pragma once

#include <string>

#include "pipeline/plugin_process/blob.hpp"

namespace camd::worker {

// Does not return but for a failure: its exit code.
int become_python(const pipeline::wire::WorkerOrder& order, const std::string& confinement);

}  // namespace camd::worker
