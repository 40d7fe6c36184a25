// `camd plugin --new`: a small project that builds, with a test.
//
// Threads: [setup].
#pragma once

#include <string>
#include <vector>

namespace camd::app {

// c | c++ | python
[[nodiscard]] std::vector<std::string> plugin_languages();

// Makes a folder `name` with the project. Returns what to do next, for stdout. Throws Error(kUsage): the name is none
// (a lower case letter, then lower case letters, digits and '_'), the folder is there already, or it cannot be written.
[[nodiscard]] std::string new_plugin(const std::string& name, const std::string& language);

}  // namespace camd::app
