// LogWriter: takes lines from any thread and writes them to a descriptor on a thread of its own, because whoever reads
// there may be slow, or may never read. And the form that a line has there.
//
// Threads: everything [any]. Nothing but flush() waits for the descriptor, and that not longer than it was told.
// Invariants: at most kMostBytes of lines wait. Lines that do not fit are counted, and a line tells how many were lost
// as soon as there is room again. Lines come out in the order in which they went in, whole. The writing thread is never
// joined: it may be inside a write(2) that does not return. It keeps its own share of the state alive.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.hpp"

namespace camd::base {

enum class LogLevel : std::uint8_t { kError, kWarning, kInfo, kDebug, kTrace };

// What a line begins with.
enum class LogStyle : std::uint8_t {
  kTerminal,  // local time, the level in colour
  kPlain,     // date and time in UTC (RFC 3339), level
  kJournal,   // "<3>": the priority, which systemd's journal takes off; it adds time and name itself (sd-daemon(3))
};
// That for `fd`. `journal_stream` is the environment's JOURNAL_STREAM ("device:inode" of what the journal reads), which
// may be null and may be inherited from somebody else.
[[nodiscard]] LogStyle log_style_of(int fd, const char* journal_stream) noexcept;

// Appends `text` as lines, each with its beginning. What is no printable UTF-8 text (control characters, wrong bytes)
// becomes '?', so that no text can move a cursor or pass for a line of its own.
void append_log_lines(std::string& out, LogStyle style, LogLevel level, std::chrono::system_clock::time_point when,
                      std::string_view text);

class LogWriter {
 public:
  static constexpr std::size_t kMostBytes = 256U << 10U;

  // `fd` is borrowed and stays open as long as the process. Its file may change (dup2).
  LogWriter(int fd, LogStyle style);
  ~LogWriter();  // flushes for a second; what does not go out by then is lost
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // `lines` ends with a newline.
  void write(std::string lines) noexcept;
  // [blocks] until all is written that was there at the call, or for `patience`. False: it was not.
  bool flush(Duration patience) noexcept;
  [[nodiscard]] std::uint64_t lost() const noexcept;  // lines, since the start
  [[nodiscard]] LogStyle style() const noexcept { return style_; }

 private:
  struct State;
  const LogStyle style_;
  const std::shared_ptr<State> state_;
};

}  // namespace camd::base
