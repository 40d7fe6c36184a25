#include "apps/dashboard/text.hpp"

#include <fmt/format.h>
#include <glib.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace camd::dashboard {
namespace {

constexpr char32_t kBroken = 0xFFFD;

// Takes one character off the front. Broken bytes give kBroken, one at a time (Unicode 3.9, D92: no
// overlong forms, no surrogates).
char32_t take_char(std::string_view& text) noexcept {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) {
    text.remove_prefix(1);
    return lead;
  }
  const gunichar c = g_utf8_get_char_validated(text.data(), static_cast<gssize>(text.size()));
  if (c > 0x10FFFF) {  // GLib's two error values
    text.remove_prefix(1);
    return kBroken;
  }
  text.remove_prefix(static_cast<std::size_t>(g_unichar_to_utf8(c, nullptr)));
  return c;
}

// Formats and direction controls, private use, what is not assigned, and letters that are blank by design.
bool is_invisible(char32_t c) noexcept {
  switch (g_unichar_type(c)) {
    case G_UNICODE_CONTROL:
    case G_UNICODE_FORMAT:
    case G_UNICODE_LINE_SEPARATOR:
    case G_UNICODE_PARAGRAPH_SEPARATOR:
    case G_UNICODE_PRIVATE_USE:
    case G_UNICODE_SURROGATE:
    case G_UNICODE_UNASSIGNED: return true;
    default: return c == 0x115F || c == 0x1160 || c == 0x2800 || c == 0x3164 || c == 0xFFA0;
  }
}

bool is_joiner(char32_t c) noexcept {
  return c == 0x200C || c == 0x200D || (c >= 0xFE00 && c <= 0xFE0F) || (c >= 0xE0100 && c <= 0xE01EF);
}

std::string three_digits(double value) {
  if (value < 0.9995) return fmt::format("{:.3f}", value);
  if (value < 9.995) return fmt::format("{:.2f}", value);
  if (value < 99.95) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

// The bytes of the longest beginning of `text` that takes at most `cells`.
std::size_t bytes_that_fit(std::string_view text, int cells) noexcept {
  std::string_view rest = text;
  std::size_t used = 0;
  int width = 0;
  while (!rest.empty()) {
    width += char_width(take_char(rest));
    if (width > cells) break;
    used = text.size() - rest.size();
  }
  return used;
}

std::string_view sgr(Style style, bool colour) noexcept {
  switch (style) {
    case Style::kPlain: return "";
    case Style::kDim: return "2";
    case Style::kBold: return "1";
    case Style::kGood:
    case Style::kCompute: return colour ? "32" : "";
    case Style::kWarn:
    case Style::kWait: return colour ? "33" : "";
    case Style::kBad: return colour ? "1;31" : "1";
    case Style::kHost: return colour ? "34" : "";
    case Style::kMove: return colour ? "36" : "";
    case Style::kSelected: return colour ? "1;36" : "7";
  }
  return "";
}

}  // namespace

int char_width(char32_t c) noexcept {
  if (g_unichar_iszerowidth(c) != FALSE) return 0;
  return g_unichar_iswide(c) != FALSE ? 2 : 1;
}

int text_width(std::string_view utf8) noexcept {
  int width = 0;
  while (!utf8.empty()) width += char_width(take_char(utf8));
  return width;
}

std::string printable(std::string_view raw) {
  std::string out;
  out.reserve(raw.size());
  int marks = 0;
  while (!raw.empty()) {
    const std::string_view before = raw;
    const char32_t c = take_char(raw);
    if (c < 0x20 || c == 0x7F) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    } else if (c == kBroken) {
      out += "\xEF\xBF\xBD";
    } else if (is_joiner(c)) {
      continue;
    } else if (is_invisible(c)) {
      out += fmt::format("\\u{{{:x}}}", static_cast<unsigned>(c));
    } else {
      marks = char_width(c) == 0 ? marks + 1 : 0;
      if (marks > 2 || (marks > 0 && out.empty())) continue;
      out.append(before.substr(0, before.size() - raw.size()));
    }
  }
  return out;
}

std::string without_colours(std::string_view raw) {
  std::string out;
  while (!raw.empty()) {
    if (raw.size() >= 2 && raw[0] == '\x1b' && raw[1] == '[') {
      const std::size_t end = raw.find_first_not_of("0123456789;", 2);
      if (end != std::string_view::npos && raw[end] == 'm') {
        raw.remove_prefix(end + 1);
        continue;
      }
    }
    out += raw.front();
    raw.remove_prefix(1);
  }
  return out;
}

std::string clip(std::string_view text, int cells) {
  if (cells <= 0) return {};
  if (text_width(text) <= cells) return std::string(text);
  return std::string(text.substr(0, bytes_that_fit(text, cells - 1))) + "…";
}

std::string pad_right(std::string_view text, int cells) {
  std::string out = clip(text, cells);
  out.append(static_cast<std::size_t>(std::max(0, cells - text_width(out))), ' ');
  return out;
}

std::string pad_left(std::string_view text, int cells) {
  const std::string clipped = clip(text, cells);
  return std::string(static_cast<std::size_t>(std::max(0, cells - text_width(clipped))), ' ') + clipped;
}

std::string format_ms(double us) {
  if (!(us >= 0)) return "-";
  const double ms = us / 1000.0;
  return ms < 99999.5 ? three_digits(ms) : fmt::format("{:.0f}s", std::min(ms / 1000.0, 999999.0));
}

std::string format_bytes(double value) {
  if (!(value >= 0)) return "-";
  if (value < 1000) return fmt::format("{:.0f} B", value);
  constexpr std::string_view kUnits[] = {"kB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  value /= 1000;
  while (value >= 999.5 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{} {}", three_digits(value), kUnits[unit]);
}

std::string format_elapsed(std::int64_t ns) {
  const std::int64_t seconds = std::max<std::int64_t>(0, ns) / 1'000'000'000;
  const std::string clock = fmt::format("{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
  return seconds < 86400 ? clock : fmt::format("{}d {}", seconds / 86400, clock);
}

std::string format_number(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15 ? fmt::format("{:.0f}", value)
                                                              : fmt::format("{:.4g}", value);
}

std::string format_rate(double per_second) {
  if (!(per_second >= 0)) return "-";
  return per_second < 999.95 ? fmt::format("{:.1f}", per_second) : fmt::format("{:.0f}", std::min(per_second, 1e9));
}

Line& Line::add(std::string text, Style style) {
  if (text.empty()) return *this;
  width_ += text_width(text);
  if (!spans_.empty() && spans_.back().style == style) {
    spans_.back().text += text;
  } else {
    spans_.push_back({std::move(text), style});
  }
  return *this;
}

void Line::fit(int columns) {
  if (width_ <= columns) return;
  std::vector<Span> spans = std::exchange(spans_, {});
  width_ = 0;
  for (Span& span : spans) {
    const int left = columns - 1 - width_;  // one cell is the ellipsis's
    const std::size_t fits = bytes_that_fit(span.text, left);
    const bool cut = fits < span.text.size();
    span.text.resize(fits);
    add(std::move(span.text), span.style);
    if (cut) break;
  }
  if (columns > 0) add("…", Style::kDim);
}

std::string Line::plain() const {
  std::string out;
  for (const Span& span : spans_) out += span.text;
  out.erase(out.find_last_not_of(' ') + 1);
  return out;
}

std::string Line::ansi(bool colour) const {
  std::string out;
  for (const Span& span : spans_) {
    const std::string_view code = sgr(span.style, colour);
    if (code.empty()) {
      out += span.text;
    } else {
      out.append("\x1b[").append(code).append("m").append(span.text).append("\x1b[0m");
    }
  }
  return out;
}

std::string plain_text(const std::vector<Line>& lines) {
  std::string out;
  for (const Line& line : lines) out += line.plain() + "\n";
  return out;
}

}  // namespace camd::dashboard
