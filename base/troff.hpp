// Text in manual pages.
//
// Threads: [any].
#pragma once

#include <string>
#include <string_view>

namespace camd::base {

// The text as troff (man(7)) shows it: no part of it is a command, and hyphens are those of options.
[[nodiscard]] std::string troff(std::string_view text);

}  // namespace camd::base
