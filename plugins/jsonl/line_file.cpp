#include "plugins/jsonl/line_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "plugins/paths.hpp"

namespace camd::plugins {
namespace {

constexpr std::int64_t kLookEveryNs = 1'000'000'000;

bool is_stdout(const struct stat& opened) {
  struct stat out {};
  return ::fstat(STDOUT_FILENO, &out) == 0 && out.st_dev == opened.st_dev && out.st_ino == opened.st_ino &&
         !(S_ISCHR(opened.st_mode) && ::isatty(STDOUT_FILENO) == 0);  // `camd run > /dev/null` does not take /dev/null
}

// What is wrong with a file of this kind; empty: lines can be written into it.
std::string kind_problem(const std::string& path, const struct stat& found) {
  if (is_stdout(found)) return path + ": is stdout, which carries the metrics: name a file";
  if (S_ISREG(found.st_mode) || S_ISCHR(found.st_mode)) return {};
  return path + ": is no file that can be written line by line (a pipe or socket can stall the cameras)";
}

// The regular files that this process has open, for the instance that a reload makes beside the one that writes.
struct OpenFiles {
  std::mutex mutex;  // before an Open's
  std::vector<std::weak_ptr<void>> files;
};
OpenFiles& open_files() {
  static OpenFiles all;
  return all;
}

// Whether the file's last line was never finished: whoever wrote it was killed.
bool ends_within_a_line(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (file < 0) return false;
  char last = '\n';
  const off_t size = ::lseek(file, 0, SEEK_END);
  if (size > 0 && ::pread(file, &last, 1, size - 1) != 1) last = '\n';
  ::close(file);
  return last != '\n';
}

// Writes all of `text`, or nothing. Returns what went wrong (errno), 0 when nothing did.
int write_all(int file, bool regular, std::string_view text) {
  std::size_t done = 0;
  int problem = 0;
  while (done < text.size() && problem == 0) {
    const ssize_t written = ::write(file, text.data() + done, text.size() - done);
    if (written > 0) {
      done += static_cast<std::size_t>(written);
    } else if (written == 0) {
      problem = ENOSPC;
    } else if (errno != EINTR) {
      problem = errno;
    }
  }
  if (problem == 0 || !regular || done == 0) return problem;
  // A part of a line would be taken for a line by whoever reads on.
  struct stat now {};
  const auto part = static_cast<off_t>(done);
  if (::fstat(file, &now) == 0 && now.st_size >= part) static_cast<void>(::ftruncate(file, now.st_size - part) == 0);
  return problem;
}

}  // namespace

struct LineFile::Opened {
  std::string path;
  int file = -1;
  FileId id;
  bool regular = false;
  bool created = false;

  // What is configured as `path`, now. Throws std::invalid_argument.
  explicit Opened(const std::string& configured) : path(at_time(configured, std::time(nullptr))) {
    create_parents(path);
    // O_NONBLOCK: opening a pipe that nobody reads would block the start for ever.
    constexpr int kFlags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    file = ::open(path.c_str(), kFlags | O_CREAT | O_EXCL, 0644);
    created = file >= 0;
    if (!created && errno == EEXIST) file = ::open(path.c_str(), kFlags | O_CREAT, 0644);
    if (file < 0) throw std::invalid_argument("cannot write " + io_message(path, errno));
    struct stat opened {};
    std::string problem;
    if (::fstat(file, &opened) != 0) {
      problem = "cannot write " + io_message(path, errno);
    } else {
      problem = kind_problem(path, opened);
    }
    regular = S_ISREG(opened.st_mode);
    id = {opened.st_dev, opened.st_ino};
    if (problem.empty()) return;
    ::close(file);
    throw std::invalid_argument(problem);
  }
  // Takes the file for this process alone. Throws std::invalid_argument; the file is closed then.
  void lock() const {
    if (!regular || ::flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
    ::close(file);
    throw std::invalid_argument(path + ": is being written by another postprocessor or another camd");
  }
};

struct LineFile::Open {
  Open(Opened opened, std::uint32_t reloads, bool keep_it) : now(std::move(opened)), starts{reloads}, keep(keep_it) {}

  Opened now;                         // changed under both mutexes
  std::vector<std::uint32_t> starts;  // whose instances have it, by their number of reloads

  std::mutex mutex;  // append() of one instance at a time
  bool keep;         // what the file held when it was opened
  bool started = false;
  bool wrote = false;

  // Before the first line. Throws std::runtime_error.
  void start() {
    int problem = 0;
    if (!keep) {
      if (::ftruncate(now.file, 0) != 0) problem = errno;
    } else if (!now.created && ends_within_a_line(now.path)) {
      problem = write_all(now.file, true, "\n");
    }
    if (problem != 0) throw std::runtime_error("cannot write " + io_message(now.path, problem));
    started = true;
  }
  // Removes the file if nothing was written into it. Returns what could not be finished.
  [[nodiscard]] std::string finish() const {
    if (now.created && !wrote && file_at(now.path) == now.id) static_cast<void>(::unlink(now.path.c_str()));
    return ::close(now.file) == 0 ? std::string() : "cannot write " + io_message(now.path, errno);
  }
};

LineFile::Finding LineFile::look_at(const std::string& path) {
  Finding finding{at_time(path, std::time(nullptr)), {}, true};
  struct stat found {};
  if (::stat(finding.path.c_str(), &found) != 0) {
    finding.problem = folder_problem(std::filesystem::path(finding.path).parent_path().string());
    return finding;
  }
  finding.regular = S_ISREG(found.st_mode);
  finding.problem =
      S_ISDIR(found.st_mode) ? "cannot write " + io_message(finding.path, EISDIR) : kind_problem(finding.path, found);
  if (finding.problem.empty() && ::access(finding.path.c_str(), W_OK) != 0) {
    finding.problem = "cannot write " + io_message(finding.path, errno);
  }
  return finding;
}

LineFile::LineFile(std::string path, bool append, std::uint32_t reloads) : path_(std::move(path)), reloads_(reloads) {
  const Opened opened(path_);
  regular_ = opened.regular;
  const std::lock_guard lock(open_files().mutex);
  auto& files = open_files().files;
  files.erase(std::remove_if(files.begin(), files.end(), [](const auto& one) { return one.expired(); }), files.end());
  for (const std::weak_ptr<void>& one : files) {
    const auto other = std::static_pointer_cast<Open>(one.lock());
    if (!opened.regular || other == nullptr || !(other->now.id == opened.id)) continue;
    // Two of one start are two writers. The one of another start stops before this one begins.
    if (std::find(other->starts.begin(), other->starts.end(), reloads) != other->starts.end()) break;
    ::close(opened.file);
    other->starts.push_back(reloads);
    open_ = other;
    return;
  }
  opened.lock();
  open_ = std::make_shared<Open>(opened, reloads, append || reloads > 0);
  if (opened.regular) files.emplace_back(open_);
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
  if (open.now.regular && !open.started) open.start();
  const int problem = write_all(open.now.file, open.now.regular, line);
  if (problem != 0) throw std::runtime_error("cannot write " + io_message(open.now.path, problem));
  open.wrote = true;
}

void LineFile::reopen() {
  if (!regular_) return;
  Open& open = *open_;
  const Opened opened(path_);
  const std::lock_guard lock(open_files().mutex);
  if (opened.id == open.now.id) {
    ::close(opened.file);
    return;
  }
  if (!opened.regular) {
    ::close(opened.file);
    throw std::invalid_argument(opened.path + ": is no regular file any more");
  }
  opened.lock();
  const std::lock_guard writing(open.mutex);
  const std::string problem = open.finish();
  open.now = opened;
  open.keep = true;
  open.started = false;
  open.wrote = false;
  if (!problem.empty()) throw std::runtime_error(problem);
}

std::string LineFile::look(std::int64_t now_ns) {
  next_look_ns_ = now_ns + kLookEveryNs;
  if (!regular_) return {};
  Open& open = *open_;
  std::string before;
  {
    const std::lock_guard lock(open.mutex);
    if (file_at(open.now.path) == open.now.id) {
      told_ = false;
      return {};
    }
    before = open.now.path;
  }
  try {
    reopen();
  } catch (const std::exception& problem) {
    return std::exchange(told_, true) ? std::string()
                                      : before + " was renamed or removed, and lines go on into it: " + problem.what();
  }
  told_ = false;
  const std::lock_guard lock(open.mutex);
  return before + " was renamed or removed: lines go on in " + open.now.path;
}

void LineFile::close() {
  const std::shared_ptr<Open> open = std::exchange(open_, nullptr);
  if (open == nullptr) return;
  const std::lock_guard lock(open_files().mutex);
  open->starts.erase(std::remove(open->starts.begin(), open->starts.end(), reloads_), open->starts.end());
  if (!open->starts.empty()) return;
  const std::string problem = open->finish();
  if (!problem.empty()) throw std::runtime_error(problem);
}

}  // namespace camd::plugins
