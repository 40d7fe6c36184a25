// The live dashboard: metrics lines in, a calm picture on the terminal, a closing summary at the end.
//
// Used by `camd run --metrics dashboard` and by camtop. It draws on a thread of its own, at most ten times
// a second and only after something changed, so a slow or stopped terminal (Ctrl-S) never holds up feed().
//
//   function            thread
//   usable              [any]
//   feed, add_log       [any]; they take a short lock and never wait for the terminal
//   close               [any], also inside on_quit; [blocks] until the terminal is as it was (a second or two at
//                       most when it takes no output)
//   Options::on_quit    called on [dashboard]; must not destroy the LiveDashboard
//
// Invariants: the terminal is restored by close(), the destructor, exit(), a crash, and while suspended.
// One LiveDashboard (one Terminal) exists at a time in a process.
#pragma once

#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace camd::dashboard {

class LiveDashboard {
 public:
  struct Options {
    int fd = STDOUT_FILENO;         // the terminal to draw on; borrowed
    std::function<void()> on_quit;  // the user pressed q; without it q does nothing and is not offered
    // While the dashboard is up, what this process writes to a stderr on the same terminal (libraries do)
    // appears in the log area instead of destroying the picture. Its end is non-blocking: a line is
    // lost rather than held up when the terminal is stuck. close() gives stderr back and prints the last lines.
    bool take_stderr = true;
    bool ascii = false;   // bars and marks in ASCII; taken by itself on consoles without block characters
    bool summary = true;  // close() prints the closing summary on the normal screen
    std::chrono::milliseconds min_interval{100};  // between two pictures
  };

  // True when `fd` is a terminal that can be drawn on (not TERM=dumb).
  [[nodiscard]] static bool usable(int fd);

  // Takes over the terminal and starts to draw. Throws base::Error(kIo) when `fd` is no terminal or cannot be set up.
  explicit LiveDashboard(Options options);
  ~LiveDashboard();  // close()
  LiveDashboard(const LiveDashboard&) = delete;
  LiveDashboard& operator=(const LiveDashboard&) = delete;

  // One metrics line, with or without its newline. False when it was not understood (counted and shown).
  bool feed(std::string_view line);
  // A log line for the small area at the bottom; control characters are made visible, colours removed.
  void add_log(std::string line);
  // Restores the terminal and prints the summary. Calls after the first do nothing; feed() is still allowed.
  void close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace camd::dashboard
