// The order in which problems are told.
//
// Threads: functions of their arguments, [any].
#pragma once

#include <string>

#include "config/place.hpp"

namespace camd::config {

// Whether `a` is told before `b`: what stands in `file` by line, then the model card, then the command line.
[[nodiscard]] bool comes_before(const std::string& file, const SourcePlace& a, const SourcePlace& b);

}  // namespace camd::config
