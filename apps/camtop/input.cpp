#include "apps/camtop/input.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"

namespace camd::camtop {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 16U;

[[noreturn]] void fail(const std::string& path, int error) {
  throw base::Error(base::ErrorKind::kIo,
                    fmt::format("cannot read {}: {}", path.empty() ? "standard input" : path, std::strerror(error)));
}

}  // namespace

Input::Input(const std::string& path) : path_(path), fd_(-1) { open_file(); }

Input::~Input() {
  if (!path_.empty() && fd_ >= 0) ::close(fd_);
}

void Input::open_file() {
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) fail(path_, errno);
  struct stat st {};
  const int error = ::fstat(fd_, &st) != 0 ? errno : S_ISDIR(st.st_mode) ? EISDIR : 0;
  if (error != 0) {
    ::close(fd_);
    fd_ = -1;
    fail(path_, error);
  }
  is_file_ = S_ISREG(st.st_mode);
}

std::optional<std::string> Input::next_line() {
  for (;;) {
    const std::size_t end = buffer_.find('\n', begin_);
    if (end == std::string::npos) {
      buffer_.erase(0, begin_);
      begin_ = 0;
      if (buffer_.size() > kMaxLine) {
        buffer_.clear();
        if (!skipping_) {
          skipping_ = true;
          return std::string(kTooLong);
        }
      }
      return std::nullopt;
    }
    std::string line = buffer_.substr(begin_, end - begin_);
    begin_ = end + 1;
    if (!skipping_) return line;
    skipping_ = false;  // the rest of the long line
  }
}

bool Input::read_more() {
  const std::size_t before = buffer_.size();
  buffer_.resize(before + kChunk);
  ssize_t n = 0;
  do {
    n = ::read(fd_, buffer_.data() + before, kChunk);
  } while (n < 0 && errno == EINTR);
  const int error = errno;
  buffer_.resize(before + static_cast<std::size_t>(n > 0 ? n : 0));
  if (n < 0) fail(path_, error);
  return n > 0;
}

std::optional<std::string> Input::last_line() {
  std::string rest = buffer_.substr(begin_);
  buffer_.clear();
  begin_ = 0;
  if (rest.empty() || skipping_) return std::nullopt;
  return rest;
}

bool Input::reopen_if_replaced() {
  struct stat open_now {};
  struct stat named {};
  if (::fstat(fd_, &open_now) != 0 || ::stat(path_.c_str(), &named) != 0) return false;
  const bool replaced = named.st_ino != open_now.st_ino || named.st_dev != open_now.st_dev;
  if (!replaced && named.st_size >= ::lseek(fd_, 0, SEEK_CUR)) return false;
  ::close(fd_);
  fd_ = -1;
  open_file();
  buffer_.clear();
  begin_ = 0;
  skipping_ = false;
  return true;
}

}  // namespace camd::camtop
