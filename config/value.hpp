// Words of the configuration as values: the YAML 1.2 core schema's scalars and durations with units, read strictly.
//
// Threads: functions of their arguments, [any].
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.hpp"

namespace camd::config {

// true, True, TRUE; false, False, FALSE.
[[nodiscard]] std::optional<bool> parse_bool(std::string_view text);
// Decimal, with an optional sign. Nothing when it does not fit 64 bits.
[[nodiscard]] std::optional<std::int64_t> parse_integer(std::string_view text);
// Decimal, with optional fraction and exponent. Nothing when it is not finite.
[[nodiscard]] std::optional<double> parse_number(std::string_view text);
// .inf, .nan and their kin, or a number too large for a double.
[[nodiscard]] bool is_not_finite(std::string_view text);
// A number followed by ns, us, ms, s, min or h: "200ms", "1.5 s". Nothing when it is none, negative, or longer than
// 292 years.
[[nodiscard]] std::optional<base::Duration> parse_duration(std::string_view text);
// The shortest exact text: "200ms", "1500us", "1h".
[[nodiscard]] std::string duration_text(base::Duration duration);

// A number followed by KiB, MiB or GiB: "512MiB". In bytes. Nothing when it is none, negative, or beyond 2^62.
[[nodiscard]] std::optional<std::int64_t> parse_size(std::string_view text);
// The shortest exact text: "512MiB".
[[nodiscard]] std::string size_text(std::int64_t bytes);
// The path behind "files: "; empty: the text grants none.
[[nodiscard]] std::string_view granted_path(std::string_view text);

// For messages: at most 64 bytes of one line, cut between characters.
[[nodiscard]] std::string shortened(std::string_view text);

}  // namespace camd::config
