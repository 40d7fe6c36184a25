// A worker whose plug-ins are shared libraries: each instance has a thread, which calls it as camd's own process would.
//
// Threads: serve_libraries() the main one.
#pragma once

#include <string>

#include "pipeline/plugin_process/blob.hpp"

namespace camd::worker {

// [blocks] Takes instances from the socket wire::kControlFd until camd closes it.
void serve_libraries(const pipeline::wire::WorkerOrder& order, const std::string& confinement);

}  // namespace camd::worker
