// Signals of `camd run`: SIGINT and SIGTERM ask to stop, a second one leaves at once, SIGHUP asks for a reload, SIGUSR1
// for files to be opened anew.
//
// Threads: constructor, destructor, attach(), on_leave() [main]; the rest [any]. Signals are taken on a thread of its
// own, "signals".
// Invariants: a request is kept until it is looked at. An action for leaving is not called after on_leave() has
// replaced it, and on_leave() does not return while one runs.
#pragma once

#include <signal.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "base/mutex.hpp"

namespace camd::app {

class Signals {
 public:
  // What the signals are for. Both functions are called on [any] thread and must be quick.
  struct Target {
    std::function<void()> wake;          // something was asked for
    std::function<std::string()> stuck;  // one line: what a stop waits for
  };

  // Blocks the signals in this thread and in all threads that it starts, so that only this class sees them.
  // `leave` ends the process with an exit code; tests pass their own, which may return.
  explicit Signals(std::function<void(int)> leave = [](int code) { std::_Exit(code); });
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // From now on requests wake `target`; at once, if there is one already. An empty target: nobody is woken, and no
  // call of the last one is under way any more.
  void attach(Target target);
  // True once for each SIGHUP (or several that came together).
  [[nodiscard]] bool take_reload() { return reload_.exchange(false); }
  // The same for SIGUSR1.
  [[nodiscard]] bool take_reopen() { return reopen_.exchange(false); }
  [[nodiscard]] bool stop_asked() const { return stop_asked_; }
  // As if SIGINT had come (the dashboard's q key).
  void ask_to_stop();
  // A drain begins or has ended. One that takes longer than ten seconds is given up: the process leaves.
  void draining(bool now);
  // What restores the terminal before the process leaves at once; empty: nothing. [blocks] while the last action runs:
  // the process then ends, so this does not return.
  void on_leave(std::function<void()> action);

 private:
  void loop();
  void ask(std::atomic<bool>& what);
  void leave_at_once(const std::string& why);

  const std::function<void(int)> leave_;
  sigset_t set_{};
  std::atomic<bool> ending_{false};
  std::atomic<bool> stop_asked_{false};
  std::atomic<bool> reload_{false};
  std::atomic<bool> reopen_{false};
  std::atomic<std::int64_t> drain_started_ns_{0};
  base::Mutex mutex_;
  base::CondVar stayed_;
  Target target_ CAMD_GUARDED_BY(mutex_);
  std::function<void()> on_leave_ CAMD_GUARDED_BY(mutex_);
  bool leaving_ CAMD_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace camd::app
