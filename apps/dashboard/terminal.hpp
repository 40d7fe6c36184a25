// The terminal that a dashboard draws on, and how it gets back to what it was before.
//
// Entering: alternate screen, hidden cursor, no line wrap, no echo, keys at once (Ctrl-C still signals).
// Leaving happens in restore() and the destructor, at exit(), in suspend(), and, from a signal handler, on
// faults, abort and those of SIGINT, SIGTERM, SIGHUP and SIGQUIT that the program had left at their default.
// Signals the program handles itself stay its own: it calls restore().
//
//   function             thread
//   emergency_restore    [any], also inside a signal handler
//   everything else      one thread at a time
//
// Invariants: at most one Terminal is in use in a process. Nothing here waits longer than a second for a
// terminal that takes no output.
#pragma once

#include <termios.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "apps/dashboard/text.hpp"

namespace camd::dashboard {

struct Size {
  int columns = 80;
  int rows = 24;
  friend bool operator==(const Size&, const Size&) = default;
};

enum class Key { kNone, kUp, kDown, kPageUp, kPageDown, kQuit, kFilter, kText, kErase, kEnter, kEscape };

struct KeyPress {
  Key key = Key::kNone;
  char text = 0;  // of kText: a printable byte, of UTF-8 too
};

class Terminal {
 public:
  struct Signals {
    bool resized = false;
    bool stop = false;       // Ctrl-Z: call suspend()
    bool continued = false;  // call resume()
  };

  // True when `fd` is a terminal, not TERM=dumb, and this process is in its foreground.
  [[nodiscard]] static bool usable(int fd);

  // Enters. `fd` is borrowed. With `take_stderr`, a stderr on the same terminal is led into stderr_fd().
  // Throws base::Error(kIo) when `fd` is no terminal or another Terminal is in use.
  Terminal(int fd, bool take_stderr);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  [[nodiscard]] Size size() const;
  // NO_COLOR (no-color.org) is unset or empty.
  [[nodiscard]] bool colour() const noexcept { return colour_; }
  // The console has no block characters (TERM=linux, vt...).
  [[nodiscard]] bool ascii_only() const noexcept { return ascii_only_; }

  // Shows the lines: the rows that changed since the last call, in one write, as one synchronized update
  // (DEC private mode 2026). False when the terminal took no output in time: the next call draws everything.
  bool draw(const std::vector<Line>& lines);
  // The next draw() sends every row.
  void invalidate() noexcept { shown_valid_ = false; }

  // Poll these for input; -1 where there is none.
  [[nodiscard]] int key_fd() const noexcept { return key_fd_; }
  [[nodiscard]] int signal_fd() const noexcept { return pipe_[0]; }
  [[nodiscard]] int stderr_fd() const noexcept { return stderr_pipe_[0]; }

  // kNone when no more keys wait. While a text is `typing`, letters are kText and not commands.
  [[nodiscard]] KeyPress read_key(bool typing);
  // Whether Escape alone was pressed: nothing came behind it for a while. Forgets it then.
  [[nodiscard]] bool has_escape() const noexcept { return keys_ == "\x1b"; }  // or the first byte of a sequence
  [[nodiscard]] bool take_escape();
  [[nodiscard]] Signals read_signals();
  [[nodiscard]] std::string read_stderr();      // what waits, possibly part of a line
  void close_keys() noexcept { key_fd_ = -1; }  // the terminal hung up

  // Leaves, stops the process as Ctrl-Z would without us, and comes back in resume().
  void suspend();
  // Enters again after the process was continued. False while it runs in the background: try again later.
  bool resume();
  [[nodiscard]] bool suspended() const noexcept { return !entered_; }

  // Leaves for good: screen, cursor, modes, stderr and signal handlers are as they were.
  void restore();
  // Writes to the normal screen after restore().
  void print(std::string_view text);

  // Leaves the screen and resets the modes with async-signal-safe calls only; nothing to do is fine.
  static void emergency_restore() noexcept;

 private:
  void enter();
  void leave();
  bool write_all(std::string_view text) const;
  void install_handlers();
  void remove_handlers();

  int fd_ = -1;  // own description of the terminal, non-blocking where it can be opened
  int key_fd_ = -1;
  std::array<int, 2> pipe_{-1, -1};
  std::array<int, 2> stderr_pipe_{-1, -1};
  int saved_stderr_ = -1;
  bool colour_ = true;
  bool ascii_only_ = false;
  bool entered_ = false;
  bool shown_valid_ = false;
  std::vector<std::string> shown_;
  Size shown_size_;
  std::string keys_;  // bytes of keys not yet understood
};

}  // namespace camd::dashboard
