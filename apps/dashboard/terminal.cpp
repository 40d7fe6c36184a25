#include "apps/dashboard/terminal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "base/error.hpp"

namespace camd::dashboard {
namespace {

// Alternate screen, cursor hidden, no wrap at the right edge (a character whose width the terminal sees
// differently must not push the picture), cleared. xterm's ctlseqs; DECTCEM, DECAWM.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[H\x1b[2J";
// Ends a synchronized update that was cut short, then the opposite of the above.
constexpr std::string_view kLeave = "\x1b[?2026l\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";
constexpr int kWriteTimeoutMs = 400;

constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr int kNotices[] = {SIGWINCH, SIGTSTP, SIGCONT};

// What the signal handlers need; only lock-free atomics, and plain data that is written before `fd` is set.
struct Global {
  std::atomic<bool> in_use{false};
  std::atomic<int> fd{-1};  // entered terminal; -1: nothing to restore
  std::atomic<int> saved_stderr{-1};
  std::atomic<int> notice_fd{-1};
  termios saved{};
  struct sigaction old_faults[std::size(kFaults)]{};
  struct sigaction old_notices[std::size(kNotices)]{};
};
Global g;
static_assert(std::atomic<int>::is_always_lock_free);

// Works on non-blocking descriptors and gives up on a terminal that takes nothing.
bool write_with_timeout(int fd, const char* data, std::size_t size, int timeout_ms) noexcept {
  while (size > 0) {
    const ssize_t n = ::write(fd, data, size);
    if (n > 0) {
      data += n;
      size -= static_cast<std::size_t>(n);
    } else if (n < 0 && errno == EAGAIN) {
      pollfd p{fd, POLLOUT, 0};
      const int ready = ::poll(&p, 1, timeout_ms);
      if (ready == 0 || (ready < 0 && errno != EINTR)) return false;
    } else if (!(n < 0 && errno == EINTR)) {
      return false;
    }
  }
  return true;
}

// tcsetattr from a background process would stop us with SIGTTOU, just when we want to leave.
void set_modes(int fd, const termios& modes) noexcept {
  sigset_t block;
  sigset_t before;
  sigemptyset(&block);
  sigaddset(&block, SIGTTOU);
  pthread_sigmask(SIG_BLOCK, &block, &before);
  while (tcsetattr(fd, TCSANOW, &modes) < 0 && errno == EINTR) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void on_fault(int signal, siginfo_t* info, void* /*context*/) {
  const int error = errno;
  Terminal::emergency_restore();
  for (std::size_t i = 0; i < std::size(kFaults); ++i) {
    if (kFaults[i] == signal) ::sigaction(signal, &g.old_faults[i], nullptr);
  }
  // A real fault happens again on return, now with its address for the handler before ours (sanitizers);
  // everything else is sent again.
  const bool fault = signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL;
  if (!fault || info->si_code <= 0) ::raise(signal);
  errno = error;
}

void on_notice(int signal) {
  const int error = errno;
  const char byte = signal == SIGWINCH ? 'w' : signal == SIGTSTP ? 't' : 'c';
  const ssize_t written = ::write(g.notice_fd.load(), &byte, 1);  // a full pipe has notices enough
  (void)written;
  errno = error;
}

void make_pipe(std::array<int, 2>& ends) {
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    throw base::Error(base::ErrorKind::kIo, fmt::format("dashboard: cannot make a pipe: {}", std::strerror(errno)));
  }
}

void close_fd(int& fd) noexcept {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

bool same_terminal(int a, int b) {
  struct stat sa {};
  struct stat sb {};
  return ::isatty(a) == 1 && ::isatty(b) == 1 && ::fstat(a, &sa) == 0 && ::fstat(b, &sb) == 0 &&
         sa.st_rdev == sb.st_rdev;
}

bool in_foreground(int fd) {
  const pid_t group = ::tcgetpgrp(fd);
  return group < 0 || group == ::getpgrp();  // not our controlling terminal: nobody can put us behind
}

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing here sets variables
  return value == nullptr ? "" : value;
}

}  // namespace

bool Terminal::usable(int fd) { return ::isatty(fd) == 1 && environment("TERM") != "dumb" && in_foreground(fd); }

Terminal::Terminal(int fd, bool take_stderr) {
  if (::isatty(fd) != 1) throw base::Error(base::ErrorKind::kIo, "dashboard: the output is not a terminal");
  if (g.in_use.exchange(true)) {
    throw base::Error(base::ErrorKind::kIo, "dashboard: another dashboard already uses a terminal");
  }
  // A description of our own can be non-blocking without surprising whoever shares `fd`, and can be read.
  std::array<char, 256> name{};
  if (::ttyname_r(fd, name.data(), name.size()) == 0) {
    fd_ = ::open(name.data(), O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  }
  if (fd_ >= 0) {
    key_fd_ = fd_;
  } else {
    fd_ = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
    key_fd_ = (::fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR ? fd_ : -1;
  }
  try {
    if (fd_ < 0 || ::tcgetattr(fd_, &g.saved) != 0) {
      throw base::Error(base::ErrorKind::kIo,
                        fmt::format("dashboard: cannot set up the terminal: {}", std::strerror(errno)));
    }
    make_pipe(pipe_);
    if (take_stderr && same_terminal(fd, STDERR_FILENO)) {
      make_pipe(stderr_pipe_);
      saved_stderr_ = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    }
  } catch (...) {
    for (int* end : {&pipe_[0], &pipe_[1], &stderr_pipe_[0], &stderr_pipe_[1], &fd_}) close_fd(*end);
    g.in_use = false;
    throw;
  }
  colour_ = environment("NO_COLOR").empty();
  const std::string_view term = environment("TERM");
  ascii_only_ = term == "linux" || term.substr(0, 2) == "vt";
  static const int registered = std::atexit([] { emergency_restore(); });
  (void)registered;
  g.notice_fd = pipe_[1];
  install_handlers();
  enter();
}

Terminal::~Terminal() {
  restore();
  close_fd(fd_);
  for (int* end : {&pipe_[0], &pipe_[1], &stderr_pipe_[0], &stderr_pipe_[1], &saved_stderr_}) close_fd(*end);
  g.in_use = false;
}

void Terminal::install_handlers() {
  for (std::size_t i = 0; i < std::size(kFaults); ++i) {
    const int signal = kFaults[i];
    ::sigaction(signal, nullptr, &g.old_faults[i]);
    const bool polite = signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
    const bool taken = (g.old_faults[i].sa_flags & SA_SIGINFO) != 0 || g.old_faults[i].sa_handler != SIG_DFL;
    if (polite && taken) continue;
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    ::sigaction(signal, &action, nullptr);
  }
  for (std::size_t i = 0; i < std::size(kNotices); ++i) {
    ::sigaction(kNotices[i], nullptr, &g.old_notices[i]);
    if (kNotices[i] == SIGTSTP && g.old_notices[i].sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = on_notice;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    ::sigaction(kNotices[i], &action, nullptr);
  }
}

void Terminal::remove_handlers() {
  // Only where the handler is still ours: the program may have set its own since.
  for (std::size_t i = 0; i < std::size(kFaults); ++i) {
    struct sigaction now {};
    ::sigaction(kFaults[i], nullptr, &now);
    const bool ours = (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_fault;
    if (ours) ::sigaction(kFaults[i], &g.old_faults[i], nullptr);
  }
  for (std::size_t i = 0; i < std::size(kNotices); ++i) {
    struct sigaction now {};
    ::sigaction(kNotices[i], nullptr, &now);
    const bool ours = (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == on_notice;
    if (ours) ::sigaction(kNotices[i], &g.old_notices[i], nullptr);
  }
}

void Terminal::enter() {
  termios raw = g.saved;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_iflag &= ~static_cast<tcflag_t>(IXON);  // Ctrl-S would freeze the picture
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  g.saved_stderr = saved_stderr_;
  g.fd = fd_;  // from here on every way out restores
  set_modes(fd_, raw);
  if (saved_stderr_ >= 0) ::dup2(stderr_pipe_[1], STDERR_FILENO);
  write_all(kEnter);
  entered_ = true;
  shown_valid_ = false;
}

void Terminal::leave() {
  if (!entered_) return;
  entered_ = false;
  ::tcflush(fd_, TCIFLUSH);  // keys meant for the dashboard are not commands for the shell
  emergency_restore();
}

void Terminal::emergency_restore() noexcept {
  const int fd = g.fd.exchange(-1);
  if (fd < 0) return;
  write_with_timeout(fd, kLeave.data(), kLeave.size(), kWriteTimeoutMs / 2);
  set_modes(fd, g.saved);
  const int error_fd = g.saved_stderr.exchange(-1);
  if (error_fd >= 0) ::dup2(error_fd, STDERR_FILENO);
}

void Terminal::restore() {
  leave();
  if (g.notice_fd.load() == pipe_[1]) {
    remove_handlers();
    g.notice_fd = -1;
  }
}

void Terminal::suspend() {
  leave();
  // Stop as the default action would, so the shell sees an ordinary stopped job. Sent to this very thread
  // with the signal unblocked, the stop happens inside raise(), before our handler is back.
  struct sigaction ours {};
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  sigemptyset(&standard.sa_mask);
  sigset_t stop;
  sigset_t before;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  ::sigaction(SIGTSTP, &standard, &ours);
  pthread_sigmask(SIG_UNBLOCK, &stop, &before);
  ::raise(SIGTSTP);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::sigaction(SIGTSTP, &ours, nullptr);
  (void)read_signals();  // the notice of our own continuation
}

bool Terminal::resume() {
  if (!in_foreground(fd_)) return false;
  g.fd = -1;  // when stopped from outside we never left, but the shell may have changed screen and modes
  enter();
  return true;
}

Size Terminal::size() const {
  winsize w{};
  if (::ioctl(fd_, TIOCGWINSZ, &w) != 0 || w.ws_col == 0 || w.ws_row == 0) return {};
  return {w.ws_col, w.ws_row};
}

bool Terminal::draw(const std::vector<Line>& lines) {
  if (!entered_) return false;
  const Size now = size();
  const bool all = !shown_valid_ || now != shown_size_;
  const auto rows = std::min(lines.size(), static_cast<std::size_t>(now.rows));
  std::string out;
  if (all) {
    out = "\x1b[0m\x1b[2J";
    shown_.assign(rows, std::string());
  }
  shown_.resize(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    std::string text = lines[row].ansi(colour_);
    if (text == shown_[row]) continue;
    out += fmt::format("\x1b[{};1H", row + 1);
    out += text;
    // Erasing after a full row would take its last character away.
    if (lines[row].width() < now.columns) out += "\x1b[K";
    shown_[row] = std::move(text);
  }
  shown_size_ = now;
  shown_valid_ = true;
  if (out.empty()) return true;
  shown_valid_ = write_all("\x1b[?2026h" + out + "\x1b[?2026l");
  return shown_valid_;
}

bool Terminal::write_all(std::string_view text) const {
  return write_with_timeout(fd_, text.data(), text.size(), kWriteTimeoutMs);
}

void Terminal::print(std::string_view text) { write_all(text); }

namespace {

KeyPress command(char c) {
  switch (c) {
    case 'k': return {Key::kUp};
    case 'j':
    case '\t': return {Key::kDown};
    case 'q':
    case 'Q': return {Key::kQuit};
    case '/': return {Key::kFilter};
    default: return {};
  }
}

KeyPress typed(char c) {
  if (c == '\r' || c == '\n') return {Key::kEnter};
  if (c == '\x7f' || c == '\b') return {Key::kErase};
  const bool printable = static_cast<unsigned char>(c) >= 0x20;
  return printable ? KeyPress{Key::kText, c} : KeyPress{};
}

}  // namespace

KeyPress Terminal::read_key(bool typing) {
  std::array<char, 64> buffer{};
  for (;;) {
    const ssize_t n = key_fd_ < 0 ? 0 : ::read(key_fd_, buffer.data(), buffer.size());
    if (n <= 0) break;
    keys_.append(buffer.data(), static_cast<std::size_t>(n));
  }
  while (!keys_.empty()) {
    const char c = keys_[0];
    std::size_t used = 1;
    KeyPress press;
    if (c == '\x1b' && keys_.size() >= 2 && (keys_[1] == '[' || keys_[1] == 'O')) {
      // A control sequence: parameters, then one final byte (ECMA-48, 5.4).
      const std::size_t end = keys_.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz~@", 2);
      if (end == std::string::npos) {
        if (keys_.size() > 32) keys_.clear();
        return {};  // the rest is still on its way
      }
      used = end + 1;
      if (keys_[end] == 'A') press.key = Key::kUp;
      if (keys_[end] == 'B') press.key = Key::kDown;
      if (keys_.compare(0, used, "\x1b[5~") == 0) press.key = Key::kPageUp;
      if (keys_.compare(0, used, "\x1b[6~") == 0) press.key = Key::kPageDown;
    } else if (c == '\x1b' && keys_.size() == 1) {
      return {};  // the first byte of a sequence, or Escape: take_escape() decides
    } else if (c == '\x1b') {
      press.key = Key::kEscape;
    } else {
      press = typing ? typed(c) : command(c);
    }
    keys_.erase(0, used);
    if (press.key != Key::kNone) return press;
  }
  return {};
}

bool Terminal::take_escape() {
  if (keys_ != "\x1b") return false;
  keys_.clear();
  return true;
}

Terminal::Signals Terminal::read_signals() {
  Signals signals;
  std::array<char, 64> buffer{};
  for (ssize_t n = 0; (n = ::read(pipe_[0], buffer.data(), buffer.size())) > 0;) {
    for (ssize_t i = 0; i < n; ++i) {
      const char c = buffer[static_cast<std::size_t>(i)];
      signals.resized = signals.resized || c == 'w';
      signals.stop = signals.stop || c == 't';
      signals.continued = signals.continued || c == 'c';
    }
  }
  return signals;
}

std::string Terminal::read_stderr() {
  std::string out;
  std::array<char, 4096> buffer{};
  while (stderr_pipe_[0] >= 0 && out.size() < 65536) {
    const ssize_t n = ::read(stderr_pipe_[0], buffer.data(), buffer.size());
    if (n <= 0) break;
    out.append(buffer.data(), static_cast<std::size_t>(n));
  }
  return out;
}

}  // namespace camd::dashboard
