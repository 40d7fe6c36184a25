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
  if (closed_ || given_up_ || !write_rest()) return;
  rest_.assign(line);
  rest_.push_back('\n');
  if (!write_rest() && given_up_ && rest_.size() == line.size() + 1) rest_.clear();  // nothing of it was written
}

void StdoutLines::resume() noexcept {
  cancelled_ = false;
  given_up_ = false;
}

bool StdoutLines::write_rest() {
  int polls_after_cancel = 0;
  std::size_t done = 0;
  while (done < rest_.size()) {
    // poll() says writable only when PIPE_BUF bytes fit, so that writing no more than that never blocks (pipe(7)); the
    // descriptor itself stays blocking, because it may be shared with the shell.
    pollfd ready{fd_, POLLOUT, 0};
    const int polled = poll(&ready, 1, kPollMs);
    if (polled == 0 || (polled < 0 && errno == EINTR)) {
      if (!cancelled_ || ++polls_after_cancel < kPollsAfterCancel) continue;
      base::log().warn("stdout: nobody reads the metrics; their last lines are lost");
      given_up_ = true;
      break;
    }
    const ssize_t written = ::write(fd_, rest_.data() + done, std::min<std::size_t>(rest_.size() - done, PIPE_BUF));
    if (written < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (written <= 0) {
      base::log().warn("stdout: {}: metrics stop here, the cameras go on", std::strerror(errno));
      closed_ = true;
      break;
    }
    done += static_cast<std::size_t>(written);
  }
  rest_.erase(0, done);
  return rest_.empty();
}

}  // namespace camd::app
