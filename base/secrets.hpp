// Texts that must never be shown: what a configuration took from the environment or from a file.
//
// Threads: [any]; a short lock. Invariant: what was hidden stays hidden until the process ends. Texts of less than
// kShortestSecret bytes are not hidden, as they stand in many lines by chance.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace camd::base {

inline constexpr std::size_t kShortestSecret = 4;

// From now on without_secrets() takes it out.
void hide_secret(std::string_view secret);
// The text with "***" in the place of every secret. For what leaves the process: log, metrics, answers.
[[nodiscard]] std::string without_secrets(std::string_view text);

}  // namespace camd::base
