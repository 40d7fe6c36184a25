// Runs the built `camd` as its users do and tells what it printed and how it ended.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>
#include "tests/support/paths.hpp"

namespace camd::test {

inline std::string camd_path() { return test::binary_dir() + "/bin/camd"; }
inline std::string source_path(const std::string& relative) { return test::source_dir() + "/" + relative; }

// A folder of this test's own, gone afterwards.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "camd-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream file(path_ / name, std::ios::binary);
    file << content;
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A pipe that nobody reads, full to the last byte: whoever writes into it waits for ever.
class FullPipe {
 public:
  FullPipe() {
    if (pipe2(fds_, O_CLOEXEC | O_NONBLOCK) != 0) throw std::runtime_error("pipe failed");
    const std::string page(4096, '.');
    while (::write(fds_[1], page.data(), page.size()) > 0) {
    }
    if (fcntl(fds_[1], F_SETFL, fcntl(fds_[1], F_GETFL) & ~O_NONBLOCK) != 0) throw std::runtime_error("fcntl failed");
  }
  ~FullPipe() {
    close(fds_[0]);
    close(fds_[1]);
  }
  FullPipe(const FullPipe&) = delete;
  FullPipe& operator=(const FullPipe&) = delete;
  [[nodiscard]] int fd() const noexcept { return fds_[1]; }

 private:
  int fds_[2] = {-1, -1};
};

// A child process whose stdout and stderr are pipes into this test.
class CamdProcess {
 public:
  // `stdout_fd`, `stderr_fd` >= 0: goes there instead of the pipe.
  explicit CamdProcess(const std::vector<std::string>& arguments, const std::string& folder = "/tmp",
                       int stdout_fd = -1, int stderr_fd = -1) {
    int out[2];
    int err[2];
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) throw std::runtime_error("pipe failed");
    pid_ = fork();
    if (pid_ == 0) {
      dup2(stdout_fd >= 0 ? stdout_fd : out[1], STDOUT_FILENO);
      dup2(stderr_fd >= 0 ? stderr_fd : err[1], STDERR_FILENO);
      if (chdir(folder.c_str()) != 0) _exit(126);
      std::vector<char*> argv;
      std::string program = camd_path();
      argv.push_back(program.data());
      // execv() changes nothing.
      // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
      for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
      argv.push_back(nullptr);
      execv(program.c_str(), argv.data());
      _exit(127);
    }
    close(out[1]);
    close(err[1]);
    out_fd_ = out[0];
    err_fd_ = err[0];
  }
  ~CamdProcess() {
    if (pid_ > 0 && !ended_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close_stdout();
    if (err_fd_ >= 0) close(err_fd_);
  }
  CamdProcess(const CamdProcess&) = delete;
  CamdProcess& operator=(const CamdProcess&) = delete;

  void signal(int number) const { kill(pid_, number); }
  // [blocks] until a thread of the process has taken the signal (proc(5), ShdPnd).
  void signal_and_see_it_taken(int number) const {
    signal(number);
    for (unsigned long pending = ~0UL; ((pending >> (number - 1)) & 1U) != 0;) {
      const std::string status = read_file("/proc/" + std::to_string(pid_) + "/status");
      pending = std::strtoul(status.c_str() + status.find("ShdPnd:") + 7, nullptr, 16);
    }
  }
  // Its threads of this name that sleep now (proc(5), task/TID/stat).
  [[nodiscard]] int sleeping_threads(const std::string& name) const {
    int count = 0;
    std::error_code gone;
    for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid_) + "/task", gone)) {
      if (read_file(task.path() / "stat").find(" (" + name + ") S ") != std::string::npos) ++count;
    }
    return count;
  }
  void close_stdout() {
    if (out_fd_ >= 0) close(out_fd_);
    out_fd_ = -1;
  }

  // Reads until `seen` says so (true), or until the process has closed both pipes or `limit` has passed (false).
  bool read_until(const std::function<bool(const CamdProcess&)>& seen,
                  std::chrono::seconds limit = std::chrono::seconds(60)) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (!seen(*this)) {
      pollfd fds[2] = {{out_fd_, POLLIN, 0}, {err_fd_, POLLIN, 0}};
      if (out_fd_ < 0 && err_fd_ < 0) return false;
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0 || poll(fds, 2, static_cast<int>(left.count())) <= 0) return false;
      if (fds[0].revents != 0) take(out_fd_, out_);
      if (fds[1].revents != 0) take(err_fd_, err_);
    }
    return true;
  }
  // [blocks] until the process has ended; its exit code, 128 + signal when it was killed, -1 when it did not end.
  int wait(std::chrono::seconds limit = std::chrono::seconds(60)) {
    (void)read_until([](const CamdProcess&) { return false; }, limit);
    int status = 0;
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (waitpid(pid_, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > deadline) return -1;
      pollfd none{-1, 0, 0};
      (void)poll(&none, 1, 5);
    }
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] const std::string& out() const noexcept { return out_; }
  [[nodiscard]] const std::string& err() const noexcept { return err_; }

 private:
  static void take(int& fd, std::string& text) {
    char buffer[4096];
    const ssize_t got = read(fd, buffer, sizeof(buffer));
    if (got > 0) {
      text.append(buffer, static_cast<std::size_t>(got));
      return;
    }
    close(fd);
    fd = -1;
  }
  pid_t pid_ = -1;
  bool ended_ = false;
  int out_fd_ = -1;
  int err_fd_ = -1;
  std::string out_;
  std::string err_;
};

struct Finished {
  int code = -1;
  std::string out;
  std::string err;
};

inline Finished run_camd(const std::vector<std::string>& arguments, const std::string& folder = "/tmp") {
  CamdProcess process(arguments, folder);
  const int code = process.wait();
  return {code, process.out(), process.err()};
}

}  // namespace camd::test
