// Text for a terminal: UTF-8 and its width in cells, escaping of what could steer the terminal, lines of
// styled spans, and the short forms of numbers that the dashboard shows.
//
// Threads: pure functions and plain values, [any].
// Invariants: nothing here depends on the process's locale. A string that went through printable() holds
// valid UTF-8 without control, direction or invisible characters, so it can be sent to a terminal as it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace camd::dashboard {

// Cells that one character takes: 0 (combining), 1, or 2 (East Asian wide and emoji; Unicode TR 11, as GLib knows it).
[[nodiscard]] int char_width(char32_t c) noexcept;

// Cells that `utf8` takes. Bytes that are no UTF-8 count as one cell each.
[[nodiscard]] int text_width(std::string_view utf8) noexcept;

// `raw` made safe to print: control characters become \x1b, direction overrides and other invisible
// characters \u{202e}, broken UTF-8 U+FFFD. Joiners and variation selectors are left out and more than two
// combining marks in a row too, because terminals disagree about their width.
[[nodiscard]] std::string printable(std::string_view raw);

// `raw` without its colour sequences (ESC [ ... m): log lines carry them, and they mean no harm.
[[nodiscard]] std::string without_colours(std::string_view raw);

// The longest beginning of `text` that fits `cells`, ending in an ellipsis when something was cut.
[[nodiscard]] std::string clip(std::string_view text, int cells);
// Clipped and padded with spaces to exactly `cells`.
[[nodiscard]] std::string pad_right(std::string_view text, int cells);
[[nodiscard]] std::string pad_left(std::string_view text, int cells);

// Microseconds as milliseconds with three significant digits: 0.032, 1.23, 12.3, 123; "-" below zero.
[[nodiscard]] std::string format_ms(double us);
// 512 B, 1.38 MB: powers of 1000, three significant digits.
[[nodiscard]] std::string format_bytes(double value);
// Nanoseconds as 00:12:34, or 3d 04:05:06.
[[nodiscard]] std::string format_elapsed(std::int64_t ns);
// A number of which nothing is known: whole numbers below 1e15 with all their digits, others with four significant
// ones.
[[nodiscard]] std::string format_number(double value);
// 30.0; 1234 from a thousand on.
[[nodiscard]] std::string format_rate(double per_second);

enum class Style : std::uint8_t {
  kPlain,
  kDim,
  kBold,
  kGood,      // green
  kWarn,      // yellow
  kBad,       // red, bold
  kHost,      // blue: work on the host
  kMove,      // cyan: bytes on their way
  kCompute,   // green: work on the device
  kWait,      // yellow: a frame that waits
  kSelected,  // bold, in reverse where there is no colour to tell
};

struct Span {
  std::string text;  // printable
  Style style = Style::kPlain;

  friend bool operator==(const Span&, const Span&) = default;
};

// One row of the screen.
class Line {
 public:
  Line() = default;
  Line(std::string text, Style style = Style::kPlain) { add(std::move(text), style); }  // NOLINT: a text is a line

  Line& add(std::string text, Style style = Style::kPlain);
  [[nodiscard]] int width() const noexcept { return width_; }
  [[nodiscard]] const std::vector<Span>& spans() const noexcept { return spans_; }
  // Cuts the line to `columns` cells.
  void fit(int columns);
  // The text alone, without trailing spaces.
  [[nodiscard]] std::string plain() const;
  // The text with SGR sequences (ECMA-48, 8.3.117); without `colour` only bold, dim and reverse are used.
  [[nodiscard]] std::string ansi(bool colour) const;

  friend bool operator==(const Line&, const Line&) = default;

 private:
  std::vector<Span> spans_;
  int width_ = 0;
};

// Every line's plain text, each ended by a newline.
[[nodiscard]] std::string plain_text(const std::vector<Line>& lines);

}  // namespace camd::dashboard
