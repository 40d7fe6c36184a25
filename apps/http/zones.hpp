// The zones and lines that a configuration defines, for those who draw them.
//
// Threads: a function of its arguments, [any].
#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"

namespace camd::http {

// {"zones":[{"name","polygon"}],"lines":[{"name","from","to"}]}, of all entries of the built-in `zones`, each with
// `camera` where it is of one camera. Places are [x,y] in shares of the picture, from its top left. What is no zone is
// left out: the plug-in has refused it by then.
[[nodiscard]] std::string zones_json(const std::vector<config::Postprocessor>& entries);

}  // namespace camd::http
