// "Did you mean": the known word nearest to a wrong one.
//
// Threads: functions of their arguments, [any].
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace camd::config {

// Edits between two texts: insertion, deletion, substitution, and swap of neighbours (optimal string alignment form
// of Damerau-Levenshtein), in bytes.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

// The nearest of `known`, the first one of equals; empty when none is near enough to be meant: at most one edit for
// every three characters, and at least one. Letter case and '-' for '_' cost nothing.
[[nodiscard]] std::string_view nearest(std::string_view wrong, std::span<const std::string_view> known);

}  // namespace camd::config
