// A file of lines: each line is one write(2), so that it is there whole or not at all, also on a full disk.
//
// Threads: constructor and close() [setup], append() [post].
// Invariants: a failed append() leaves the file as it was before (regular files); append() does not allocate unless it
//   fails. Regular files are locked (flock), so two writers cannot mix their lines.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

namespace camd::plugins {

class LineFile {
 public:
  // Opens or creates `path` with its folders; what it held is kept until the first append() (or for good, if `append`).
  // Throws std::invalid_argument: folders, rights, pipes, stdout, a second writer.
  LineFile(std::string path, bool append);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // `line` ends with '\n'. Throws std::runtime_error naming path and cause.
  void append(std::string_view line);
  // Closes; a file that was created here and never written is removed, so that a start that fails leaves no trace.
  // Throws std::runtime_error when the file system reports a late error.
  void close();

 private:
  std::string path_;
  int file_ = -1;
  bool regular_ = false;
  bool created_ = false;
  bool started_ = false;  // the first append() has emptied the file, or it is to be kept
  bool wrote_ = false;
  off_t end_ = 0;
};

}  // namespace camd::plugins
