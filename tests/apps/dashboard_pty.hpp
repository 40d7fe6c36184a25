// A pseudo terminal for tests: what was written to it, what its screen shows, and programs that run on it.
//
// Threads: one thread. Waiting is polling with a deadline, never sleeping.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace camd::dashboard::testing {

inline constexpr auto kDeadline = std::chrono::seconds(20);

class Pty {
 public:
  // A terminal for this process (it does not become its controlling one).
  explicit Pty(int columns = 80, int rows = 24) {
    const winsize size = to_winsize(columns, rows);
    if (::openpty(&master_, &slave_, nullptr, nullptr, &size) != 0) std::abort();
    ::fcntl(master_, F_SETFD, FD_CLOEXEC);
  }
  // Runs a program on a terminal of its own; with `input` >= 0 that is its standard input.
  Pty(const std::vector<std::string>& command, int input, int columns = 80, int rows = 24) {
    const winsize size = to_winsize(columns, rows);
    child_ = ::forkpty(&master_, nullptr, nullptr, &size);
    if (child_ == 0) {
      if (input >= 0) ::dup2(input, STDIN_FILENO);
      std::vector<char*> args;
      for (const std::string& arg : command) args.push_back(const_cast<char*>(arg.c_str()));
      args.push_back(nullptr);
      ::setenv("TERM", "xterm-256color", 1);
      ::execv(args[0], args.data());
      ::_exit(127);
    }
    if (child_ < 0) std::abort();
    ::fcntl(master_, F_SETFD, FD_CLOEXEC);
  }
  ~Pty() {
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
    }
    if (slave_ >= 0) ::close(slave_);
    ::close(master_);
  }
  Pty(const Pty&) = delete;
  Pty& operator=(const Pty&) = delete;

  [[nodiscard]] int slave() const { return slave_; }
  [[nodiscard]] pid_t child() const { return child_; }
  // Everything written since the last clear().
  [[nodiscard]] const std::string& output() const { return output_; }
  void clear() { output_.clear(); }

  // Reads until `done` is true; false at the deadline or when the other side is gone.
  bool wait(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline || !read_some(50)) return done();
    }
    return true;
  }
  bool wait_for(const std::string& text) {
    return wait([&] { return output_.find(text) != std::string::npos; });
  }
  bool wait_for_screen(const std::string& text) {
    return wait([&] { return screen().find(text) != std::string::npos; });
  }
  // Takes what is already there.
  void drain() {
    while (read_some(0) && more_) {
    }
  }

  void type(const std::string& keys) const {
    if (::write(master_, keys.data(), keys.size()) < 0) std::abort();
  }
  void resize(int columns, int rows) const {  // the kernel sends SIGWINCH to the foreground group, if there is one
    const winsize size = to_winsize(columns, rows);
    ::ioctl(master_, TIOCSWINSZ, &size);
  }
  [[nodiscard]] termios modes() const {
    termios modes{};
    ::tcgetattr(master_, &modes);
    return modes;
  }

  // The child's exit status as the shell would say it (128 + signal); reads its output until then.
  int wait_exit() {
    int status = 0;
    wait([&] {
      if (child_ <= 0 || ::waitpid(child_, &status, WNOHANG) != child_) return false;
      child_ = -1;
      return true;
    });
    drain();
    if (child_ > 0) return -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

  // What the rows show, as far as this dashboard draws: whole rows after a cursor position, colours ignored.
  [[nodiscard]] std::string screen() const {
    std::map<int, std::string> rows;
    int row = 0;
    for (std::size_t i = 0; i < output_.size(); ++i) {
      if (output_[i] == '\x1b' && i + 1 < output_.size() && output_[i + 1] == '[') {
        const std::size_t end = output_.find_first_of("ABCDHJKhlmn", i + 2);
        if (end == std::string::npos) break;
        const std::string args = output_.substr(i + 2, end - i - 2);
        if (output_[end] == 'H' && !args.empty()) rows[row = std::atoi(args.c_str())].clear();
        if (output_[end] == 'J') rows.clear();
        if (output_[end] == 'l' && args == "?1049") rows.clear();
        i = end;
      } else if (row > 0) {
        rows[row] += output_[i];
      }
    }
    std::string out;
    for (const auto& [number, text] : rows) {
      out += text;
      out.erase(out.find_last_not_of(' ') + 1);
      out += '\n';
    }
    return out;
  }

 private:
  static winsize to_winsize(int columns, int rows) {
    winsize size{};
    size.ws_col = static_cast<unsigned short>(columns);
    size.ws_row = static_cast<unsigned short>(rows);
    return size;
  }

  bool read_some(int timeout_ms) {
    more_ = false;
    pollfd p{master_, POLLIN, 0};
    if (::poll(&p, 1, timeout_ms) <= 0) return true;
    char buffer[4096];
    const ssize_t n = ::read(master_, buffer, sizeof buffer);
    if (n <= 0) return child_ > 0;  // hung up; an exit status may still come
    output_.append(buffer, static_cast<std::size_t>(n));
    more_ = true;
    return true;
  }

  int master_ = -1;
  int slave_ = -1;
  pid_t child_ = -1;
  bool more_ = false;
  std::string output_;
};

}  // namespace camd::dashboard::testing
