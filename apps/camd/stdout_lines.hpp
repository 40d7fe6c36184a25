// Metrics lines on stdout, whole or not at all, without ever holding up a stop.
//
// Threads: write(), resume() one thread at a time; cancel() [any].
// Invariants: a reader that is slow makes write() wait; one that has gone ends the output with one warning, the cameras
// go on. A line of which a part was written is finished before another one begins.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

namespace camd::app {

class StdoutLines {
 public:
  // `fd` is borrowed.
  explicit StdoutLines(int fd) : fd_(fd) {}
  // One line without its newline. [blocks] while the reader is slow, until cancel().
  void write(std::string_view line);
  // A stop is near: a line that cannot be written within a second is given up, and so is every later one, until
  // resume().
  void cancel() noexcept { cancelled_ = true; }
  // After cancel(): lines are written again. What is left of a line that was given up half-way comes first.
  void resume() noexcept;

 private:
  // Writes what is in rest_. False when it was given up.
  [[nodiscard]] bool write_rest();

  const int fd_;
  bool closed_ = false;    // for good: nobody reads
  bool given_up_ = false;  // until resume()
  std::atomic<bool> cancelled_{false};
  std::string rest_;  // of the line that is being written, with its newline
};

}  // namespace camd::app
