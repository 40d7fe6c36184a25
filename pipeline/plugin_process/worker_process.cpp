#include "pipeline/plugin_process/worker_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/error.hpp"
#include "base/secrets.hpp"
#include "pipeline/plugin_process/protocol.hpp"

extern char** environ;

namespace camd::pipeline {
namespace {

using base::Error;
using base::ErrorKind;

[[noreturn]] void fail(const std::string& what, int number) {
  throw Error(ErrorKind::kPlugin, fmt::format("{}: {}", what, std::strerror(number)));
}

// camd's environment without what is none of a plug-in's business.
std::vector<std::string> environment() {
  constexpr std::array<std::string_view, 4> kOurs = {"NOTIFY_SOCKET=", "WATCHDOG_",
                                                     "CREDENTIALS_DIRECTORY=", "LISTEN_"};
  std::vector<std::string> kept;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const bool ours =
        std::any_of(kOurs.begin(), kOurs.end(), [&text](std::string_view name) { return text.starts_with(name); });
    if (!ours && base::without_secrets(text) == text) kept.push_back(text);
  }
  return kept;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

class SpawnSettings {
 public:
  explicit SpawnSettings(int control) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, STDERR_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, control, wire::kControlFd);
    posix_spawn_file_actions_addclosefrom_np(&actions_, wire::kControlFd + 1);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  [[nodiscard]] const posix_spawn_file_actions_t* actions() const noexcept { return &actions_; }
  [[nodiscard]] const posix_spawnattr_t* attributes() const noexcept { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

}  // namespace

std::string ProcessEnd::text() const {
  if (signal == 0) return fmt::format("exited with code {}", exit_code);
  return fmt::format("was killed by signal {} ({})", signal, strsignal(signal));
}

WorkerProcess::WorkerProcess(const std::string& program, const std::vector<std::string>& arguments, int control) {
  // dup2() onto itself would keep the mark that closes it.
  Descriptor other(fcntl(control, F_DUPFD_CLOEXEC, wire::kControlFd + 1));
  if (!other) fail("descriptors for worker processes", errno);
  const SpawnSettings settings(other.get());
  std::vector<std::string> texts = {program};
  texts.insert(texts.end(), arguments.begin(), arguments.end());
  std::vector<std::string> kept = environment();
  const int error = posix_spawn(&pid_, program.c_str(), settings.actions(), settings.attributes(),
                                pointers(texts).data(), pointers(kept).data());
  if (error != 0) {
    pid_ = -1;
    fail(fmt::format("{} cannot be started (it is installed beside camd)", program), error);
  }
  pidfd_.reset(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  if (!pidfd_) {
    const int number = errno;
    (void)::kill(pid_, SIGKILL);
    (void)waitpid(pid_, nullptr, 0);
    fail("pidfd_open", number);
  }
  stat_.reset(open(fmt::format("/proc/{}/stat", pid_).c_str(), O_RDONLY | O_CLOEXEC));
  statm_.reset(open(fmt::format("/proc/{}/statm", pid_).c_str(), O_RDONLY | O_CLOEXEC));
}

WorkerProcess::~WorkerProcess() {
  if (end()) return;
  kill();
  (void)wait(base::Duration::max());
}

void WorkerProcess::kill() const noexcept { (void)syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0); }

bool WorkerProcess::ended() const noexcept {
  pollfd one{pidfd_.get(), POLLIN, 0};
  return poll(&one, 1, 0) > 0;
}

std::optional<ProcessEnd> WorkerProcess::end() noexcept {
  const base::MutexLock lock(end_mutex_);
  if (end_ || !ended()) return end_;
  siginfo_t info{};
  int waited = 0;
  do {
    waited = waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED);
  } while (waited < 0 && errno == EINTR);
  if (waited != 0) {
    end_ = {SIGKILL, 0};  // somebody else has waited for it: only kill() is known
  } else {
    end_ = info.si_code == CLD_EXITED ? ProcessEnd{0, info.si_status} : ProcessEnd{info.si_status, 0};
  }
  return end_;
}

std::optional<ProcessEnd> WorkerProcess::wait(base::Duration patience) noexcept {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(patience).count();
  const int timeout = left > INT_MAX ? -1 : static_cast<int>(left);
  pollfd one{pidfd_.get(), POLLIN, 0};
  int got = 0;
  do {
    got = poll(&one, 1, timeout);
  } while (got < 0 && errno == EINTR);
  return end();
}

std::optional<ProcessUse> WorkerProcess::use() const {
  const auto read = [](const Descriptor& file, std::array<char, 1024>& text) {
    const ssize_t got = pread(file.get(), text.data(), text.size() - 1, 0);
    return got > 0;
  };
  std::array<char, 1024> stat{}, statm{};
  if (!read(stat_, stat) || !read(statm_, statm)) return std::nullopt;
  // The name, in brackets, may hold anything; what follows the last bracket are numbers.
  const char* rest = std::strrchr(stat.data(), ')');
  long long threads = 0, resident = 0, shared = 0;
  if (rest == nullptr ||
      std::sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %lld", &threads) !=
          1 ||
      std::sscanf(statm.data(), "%*d %lld %lld", &resident, &shared) != 2) {
    return std::nullopt;
  }
  const auto pages = static_cast<std::uint64_t>(std::max(resident - shared, 0LL));
  return ProcessUse{pages * static_cast<std::uint64_t>(getpagesize()), threads};
}

std::string program_folder() {
  std::array<char, PATH_MAX> path{};
  const ssize_t got = readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (got <= 0) fail("/proc/self/exe", errno);
  const std::string_view whole(path.data(), static_cast<std::size_t>(got));
  return std::string(whole.substr(0, whole.rfind('/')));
}

}  // namespace camd::pipeline
