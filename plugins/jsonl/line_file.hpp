// A file of lines: each line is one write(2), so that it is there whole or not at all, also on a full disk.
//
// Threads: constructor, close(), destructor [setup]; append() [post].
// Invariants: a failed append() leaves the file as it was before (regular files); append() does not allocate unless it
//   fails. Regular files are locked (flock), so two writers cannot mix their lines. The instances of two starts of a
//   configuration, the one that runs and the one that is to take its place, share one open file and its end: nothing is
//   emptied between them, and no line is lost or broken.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace camd::plugins {

class LineFile {
 public:
  // Opens or creates `path` with its folders. At the first start (`reloads` is 0) and without `append`, what the file
  // held is kept until the first append() and then dropped; otherwise it is kept for good. `reloads` is
  // camd_host.reloads. Throws std::invalid_argument: folders, rights, pipes, stdout, a second writer.
  LineFile(const std::string& path, bool append, std::uint32_t reloads);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // `line` ends with '\n'. Throws std::runtime_error naming path and cause.
  void append(std::string_view line);
  // Closes, unless the instance of another start has the file too. A file that was created here and never written is
  // removed, so that a start that fails leaves no trace. Throws std::runtime_error when the file system reports a late
  // error.
  void close();

 private:
  struct Open;  // the file, by whoever has it

  std::shared_ptr<Open> open_;  // null after close()
  std::uint32_t reloads_;
};

}  // namespace camd::plugins
