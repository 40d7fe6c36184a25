#include "config/value.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

namespace camd::config {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t ns;
};

// From the longest to the shortest, so that duration_text() takes the first that divides.
constexpr std::array<std::pair<std::string_view, std::int64_t>, 3> kSizes = {
    {{"GiB", std::int64_t{1} << 30}, {"MiB", std::int64_t{1} << 20}, {"KiB", std::int64_t{1} << 10}}};

constexpr std::array kUnits = {
    Unit{"h", 3'600'000'000'000}, Unit{"min", 60'000'000'000}, Unit{"s", 1'000'000'000},
    Unit{"ms", 1'000'000},        Unit{"us", 1'000},           Unit{"ns", 1},
};

std::string_view without_plus(std::string_view text) {
  // from_chars takes '-' only; "+-1" must stay wrong.
  if (text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+') text.remove_prefix(1);
  return text;
}

// Digits, a sign, a point and an exponent only: from_chars would also take "inf" and "nan".
bool looks_numeric(std::string_view text) {
  return !text.empty() && text.find_first_not_of("+-.0123456789eE") == std::string_view::npos &&
         text.find_first_of("0123456789") != std::string_view::npos;
}

struct Number {
  double value = 0.0;
  bool ok = false;
  bool too_large = false;
};

Number read_number(std::string_view text) {
  if (!looks_numeric(text)) return {};
  text = without_plus(text);
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size()) return {};
  if (error == std::errc::result_out_of_range) return {.value = 0.0, .ok = false, .too_large = true};
  return {.value = value, .ok = error == std::errc() && std::isfinite(value), .too_large = false};
}

}  // namespace

std::optional<bool> parse_bool(std::string_view text) {
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  return std::nullopt;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  text = without_plus(text);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_number(std::string_view text) {
  const Number number = read_number(text);
  return number.ok ? std::optional(number.value) : std::nullopt;
}

bool is_not_finite(std::string_view text) {
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  for (const std::string_view word : {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"}) {
    if (text == word) return true;
  }
  return read_number(text).too_large;
}

std::optional<base::Duration> parse_duration(std::string_view text) {
  const auto unit_at = text.find_first_not_of("0123456789.");
  if (unit_at == 0 || unit_at == std::string_view::npos) return std::nullopt;
  const std::string_view number_text = text.substr(0, unit_at);
  std::string_view unit_text = text.substr(unit_at);
  if (unit_text.starts_with(' ')) unit_text.remove_prefix(1);
  for (const Unit& unit : kUnits) {
    if (unit.name != unit_text) continue;
    if (const auto whole = parse_integer(number_text)) {
      if (*whole > INT64_MAX / unit.ns) return std::nullopt;
      return base::Duration(*whole * unit.ns);
    }
    const auto number = parse_number(number_text);
    if (!number) return std::nullopt;
    const double ns = *number * static_cast<double>(unit.ns);
    // 2^63 is the first double that does not fit.
    if (ns >= 9223372036854775808.0) return std::nullopt;
    return base::Duration(std::llround(ns));
  }
  return std::nullopt;
}

std::string duration_text(base::Duration duration) {
  const std::int64_t ns = duration.count();
  if (ns == 0) return "0ms";
  for (const Unit& unit : kUnits) {
    if (ns % unit.ns == 0) return fmt::format("{}{}", ns / unit.ns, unit.name);
  }
  return fmt::format("{}ns", ns);
}

std::optional<std::int64_t> parse_size(std::string_view text) {
  constexpr double kMost = 4611686018427387904.0;  // 2^62
  const auto unit_at = text.find_first_not_of("0123456789.");
  if (unit_at == 0 || unit_at == std::string_view::npos) return std::nullopt;
  const auto number = parse_number(text.substr(0, unit_at));
  std::string_view unit = text.substr(unit_at);
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const auto& [name, bytes] : kSizes) {
    if (name != unit) continue;
    if (!number || *number * static_cast<double>(bytes) > kMost) return std::nullopt;
    return std::llround(*number * static_cast<double>(bytes));
  }
  return std::nullopt;
}

std::string size_text(std::int64_t bytes) {
  for (const auto& [name, unit] : kSizes) {
    if (bytes % unit == 0) return fmt::format("{}{}", bytes / unit, name);
  }
  return fmt::format("{}KiB", static_cast<double>(bytes) / 1024);
}

std::string_view granted_path(std::string_view text) {
  constexpr std::string_view kFiles = "files:";
  if (!text.starts_with(kFiles)) return {};
  text.remove_prefix(kFiles.size());
  while (text.starts_with(' ')) text.remove_prefix(1);
  return text;
}

std::string shortened(std::string_view text) {
  constexpr std::size_t kLongest = 64;
  std::string result;
  for (const char c : text) {
    // Never between the bytes of one UTF-8 character.
    if (result.size() >= kLongest && (static_cast<unsigned char>(c) & 0xC0U) != 0x80U) return result + "...";
    if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else if (c == '\r') {
      result += "\\r";
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace camd::config
