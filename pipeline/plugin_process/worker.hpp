// Worker: a worker process that is kept alive. When it ends, whoever waits for it is told at once, and it is started
// anew with back-off; after too many deaths in a row it is given up.
//
// Threads: constructor, enter(), leave(), destructor [setup]; kill(), running(), status() [any]. One thread of its own
// for each worker starts the process, waits for its end and starts it anew; guests are called there.
// Invariants: a process that has ended was waited for before the next one begins, so it writes nothing any more. Nobody
// waits for a process longer than he says. The thread outlives the process: the kernel ends a process whose parent
// thread is gone, so none is left when camd is killed.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "pipeline/plugin_process/blob.hpp"
#include "pipeline/plugin_process/shared_memory.hpp"
#include "pipeline/plugin_process/worker_process.hpp"

namespace camd::pipeline {

// What runs in a worker. Called on the worker's thread.
class WorkerGuest {
 public:
  virtual ~WorkerGuest() = default;
  // The process has ended. Wakes who waits. Returns what the guest knows of it, for the log: "plug-in x: in process()
  // at libx.so+0x12"; empty: it had no call there.
  virtual std::string died(const std::string& why) noexcept = 0;
  // Where the process crashed last, of this guest's calls: "/path/libx.so+0x12a4 (name)"; the worker's own words.
  // Empty: nowhere.
  [[nodiscard]] virtual std::string place() const = 0;
  // Sets itself up in a new process. Throws Error(kPlugin).
  virtual void revive() = 0;
  // The process will not be started again.
  virtual void given_up(const std::string& why) noexcept = 0;
};

// When a process that has ended is started anew.
struct RestartPolicy {
  base::Duration first{0};                                 // before the first start after a death
  base::Duration second = std::chrono::milliseconds(100);  // before the second; doubles from there
  base::Duration longest = std::chrono::seconds(5);
  int most_deaths = 10;                                  // in a row; one more and it is given up
  base::Duration good_after = std::chrono::seconds(60);  // a process that ran for so long begins a new row
};

struct WorkerSpec {
  std::string program;  // camd-plugin
  wire::WorkerOrder order;
  RestartPolicy restart{};
};

class Worker {
 public:
  enum class State : std::uint8_t { kRunning, kRestarting, kFailed };

  // [blocks] Starts the process. Throws Error(kPlugin).
  explicit Worker(WorkerSpec spec);
  // [blocks] Lets the process end by itself, for kEndPatience; then ends it.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Hands the process an instance's socket and memory. False: the process is gone.
  [[nodiscard]] bool hand_over(int socket, int orders, int answers);
  // From now on the guest is told of deaths, and the process is started anew.
  void enter(WorkerGuest& guest);
  // [blocks] while the guest is called. After that it is not.
  void leave(WorkerGuest& guest);

  // [any] Ends the process. `why` is told instead of the signal.
  void kill(const std::string& why);
  // [any] Whether the process that runs now has ended.
  [[nodiscard]] bool ended() const;
  [[nodiscard]] State state() const noexcept { return state_.load(); }
  [[nodiscard]] std::uint64_t restarts() const noexcept { return restarts_.load(); }
  // [any] How the process ended; empty while it runs.
  [[nodiscard]] std::string how_it_ended();
  [[nodiscard]] const WorkerSpec& spec() const noexcept { return spec_; }

 private:
  void run();
  void start_process();
  void look_after();
  void bury();
  void restart();
  void tell_all_dead(const std::string& why);
  // Logs the source's line for a place where the process crashed, once for each place.
  void tell_lines();
  [[nodiscard]] std::string line_of(const std::string& place) const;

  const WorkerSpec spec_;
  std::atomic<State> state_{State::kRunning};
  std::atomic<std::uint64_t> restarts_{0};
  Descriptor wake_;  // eventfd
  std::atomic<bool> stop_{false};
  mutable base::Mutex process_mutex_;
  std::shared_ptr<WorkerProcess> process_ CAMD_GUARDED_BY(process_mutex_);
  Descriptor control_ CAMD_GUARDED_BY(process_mutex_);
  std::string kill_reason_ CAMD_GUARDED_BY(process_mutex_);
  std::string end_ CAMD_GUARDED_BY(process_mutex_);
  base::Mutex guests_mutex_;  // held while guests are called
  std::vector<WorkerGuest*> guests_ CAMD_GUARDED_BY(guests_mutex_);
  // The thread's own.
  int deaths_ = 0;
  std::set<std::string> places_told_;
  base::TimePoint started_at_, restart_at_;
  std::thread thread_;  // last: the others are there when it begins
};

}  // namespace camd::pipeline
