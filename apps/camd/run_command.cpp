// camd run: load, run, reload on SIGHUP, drain on SIGINT/SIGTERM, leave at once on the second.

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "apps/camd/commands.hpp"
#include "apps/camd/stdout_lines.hpp"
#include "apps/dashboard/live_dashboard.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/thread.hpp"
#include "config/loader.hpp"
#include "pipeline/session.hpp"

namespace camd::app {
namespace {

using pipeline::EndReason;
using pipeline::Session;

constexpr auto kStuckAfter = std::chrono::seconds(10);  // a drain that takes longer is given up
constexpr int kInternal = 70;

// Waits for signals on a thread of its own and passes them to the session that runs now.
class Signals {
 public:
  // Blocks the signals in this thread and all that it starts, so that only sigwait() sees them.
  Signals() {
    sigemptyset(&set_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) sigaddset(&set_, signal);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    thread_ = std::thread([this] { loop(); });
  }
  ~Signals() {
    ending_ = true;
    pthread_kill(thread_.native_handle(), SIGUSR1);
    thread_.join();
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Null: between two sessions.
  void attach(Session* session) {
    base::MutexLock lock(mutex_);
    session_ = session;
    if (session_ != nullptr && (stop_asked_ || reload_)) session_->request_end();
  }
  [[nodiscard]] bool take_reload() { return reload_.exchange(false); }
  [[nodiscard]] bool stop_asked() const { return stop_asked_; }
  // As if SIGINT had come (the dashboard's q key).
  void ask_to_stop() {
    if (stop_asked_.exchange(true)) leave_at_once("second request to stop");
    base::MutexLock lock(mutex_);
    if (session_ != nullptr) session_->request_end();
  }
  // The main thread has begun or ended its drain: the signal thread watches that it does not take for ever.
  void draining(bool now) { drain_started_ns_ = now ? base::to_ns(base::system_clock().now()) : 0; }
  // Restores the terminal before the process leaves at once.
  void on_leave(std::function<void()> action) {
    base::MutexLock lock(mutex_);
    on_leave_ = std::move(action);
  }

 private:
  void loop() {
    base::name_this_thread("signals");
    while (!ending_) {
      const timespec timeout{0, 500'000'000};
      const int signal = sigtimedwait(&set_, nullptr, &timeout);
      if (signal == SIGINT || signal == SIGTERM) ask_to_stop();
      if (signal == SIGHUP) {
        reload_ = true;
        base::MutexLock lock(mutex_);
        if (session_ != nullptr) session_->request_end();
      }
      const std::int64_t since = drain_started_ns_;
      if (since != 0 && base::system_clock().now() - base::from_ns(since) > kStuckAfter) {
        leave_at_once(fmt::format("the drain takes longer than {} s", kStuckAfter.count()));
      }
    }
  }

  [[noreturn]] void leave_at_once(const std::string& why) {
    std::function<void()> on_leave;
    {
      base::MutexLock lock(mutex_);
      base::log().error("{}: leaving at once{}{}", why, session_ != nullptr ? ", " : "",
                        session_ != nullptr ? session_->stuck_line() : std::string());
      on_leave = on_leave_;
    }
    // Outside the lock: closing the dashboard waits for its thread, which may be asking to stop (the q key) right now.
    if (on_leave) on_leave();
    // Threads that hang in foreign code cannot be joined; nothing may run destructors under them.
    std::_Exit(kInternal);
  }

  sigset_t set_{};
  std::thread thread_;
  std::atomic<bool> ending_{false};
  std::atomic<bool> stop_asked_{false};
  std::atomic<bool> reload_{false};
  std::atomic<std::int64_t> drain_started_ns_{0};
  base::Mutex mutex_;
  Session* session_ CAMD_GUARDED_BY(mutex_) = nullptr;
  std::function<void()> on_leave_ CAMD_GUARDED_BY(mutex_);
};

// Where the metrics lines go.
class Output {
 public:
  Output(MetricsMode mode, Signals& signals) : lines_(STDOUT_FILENO) {
    if (mode == MetricsMode::kAuto) {
      mode = dashboard::LiveDashboard::usable(STDOUT_FILENO) ? MetricsMode::kDashboard : MetricsMode::kJson;
    }
    mode_ = mode;
    if (mode_ == MetricsMode::kDashboard) {
      dashboard::LiveDashboard::Options options;
      options.on_quit = [&signals] { signals.ask_to_stop(); };
      dashboard_ = std::make_unique<dashboard::LiveDashboard>(std::move(options));
      signals.on_leave([this] { dashboard_->close(); });
    }
  }
  void write(std::string_view line) {
    if (dashboard_) dashboard_->feed(line);
    if (mode_ == MetricsMode::kJson) lines_.write(line);
  }
  void stopping() { lines_.cancel(); }

 private:
  MetricsMode mode_;
  StdoutLines lines_;
  std::unique_ptr<dashboard::LiveDashboard> dashboard_;
};

}  // namespace

int run_command(const RunOptions& options) {
  const base::Clock& clock = base::system_clock();
  config::Config config = config::load(options.config, options.overrides);
  Signals signals;
  std::unique_ptr<Output> output;
  std::optional<base::TimePoint> deadline;  // counts from the first start, not from the set-up before it
  for (;;) {
    pipeline::SessionOptions session_options;
    session_options.frame_limit = options.frames;
    Session session(config, session_options, clock, [&output](std::string_view line) { output->write(line); });
    // The terminal is taken over only once everything that can be checked has been: errors stay readable.
    if (!output) output = std::make_unique<Output>(options.metrics, signals);
    session.start();
    if (!deadline) {
      deadline = options.duration.count() > 0 ? clock.now() + options.duration : base::TimePoint::max();
    }
    signals.attach(&session);
    EndReason reason = EndReason::kRequested;
    std::optional<config::Config> next;
    do {
      reason = session.wait(*deadline);
      if (reason != EndReason::kRequested) break;
      // Before the signals are looked at: one that comes later asks again, and is not forgotten with this request.
      session.forget_request();
      if (signals.stop_asked()) break;
      if (!signals.take_reload()) continue;
      try {
        next = config::load(options.config, options.overrides);
        base::log().info("{}: reloading", options.config);
      } catch (const base::Error& error) {
        base::log().error("reload refused, the old configuration runs on:\n{}", error.what());
      }
    } while (!next);
    output->stopping();
    signals.draining(true);
    const int exit_code = session.stop(reason);
    signals.draining(false);
    signals.attach(nullptr);
    if (!next || signals.stop_asked()) return exit_code;
    config = std::move(*next);
  }
}

}  // namespace camd::app
