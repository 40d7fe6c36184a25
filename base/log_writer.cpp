#include "base/log_writer.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <deque>
#include <iterator>
#include <thread>
#include <utility>

#include "base/mutex.hpp"
#include "base/thread.hpp"

namespace camd::base {
namespace {

constexpr Duration kLastPatience = std::chrono::seconds(1);
constexpr int kPollMs = 1000;

struct LevelForm {
  const char* name;
  const char* colour;
  int priority;  // syslog(3)
};

LevelForm form_of(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::kError: return {"error", "\033[31m\033[1m", 3};
    case LogLevel::kWarning: return {"warning", "\033[33m\033[1m", 4};
    case LogLevel::kInfo: return {"info", "\033[32m", 6};
    case LogLevel::kDebug: return {"debug", "\033[36m", 7};
    case LogLevel::kTrace: break;
  }
  return {"trace", "\033[37m", 7};
}

// Bytes of the character that `text` begins with (Unicode 15, table 3-7); 0 when it begins with none. `text` is not
// empty.
std::size_t character_bytes(std::string_view text) noexcept {
  const auto at = [text](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned lead = at(0);
  if (lead < 0x80U) return 1;
  const std::size_t bytes = lead >= 0xC2U && lead <= 0xDFU   ? 2U
                            : lead >= 0xE0U && lead <= 0xEFU ? 3U
                            : lead >= 0xF0U && lead <= 0xF4U ? 4U
                                                             : 0U;
  // What a second byte must lie in, so that nothing is longer than it needs to be, a surrogate, or above U+10FFFF.
  const unsigned low = lead == 0xE0U ? 0xA0U : lead == 0xF0U ? 0x90U : 0x80U;
  const unsigned high = lead == 0xEDU ? 0x9FU : lead == 0xF4U ? 0x8FU : 0xBFU;
  for (std::size_t i = 1; i < bytes; ++i) {
    if (at(i) < (i == 1 ? low : 0x80U) || at(i) > (i == 1 ? high : 0xBFU)) return 0;
  }
  return bytes;
}

void append_beginning(std::string& out, LogStyle style, LogLevel level, std::chrono::system_clock::time_point when) {
  const LevelForm form = form_of(level);
  const auto to = std::back_inserter(out);
  if (style == LogStyle::kJournal) {
    fmt::format_to(to, "<{}>", form.priority);
    return;
  }
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(when.time_since_epoch()).count() % 1000;
  const std::time_t seconds = std::chrono::system_clock::to_time_t(when);
  std::tm time{};
  if (style == LogStyle::kPlain) {
    gmtime_r(&seconds, &time);
    fmt::format_to(to, "{:%Y-%m-%dT%H:%M:%S}.{:03}Z {} ", time, ms, form.name);
  } else {
    localtime_r(&seconds, &time);
    fmt::format_to(to, "{:%H:%M:%S}.{:03} {}{}\033[0m ", time, ms, form.colour, form.name);
  }
}

void append_printable(std::string& out, std::string_view line) {
  while (!line.empty()) {
    const auto byte = static_cast<unsigned char>(line.front());
    const std::size_t bytes = character_bytes(line);
    const bool c1 = bytes == 2 && byte == 0xC2U && static_cast<unsigned char>(line[1]) < 0xA0U;
    const bool control = (byte < 0x20U && byte != '\t') || byte == 0x7FU || c1;
    if (bytes == 0 || control) {
      out += '?';
    } else {
      out += line.substr(0, bytes);
    }
    line.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
}

}  // namespace

LogStyle log_style_of(int fd, const char* journal_stream) noexcept {
  struct stat file {};
  if (journal_stream != nullptr && fstat(fd, &file) == 0) {
    const char* const end = journal_stream + std::strlen(journal_stream);
    dev_t device = 0;
    ino_t inode = 0;
    const auto first = std::from_chars(journal_stream, end, device);
    if (first.ec == std::errc() && first.ptr != end && *first.ptr == ':') {
      const auto second = std::from_chars(first.ptr + 1, end, inode);
      if (second.ec == std::errc() && second.ptr == end && device == file.st_dev && inode == file.st_ino) {
        return LogStyle::kJournal;
      }
    }
  }
  return isatty(fd) == 1 ? LogStyle::kTerminal : LogStyle::kPlain;
}

void append_log_lines(std::string& out, LogStyle style, LogLevel level, std::chrono::system_clock::time_point when,
                      std::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  for (;;) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    append_beginning(out, style, level, when);
    append_printable(out, text.substr(0, end));
    out += '\n';
    if (end == text.size()) return;
    text.remove_prefix(end + 1);
  }
}

struct LogWriter::State {
  State(int descriptor, LogStyle line_style) : fd(descriptor), style(line_style) {}

  void loop() noexcept;
  void write_out(std::string_view text) const noexcept;

  const int fd;
  const LogStyle style;
  mutable Mutex mutex;
  CondVar filled;
  CondVar written;
  std::deque<std::string> lines CAMD_GUARDED_BY(mutex);
  std::size_t bytes CAMD_GUARDED_BY(mutex) = 0;          // of `lines`
  std::uint64_t taken_in CAMD_GUARDED_BY(mutex) = 0;     // entries of `lines` so far
  std::uint64_t written_out CAMD_GUARDED_BY(mutex) = 0;  // of them
  std::uint64_t lost CAMD_GUARDED_BY(mutex) = 0;
  std::uint64_t lost_told CAMD_GUARDED_BY(mutex) = 0;
  bool telling CAMD_GUARDED_BY(mutex) = false;  // of a loss
  bool running CAMD_GUARDED_BY(mutex) = false;  // the thread
  bool ending CAMD_GUARDED_BY(mutex) = false;
};

// [writer]
void LogWriter::State::loop() noexcept {
  name_this_thread("log");
  for (;;) {
    std::string text;
    std::uint64_t missing = 0;
    bool line = false;
    {
      const MutexLock lock(mutex);
      while (lines.empty() && lost == lost_told && !ending) filled.wait(mutex);
      if (lines.empty() && lost == lost_told) return;
      line = !lines.empty();
      if (line) {
        text = std::move(lines.front());
        lines.pop_front();
        bytes -= text.size();
      } else {  // after the lines that came before the loss
        missing = lost - std::exchange(lost_told, lost);
        telling = true;
      }
    }
    if (missing > 0) {
      append_log_lines(text, style, LogLevel::kWarning, std::chrono::system_clock::now(),
                       fmt::format("{} lines of the log were lost: nobody read them", missing));
    }
    write_out(text);
    const MutexLock lock(mutex);
    if (line) ++written_out;
    telling = false;
    written.notify_all();
  }
}

// [writer] [blocks] An error that stays (a reader that has gone, a full disk) costs the text.
void LogWriter::State::write_out(std::string_view text) const noexcept {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count > 0) {
      text.remove_prefix(static_cast<std::size_t>(count));
    } else if (count < 0 && errno == EAGAIN) {  // somebody who shares the descriptor made it so
      pollfd ready{fd, POLLOUT, 0};
      (void)poll(&ready, 1, kPollMs);
    } else if (count == 0 || errno != EINTR) {
      return;
    }
  }
}

LogWriter::LogWriter(int fd, LogStyle style) : style_(style), state_(std::make_shared<State>(fd, style)) {}

LogWriter::~LogWriter() {
  (void)flush(kLastPatience);
  const MutexLock lock(state_->mutex);
  state_->ending = true;
  state_->filled.notify_all();
}

void LogWriter::write(std::string lines) noexcept {
  const MutexLock lock(state_->mutex);
  const bool full = state_->bytes + lines.size() > kMostBytes;
  // Once a line was lost none is taken until that is told: there is no gap that nobody knows of.
  if (full || state_->lost != state_->lost_told) {
    state_->lost += static_cast<std::uint64_t>(std::count(lines.begin(), lines.end(), '\n'));
    state_->filled.notify_one();
    return;
  }
  try {
    if (!state_->running) {  // not before the first line, so that a program which logs nothing has no thread
      std::thread([state = state_] { state->loop(); }).detach();
      state_->running = true;
    }
    state_->lines.push_back(std::move(lines));
    state_->bytes += state_->lines.back().size();
    ++state_->taken_in;
  } catch (const std::exception&) {  // no memory, or no thread
    ++state_->lost;
    return;
  }
  state_->filled.notify_one();
}

bool LogWriter::flush(Duration patience) noexcept {
  const TimePoint deadline = std::chrono::steady_clock::now() + patience;
  const MutexLock lock(state_->mutex);
  if (!state_->running) return true;
  const std::uint64_t until = state_->taken_in;
  const auto done = [&]() CAMD_REQUIRES(state_->mutex) {
    return state_->written_out >= until && state_->lost == state_->lost_told && !state_->telling;
  };
  while (!done()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    (void)state_->written.wait_until(state_->mutex, deadline);
  }
  return true;
}

std::uint64_t LogWriter::lost() const noexcept {
  const MutexLock lock(state_->mutex);
  return state_->lost;
}

}  // namespace camd::base
