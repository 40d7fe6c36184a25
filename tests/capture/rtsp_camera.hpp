// The tests' RTSP camera (tests/support/rtsp_server.cpp) as a child process that obeys. Needs CAMD_RTSP_SERVER.
//
// Threads: [test].
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "base/clock.hpp"

namespace camd::capture::testing {

class RtspCamera {
 public:
  RtspCamera() = default;
  RtspCamera(const RtspCamera&) = delete;
  RtspCamera& operator=(const RtspCamera&) = delete;
  ~RtspCamera() {
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      (void)::waitpid(child_, nullptr, 0);
    }
    if (in_ != nullptr) std::fclose(in_);
    if (out_ != nullptr) std::fclose(out_);
  }
  // False when it does not come up.
  [[nodiscard]] bool start(const std::vector<std::string>& options = {}) {
    int to_child[2];
    int from_child[2];
    if (::pipe2(to_child, O_CLOEXEC) != 0 || ::pipe2(from_child, O_CLOEXEC) != 0) return false;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to_child[0], 0);
    posix_spawn_file_actions_adddup2(&actions, from_child[1], 1);
    std::vector<std::string> words = {CAMD_RTSP_SERVER, "0"};
    words.insert(words.end(), options.begin(), options.end());
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const int failed = ::posix_spawn(&child_, CAMD_RTSP_SERVER, &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(to_child[0]);
    ::close(from_child[1]);
    in_ = ::fdopen(to_child[1], "w");
    out_ = ::fdopen(from_child[0], "r");
    // NOLINTNEXTLINE(cert-err34-c): a number that is too large is no port that the server has said
    return failed == 0 && std::fscanf(out_, "ready %d%*c", &port_) == 1;
  }
  // [blocks] until the camera has answered; its answer.
  std::string tell(const std::string& command) {
    std::fprintf(in_, "%s\n", command.c_str());
    std::fflush(in_);
    char line[256] = "";
    if (std::fgets(line, sizeof line, out_) == nullptr) return "";
    std::string answer(line);
    if (!answer.empty() && answer.back() == '\n') answer.pop_back();
    return answer;
  }
  [[nodiscard]] std::string url() const { return "rtsp://127.0.0.1:" + std::to_string(port_) + "/live"; }

 private:
  pid_t child_ = -1;
  std::FILE* in_ = nullptr;
  std::FILE* out_ = nullptr;
  int port_ = 0;
};

}  // namespace camd::capture::testing
