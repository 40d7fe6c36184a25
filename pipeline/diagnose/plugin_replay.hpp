// Runs a plug-in on a recording (plugins/record/recording.hpp), outside of camd's pipeline: `camd plugin --replay`.
//
// Threads: [setup].
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace camd::pipeline {

struct ReplayOptions {
  std::string recording;
  std::string plugin;  // a built-in's name, or the path of a .so or .py
  std::string config_json = "{}";
  std::string python;  // the interpreter of a script
};

// [blocks] Gives the plug-in each frame of the recording: a library in this process, so that a debugger or valgrind
// sees it, a script in a worker process that may do what the user may. `line` gets what `jsonl` behind it would write,
// without the end of the line; the clock is that of the recording. Returns how many frames failed; each is logged.
// Throws Error(kPlugin): the recording or the plug-in cannot be used.
std::uint64_t replay_plugin(const ReplayOptions& options, const std::function<void(std::string_view)>& line);

}  // namespace camd::pipeline
