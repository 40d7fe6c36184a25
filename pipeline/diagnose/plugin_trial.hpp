// Tries a plug-in out, as `camd plugin` does: it runs in a process of its own and gets one frame that is made up.
//
// Threads: [setup].
#pragma once

#include <string>

namespace camd::pipeline {

// What came of it, as lines for people.
struct PluginTrial {
  std::string confinement;  // what was taken from its process
  std::string needs;        // what it reads
  std::string outcome;      // of the frame
  bool good = false;
};

// [blocks] Makes an instance with this `config:` (a JSON object), for a model that is made up: an input of 3 x 64 x 64
// and one output `output` of 1 x 8, and gives it a frame with a grey picture of 64 x 48 and one detection. Throws
// Error(kPlugin): it cannot be made.
[[nodiscard]] PluginTrial try_plugin(const std::string& path, const std::string& config_json,
                                     const std::string& python);

}  // namespace camd::pipeline
