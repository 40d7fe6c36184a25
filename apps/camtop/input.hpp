// camtop's input: lines of a pipe, or of a file that may still grow, be truncated, or be replaced.
//
// Threads: one thread.
// Invariants: a line is handed out without its newline and is at most kMaxLine bytes; a longer one comes
// out as kTooLong, so that it is counted and memory stays bounded.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace camd::camtop {

class Input {
 public:
  static constexpr std::size_t kMaxLine = std::size_t{4} << 20U;
  static constexpr std::string_view kTooLong = "(a line that is too long)";

  // Standard input.
  Input() = default;
  // A file. Throws base::Error(kIo) when it cannot be read.
  explicit Input(const std::string& path);
  ~Input();
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  [[nodiscard]] int fd() const noexcept { return fd_; }
  // A plain file: it can be followed, and polling it says nothing.
  [[nodiscard]] bool is_file() const noexcept { return is_file_; }

  // The next whole line of what was read.
  [[nodiscard]] std::optional<std::string> next_line();
  // [blocks] on a pipe. Reads some more; false at the end. Throws base::Error(kIo).
  bool read_more();
  // At the end: what follows the last newline, if anything.
  [[nodiscard]] std::optional<std::string> last_line();
  // True when the file shrank or another one took its name (log rotation): reading goes on at its beginning.
  bool reopen_if_replaced();

 private:
  void open_file();

  std::string path_;
  int fd_ = 0;
  bool is_file_ = false;
  bool skipping_ = false;  // inside a line that is too long
  std::string buffer_;
  std::size_t begin_ = 0;  // of the first line not handed out
};

}  // namespace camd::camtop
