#include "apps/camd/signals.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <chrono>
#include <ctime>
#include <future>
#include <memory>
#include <utility>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/thread.hpp"

namespace camd::app {
namespace {

constexpr auto kStuckAfter = std::chrono::seconds(10);           // a drain that takes longer is given up
constexpr auto kLeavePatience = std::chrono::milliseconds(300);  // for what is left to do when leaving at once
constexpr int kInternal = 70;
// Ends the thread's wait. A real-time signal: none that anybody sends a daemon.
int end_of_thread() noexcept { return SIGRTMIN; }

}  // namespace

Signals::Signals(std::function<void(int)> leave) : leave_(std::move(leave)) {
  sigemptyset(&set_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, end_of_thread()}) sigaddset(&set_, signal);
  pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  thread_ = std::thread([this] { loop(); });
}

Signals::~Signals() {
  ending_ = true;
  pthread_kill(thread_.native_handle(), end_of_thread());
  thread_.join();
}

void Signals::attach(Target target) {
  const base::MutexLock lock(mutex_);
  target_ = std::move(target);
  if (target_.wake && (stop_asked_ || reload_ || reopen_)) target_.wake();
}

void Signals::ask_to_stop() {
  if (stop_asked_.exchange(true)) {
    leave_at_once("second request to stop");
    return;
  }
  ask(stop_asked_);
}

void Signals::ask(std::atomic<bool>& what) {
  what = true;
  const base::MutexLock lock(mutex_);
  if (target_.wake) target_.wake();
}

void Signals::draining(bool now) { drain_started_ns_ = now ? base::to_ns(base::system_clock().now()) : 0; }

void Signals::on_leave(std::function<void()> action) {
  const base::MutexLock lock(mutex_);
  while (leaving_) stayed_.wait(mutex_);
  on_leave_ = std::move(action);
}

void Signals::loop() {
  base::name_this_thread("signals");
  while (!ending_) {
    const timespec timeout{0, 500'000'000};
    const int signal = sigtimedwait(&set_, nullptr, &timeout);
    if (signal == SIGINT || signal == SIGTERM) ask_to_stop();
    if (signal == SIGHUP) ask(reload_);
    if (signal == SIGUSR1) ask(reopen_);
    const std::int64_t since = drain_started_ns_;
    if (since != 0 && base::system_clock().now() - base::from_ns(since) > kStuckAfter) {
      leave_at_once(fmt::format("the drain takes longer than {} s", kStuckAfter.count()));
    }
  }
}

// Threads that hang in foreign code cannot be joined, and nothing may be destroyed under them: no destructor runs.
void Signals::leave_at_once(const std::string& why) {
  std::function<void()> action;
  {
    const base::MutexLock lock(mutex_);
    if (leaving_) return;  // another thread is at it
    leaving_ = true;
    const std::string stuck = target_.stuck ? ", " + target_.stuck() : std::string();
    base::log().error("{}: leaving at once{}", why, stuck);
    action = on_leave_;
  }
  // Outside the lock: closing the dashboard waits for its thread, which may be asking to stop (the q key) right now. On
  // a thread of its own: a terminal that was held (Ctrl-S) lets nobody write.
  std::future<void> acted;
  if (action) {
    const auto done = std::make_shared<std::promise<void>>();
    acted = done->get_future();
    std::thread([action, done] {
      action();
      done->set_value();
    }).detach();
    (void)acted.wait_for(kLeavePatience);
  }
  (void)base::flush_log(kLeavePatience);
  leave_(kInternal);
  if (acted.valid()) acted.wait();  // in tests, where the process goes on
  const base::MutexLock lock(mutex_);
  leaving_ = false;
  stayed_.notify_all();
}

}  // namespace camd::app
