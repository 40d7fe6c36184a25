#include "apps/camd/stdout_lines.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/log.hpp"

namespace camd::app {
namespace {

constexpr int kPollMs = 100;
constexpr int kPollsAfterCancel = 10;

}  // namespace

void StdoutLines::write(std::string_view line) {
  if (closed_) return;
  buffer_.assign(line);
  buffer_.push_back('\n');
  const char* next = buffer_.data();
  std::size_t left = buffer_.size();
  int polls_after_cancel = 0;
  while (left > 0) {
    // poll() says writable only when PIPE_BUF bytes fit, so that writing no more than that never blocks (pipe(7)); the
    // descriptor itself stays blocking, because it may be shared with the shell.
    pollfd ready{fd_, POLLOUT, 0};
    const int polled = poll(&ready, 1, kPollMs);
    if (polled == 0 || (polled < 0 && errno == EINTR)) {
      if (!cancelled_ || ++polls_after_cancel < kPollsAfterCancel) continue;
      base::log().warn("stdout: nobody reads the metrics; their last lines are lost");
      closed_ = true;
      return;
    }
    const ssize_t written = ::write(fd_, next, std::min<std::size_t>(left, PIPE_BUF));
    if (written < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (written <= 0) {
      base::log().warn("stdout: {}: metrics stop here, the cameras go on", std::strerror(errno));
      closed_ = true;
      return;
    }
    next += written;
    left -= static_cast<std::size_t>(written);
  }
}

}  // namespace camd::app
