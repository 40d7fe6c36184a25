// Asks the plug-ins about their configuration before anything is made (camd.check/1), and finds two that would write
// the same file.
//
// Threads: [setup]. Each plug-in is asked on a thread of its own, which is left behind if it hangs. One that runs in a
// worker process is asked in one, which is ended if it hangs.
// Invariant: nothing that a plug-in says is trusted: texts are bounded and made printable.
#pragma once

#include <vector>

#include "config/loader.hpp"
#include "pipeline/plugin/plugin_calls.hpp"
#include "pipeline/run/mistakes.hpp"
#include "pipeline/run/plugin_maker.hpp"

namespace camd::pipeline {

// [blocks] Adds what is wrong: keys as kConfig, plug-ins that cannot be loaded as kPlugin. A plug-in without the
// extension is loaded and its table looked at. Returns the libraries, for who makes instances of them next: so none is
// unloaded and loaded again.
[[nodiscard]] std::vector<LoadedPlugin> check_plugins(const config::Reading& reading, const Patience& patience,
                                                      Mistakes& mistakes);

}  // namespace camd::pipeline
