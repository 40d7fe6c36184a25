// WorkerProcess: one child process, from its start until it is waited for.
//
// Threads: the constructor's thread must live as long as the process: the kernel ends the process with the thread that
// has started it. All else [any].
// Invariants: the process gets nothing of camd's but the descriptors that are named: no other descriptor, no secret in
// its environment, no signal mask. It is a group of its own, so that Ctrl-C does not reach it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "pipeline/plugin_process/shared_memory.hpp"

namespace camd::pipeline {

// How a process has ended.
struct ProcessEnd {
  int signal = 0;     // that ended it; 0: it ended by itself
  int exit_code = 0;  // where signal is 0

  // "was killed by signal 11 (Segmentation fault)", "exited with code 0".
  [[nodiscard]] std::string text() const;
};

// What a process uses, by /proc.
struct ProcessUse {
  std::uint64_t private_bytes = 0;  // resident memory that is not shared
  std::int64_t threads = 0;
};

class WorkerProcess {
 public:
  // Starts `program`; `control` becomes its descriptor wire::kControlFd. Its stdout is camd's stderr. Throws
  // Error(kPlugin).
  WorkerProcess(const std::string& program, const std::vector<std::string>& arguments, int control);
  // [blocks] Kills it if it still runs, and waits.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  // A descriptor that can be read once the process has ended.
  [[nodiscard]] int fd() const noexcept { return pidfd_.get(); }
  // Ends it at once.
  void kill() const noexcept;
  // Whether it has ended. Does not block.
  [[nodiscard]] bool ended() const noexcept;
  // How it has ended, where it has: the same for everybody who asks. Does not block.
  [[nodiscard]] std::optional<ProcessEnd> end() noexcept;
  // [blocks] until it has ended, or `patience` is over: nothing then.
  [[nodiscard]] std::optional<ProcessEnd> wait(base::Duration patience) noexcept;
  // Does not block. Nothing where that cannot be read.
  [[nodiscard]] std::optional<ProcessUse> use() const;

 private:
  pid_t pid_ = -1;
  Descriptor pidfd_;
  Descriptor stat_, statm_;  // of /proc/PID
  base::Mutex end_mutex_;    // The kernel tells only the first who waits for a process how it has ended.
  std::optional<ProcessEnd> end_ CAMD_GUARDED_BY(end_mutex_);
};

// Where camd's own program lies, to find what is installed beside it. Throws Error(kPlugin).
[[nodiscard]] std::string program_folder();

}  // namespace camd::pipeline
