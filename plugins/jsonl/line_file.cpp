#include "plugins/jsonl/line_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "plugins/paths.hpp"

namespace camd::plugins {

struct LineFile::Open {
  std::string path;
  int file = -1;
  dev_t device = 0;
  ino_t inode = 0;
  bool regular = false;
  bool created = false;
  std::vector<std::uint32_t> starts;  // whose instances have it, by their number of reloads

  std::mutex mutex;      // append() of one instance at a time
  bool started = false;  // the first append() has emptied the file, or it is to be kept
  bool wrote = false;
  off_t end = 0;
};

namespace {

bool is_stdout(const struct stat& opened) {
  struct stat out {};
  return ::fstat(STDOUT_FILENO, &out) == 0 && out.st_dev == opened.st_dev && out.st_ino == opened.st_ino &&
         !(S_ISCHR(opened.st_mode) && ::isatty(STDOUT_FILENO) == 0);  // `camd run > /dev/null` does not take /dev/null
}

// The regular files that this process has open, for the instance that a reload makes beside the one that writes.
struct OpenFiles {
  std::mutex mutex;
  std::vector<std::weak_ptr<void>> files;
};
OpenFiles& open_files() {
  static OpenFiles all;
  return all;
}

}  // namespace

LineFile::LineFile(const std::string& path, bool append, std::uint32_t reloads) : reloads_(reloads) {
  if (path == "-") {
    throw std::invalid_argument("config.path: '-' is stdout, which carries the metrics: name a file");
  }
  create_parents(path);
  auto made = std::make_shared<Open>();
  made->path = path;
  made->started = append || reloads > 0;
  made->starts = {reloads};
  // O_NONBLOCK: opening a pipe that nobody reads would block the start for ever.
  constexpr int kFlags = O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  int file = ::open(path.c_str(), kFlags | O_CREAT | O_EXCL, 0644);
  made->created = file >= 0;
  if (!made->created && errno == EEXIST) file = ::open(path.c_str(), kFlags | O_CREAT, 0644);
  if (file < 0) throw std::invalid_argument("cannot write " + io_message(path, errno));
  struct stat opened {};
  std::string problem;
  if (::fstat(file, &opened) != 0) {
    problem = "cannot write " + io_message(path, errno);
  } else if (is_stdout(opened)) {
    problem = path + ": is stdout, which carries the metrics: name a file";
  } else if (!S_ISREG(opened.st_mode) && !S_ISCHR(opened.st_mode)) {
    problem = path + ": is no file that can be written line by line (a pipe or socket can stall the cameras)";
  }
  made->regular = S_ISREG(opened.st_mode);
  made->device = opened.st_dev;
  made->inode = opened.st_ino;
  if (made->regular) made->end = opened.st_size;
  const std::lock_guard lock(open_files().mutex);
  auto& files = open_files().files;
  files.erase(std::remove_if(files.begin(), files.end(), [](const auto& one) { return one.expired(); }), files.end());
  if (problem.empty() && made->regular) {
    for (const std::weak_ptr<void>& one : files) {
      const auto other = std::static_pointer_cast<Open>(one.lock());
      if (other == nullptr || other->device != made->device || other->inode != made->inode) continue;
      // Two of one start are two writers. The one of another start stops before this one begins.
      if (std::find(other->starts.begin(), other->starts.end(), reloads) != other->starts.end()) break;
      ::close(file);
      other->starts.push_back(reloads);
      open_ = other;
      return;
    }
    if (::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      problem = path + ": is being written by another postprocessor or another camd";
    }
  }
  if (!problem.empty()) {
    ::close(file);
    throw std::invalid_argument(problem);
  }
  made->file = file;
  if (made->regular) files.emplace_back(made);
  open_ = std::move(made);
}

LineFile::~LineFile() {
  try {
    close();
  } catch (const std::exception&) {
    open_ = nullptr;  // finish() has had its chance to report it
  }
}

void LineFile::append(std::string_view line) {
  Open& open = *open_;
  const std::lock_guard lock(open.mutex);
  if (open.regular && !open.started) {
    if (::ftruncate(open.file, 0) != 0) throw std::runtime_error("cannot write " + io_message(open.path, errno));
    open.end = 0;
    open.started = true;
  }
  std::size_t done = 0;
  int problem = 0;
  while (done < line.size() && problem == 0) {
    const char* rest = line.data() + done;
    const std::size_t left = line.size() - done;
    const ssize_t written = open.regular ? ::pwrite(open.file, rest, left, open.end + static_cast<off_t>(done))
                                         : ::write(open.file, rest, left);
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
    if (open.regular && done > 0) static_cast<void>(::ftruncate(open.file, open.end) == 0);
    throw std::runtime_error("cannot write " + io_message(open.path, problem));
  }
  open.end += static_cast<off_t>(done);
  open.wrote = true;
}

void LineFile::close() {
  const std::shared_ptr<Open> open = std::exchange(open_, nullptr);
  if (open == nullptr) return;
  const std::lock_guard lock(open_files().mutex);
  open->starts.erase(std::remove(open->starts.begin(), open->starts.end(), reloads_), open->starts.end());
  if (!open->starts.empty()) return;
  if (open->created && !open->wrote) static_cast<void>(::unlink(open->path.c_str()));
  if (::close(open->file) != 0) throw std::runtime_error("cannot write " + io_message(open->path, errno));
}

}  // namespace camd::plugins
