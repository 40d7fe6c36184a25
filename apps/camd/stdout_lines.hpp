// Metrics lines on stdout, whole or not at all, without ever holding up a stop.
//
// Threads: write() one thread at a time; cancel() [any].
// Invariants: a reader that is slow makes write() wait; one that has gone ends the output with one warning, the cameras
// go on.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

namespace camd::app {

class StdoutLines {
 public:
  explicit StdoutLines(int fd) : fd_(fd) {}
  // [blocks] while the reader is slow, until cancel().
  void write(std::string_view line);
  // Stop is near: what cannot be written within a second from now on is given up.
  void cancel() noexcept { cancelled_ = true; }

 private:
  const int fd_;
  bool closed_ = false;
  std::atomic<bool> cancelled_{false};
  std::string buffer_;
};

}  // namespace camd::app
