#include "plugins/jsonl/line_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <utility>

#include "plugins/paths.hpp"

namespace camd::plugins {
namespace {

bool is_stdout(const struct stat& opened) {
  struct stat out {};
  return ::fstat(STDOUT_FILENO, &out) == 0 && out.st_dev == opened.st_dev && out.st_ino == opened.st_ino &&
         !(S_ISCHR(opened.st_mode) && ::isatty(STDOUT_FILENO) == 0);  // `camd run > /dev/null` does not take /dev/null
}

}  // namespace

LineFile::LineFile(std::string path, bool append) : path_(std::move(path)), started_(append) {
  if (path_ == "-") {
    throw std::invalid_argument("config.path: '-' is stdout, which carries the metrics: name a file");
  }
  create_parents(path_);
  // O_NONBLOCK: opening a pipe that nobody reads would block the start for ever.
  constexpr int kFlags = O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  file_ = ::open(path_.c_str(), kFlags | O_CREAT | O_EXCL, 0644);
  created_ = file_ >= 0;
  if (!created_ && errno == EEXIST) file_ = ::open(path_.c_str(), kFlags | O_CREAT, 0644);
  if (file_ < 0) throw std::invalid_argument("cannot write " + io_message(path_, errno));
  struct stat opened {};
  std::string problem;
  if (::fstat(file_, &opened) != 0) {
    problem = "cannot write " + io_message(path_, errno);
  } else if (is_stdout(opened)) {
    problem = path_ + ": is stdout, which carries the metrics: name a file";
  } else if (!S_ISREG(opened.st_mode) && !S_ISCHR(opened.st_mode)) {
    problem = path_ + ": is no file that can be written line by line (a pipe or socket can stall the cameras)";
  }
  regular_ = S_ISREG(opened.st_mode);
  if (problem.empty() && regular_ && ::flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    problem = path_ + ": is being written by another postprocessor or another camd";
  }
  if (!problem.empty()) {
    ::close(file_);
    throw std::invalid_argument(problem);
  }
  if (regular_) end_ = opened.st_size;
}

LineFile::~LineFile() {
  try {
    close();
  } catch (const std::exception&) {
    file_ = -1;  // finish() has had its chance to report it
  }
}

void LineFile::append(std::string_view line) {
  if (regular_ && !started_) {
    if (::ftruncate(file_, 0) != 0) throw std::runtime_error("cannot write " + io_message(path_, errno));
    end_ = 0;
    started_ = true;
  }
  std::size_t done = 0;
  int problem = 0;
  while (done < line.size() && problem == 0) {
    const char* rest = line.data() + done;
    const std::size_t left = line.size() - done;
    const ssize_t written =
        regular_ ? ::pwrite(file_, rest, left, end_ + static_cast<off_t>(done)) : ::write(file_, rest, left);
    if (written > 0) {
      done += static_cast<std::size_t>(written);
    } else if (written == 0) {
      problem = ENOSPC;
    } else if (errno != EINTR) {
      problem = errno;
    }
  }
  if (problem != 0) {
    // A part of a line would be taken for a line by whoever reads on.
    if (regular_ && done > 0) static_cast<void>(::ftruncate(file_, end_) == 0);
    throw std::runtime_error("cannot write " + io_message(path_, problem));
  }
  end_ += static_cast<off_t>(done);
  wrote_ = true;
}

void LineFile::close() {
  if (file_ < 0) return;
  const int file = std::exchange(file_, -1);
  if (created_ && !wrote_) static_cast<void>(::unlink(path_.c_str()));
  if (::close(file) != 0) throw std::runtime_error("cannot write " + io_message(path_, errno));
}

}  // namespace camd::plugins
