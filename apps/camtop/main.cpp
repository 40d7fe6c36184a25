// camtop: draws the dashboard from metrics lines, live or recorded.
//
// Two threads: this one reads and feeds; LiveDashboard's draws. Everything that must interrupt a wait
// (signals, the q key) is a write to one eventfd.

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "apps/camtop/input.hpp"
#include "apps/dashboard/live_dashboard.hpp"
#include "apps/dashboard/model.hpp"
#include "apps/dashboard/render.hpp"
#include "apps/manual/manual.hpp"
#include "base/error.hpp"

namespace camd::camtop {
namespace {

using SteadyClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kUsage = 2;
constexpr milliseconds kFollowPeriod{100};  // how often a file that ended is looked at again
constexpr milliseconds kLastLines{3000};    // after Ctrl-C: camd drains and sends its final totals

struct Options {
  std::string file;
  double replay = 0;  // 0: as the lines come
  bool once = false;
  bool ascii = false;
};

int g_stop_fd = -1;
std::atomic<int> g_signals{0};

void ask_to_stop() noexcept {
  const int error = errno;
  const std::uint64_t one = 1;
  const ssize_t written = ::write(g_stop_fd, &one, sizeof one);
  (void)written;
  errno = error;
}

void on_signal(int signal) {
  g_signals.fetch_add(signal == SIGINT ? 1 : 2);  // only Ctrl-C reaches the other end of the pipe too
  ask_to_stop();
}

void install_signals() {
  g_stop_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);  // a reader that went away is an error code, not a death
}

// Where the lines go: the live picture, or text frames.
class Output {
 public:
  virtual ~Output() = default;
  virtual void feed(std::string_view line) = 0;
  virtual void finish() = 0;
};

class LiveOutput final : public Output {
 public:
  LiveOutput(const Options& options, std::function<void()> on_quit) : dashboard_(live(options, std::move(on_quit))) {}
  void feed(std::string_view line) override { dashboard_.feed(line); }
  void finish() override { dashboard_.close(); }

 private:
  static dashboard::LiveDashboard::Options live(const Options& options, std::function<void()> on_quit) {
    dashboard::LiveDashboard::Options out;
    out.on_quit = std::move(on_quit);
    out.ascii = options.ascii;
    return out;
  }
  dashboard::LiveDashboard dashboard_;
};

// One frame per period, then the summary; with --once one frame, of the end.
class TextOutput final : public Output {
 public:
  explicit TextOutput(const Options& options) : once_(options.once) {
    view_.rows = 0;
    view_.ascii = options.ascii;
    // As wide as the terminal is said to be, in scripts that care.
    const char* columns = std::getenv("COLUMNS");  // NOLINT(concurrency-mt-unsafe): before any thread
    const int wanted = columns == nullptr ? 0 : std::atoi(columns);
    if (wanted > 0) view_.columns = wanted;
  }

  void feed(std::string_view line) override {
    const auto periods = model_.periods();
    const bool stopped = model_.stopped();
    fresh_ = model_.feed(line) || fresh_;
    if (!once_ && (model_.periods() != periods || (model_.stopped() && !stopped))) frame();
  }

  void finish() override {
    if (fresh_ || model_.lines() == 0) frame();
    if (once_) return;
    write(dashboard::plain_text(dashboard::render_summary(model_, view_.columns)));
  }

 private:
  void frame() {
    fresh_ = false;
    write(dashboard::plain_text(dashboard::render(model_, view_)) + (once_ ? "" : "\n"));
  }

  static void write(const std::string& text) {
    std::string_view rest = text;
    while (!rest.empty()) {
      const ssize_t n = ::write(STDOUT_FILENO, rest.data(), rest.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        throw base::Error(base::ErrorKind::kIo, fmt::format("cannot write standard output: {}", std::strerror(errno)));
      }
      rest.remove_prefix(static_cast<std::size_t>(n));
    }
  }

  const bool once_;
  bool fresh_ = false;  // something came that no frame has shown
  dashboard::View view_;
  dashboard::Model model_;
};

// Holds lines back until their time: (mono_ns - first mono_ns) / speed after the first one.
class Pacer {
 public:
  explicit Pacer(double speed) : speed_(speed) {}

  SteadyClock::time_point due(std::string_view line) {
    const auto now = SteadyClock::now();
    const auto ns = dashboard::mono_ns_of(line);
    if (speed_ <= 0 || !ns) return now;
    if (first_ns_ < 0 || *ns < last_ns_) {  // the first line, or another run whose clock begins again
      first_ns_ = *ns;
      start_ = now;
    }
    last_ns_ = *ns;
    const double wait_ns = static_cast<double>(*ns - first_ns_) / speed_;
    return start_ + std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(wait_ns, 1e18)));
  }

 private:
  double speed_;
  std::int64_t first_ns_ = -1;
  std::int64_t last_ns_ = 0;
  SteadyClock::time_point start_;
};

class Session {
 public:
  Session(const Options& options, Input& input, bool live) : input_(input), pacer_(options.replay) {
    if (live) {
      output_ = std::make_unique<LiveOutput>(options, [this] {
        quit_ = true;
        ask_to_stop();
      });
      follow_ = input.is_file();
    } else {
      output_ = std::make_unique<TextOutput>(options);
    }
  }

  void run() {
    while (!over()) {
      if (const auto line = input_.next_line()) {
        if (wait_until(pacer_.due(*line))) output_->feed(*line);
        continue;
      }
      // A pipe is polled, so that a signal or a key ends the wait; a file is always ready.
      if (!input_.is_file() && !wait_for(input_.fd(), kNever)) continue;
      if (input_.read_more()) continue;
      if (!follow_) {
        if (const auto rest = input_.last_line()) output_->feed(*rest);
        break;
      }
      wait_for(-1, kFollowPeriod);
      input_.reopen_if_replaced();
    }
    output_->finish();
  }

 private:
  static constexpr milliseconds kNever{-1};

  // The first Ctrl-C reaches camd too, at the other end of the pipe: its last lines are worth a moment.
  bool over() {
    const int signals = g_signals.load();
    if (quit_ || signals > 1) return true;
    if (signals == 0) return false;
    if (input_.is_file() || ::isatty(input_.fd()) == 1) return true;
    if (!deadline_) deadline_ = SteadyClock::now() + kLastLines;
    return SteadyClock::now() >= *deadline_;
  }

  // True when `fd` can be read. Returns early, false, when asked to stop.
  bool wait_for(int fd, milliseconds timeout) {
    if (deadline_) {
      const auto left = std::chrono::ceil<milliseconds>(*deadline_ - SteadyClock::now());
      timeout = timeout == kNever ? left : std::min(timeout, left);
      timeout = std::max(timeout, milliseconds(0));
    }
    pollfd fds[] = {{g_stop_fd, POLLIN, 0}, {fd, POLLIN, 0}};
    const auto bounded = std::min<std::int64_t>(timeout.count(), 1'000'000'000);
    if (::poll(fds, 2, static_cast<int>(bounded)) <= 0) return false;
    if (fds[0].revents != 0) {
      std::uint64_t count = 0;
      const ssize_t n = ::read(g_stop_fd, &count, sizeof count);
      (void)n;
    }
    return fds[1].revents != 0;
  }

  // False when the session was over before `due`.
  bool wait_until(SteadyClock::time_point due) {
    while (!over()) {
      const auto left = std::chrono::ceil<milliseconds>(due - SteadyClock::now());
      if (left.count() <= 0) return true;
      if (g_signals.load() > 0) return true;  // draining: no more pacing
      wait_for(-1, left);
    }
    return false;
  }

  Input& input_;
  Pacer pacer_;
  std::unique_ptr<Output> output_;
  bool follow_ = false;
  std::atomic<bool> quit_{false};
  std::optional<SteadyClock::time_point> deadline_;
};

int run(const Options& options) {
  install_signals();
  const bool live = !options.once && dashboard::LiveDashboard::usable(STDOUT_FILENO);
  if (options.file.empty() && ::isatty(STDIN_FILENO) == 1) {
    throw base::Error(base::ErrorKind::kUsage,
                      "nothing to read: pipe metrics in (camd run CONFIG --metrics json | camtop) or name a file");
  }
  const bool standard_input = options.file.empty() || options.file == "-";
  const auto input = standard_input ? std::make_unique<Input>() : std::make_unique<Input>(options.file);
  Session(options, *input, live).run();
  return 0;
}

}  // namespace
}  // namespace camd::camtop

int main(int argc, char** argv) {
  camd::camtop::Options options;
  CLI::App app{
      "Draws camd's metrics lines: state, rates, drops, latency by stage and percentile.\n"
      "  camd run c.yaml --metrics json | camtop\n"
      "  ssh edge camd run c.yaml --metrics json | camtop\n"
      "  camtop run.jsonl --replay 10\n"
      "On a terminal the picture is live (q quits, up and down choose the camera) and a file is followed as\n"
      "it grows; otherwise one text frame per period is printed. NO_COLOR turns colours off.",
      "camtop"};
  app.add_option("FILE", options.file, "metrics lines; - or nothing: standard input")->type_name("FILE");
  auto* replay = app.add_option("--replay", options.replay, "play FILE at SPEED times its own pace (by mono_ns)")
                     ->type_name("SPEED")
                     ->check(CLI::Range(0.001, 1e6));
  app.add_flag("--once", options.once, "read to the end, print one text frame, leave")->excludes(replay);
  app.add_flag("--ascii", options.ascii, "no block characters");
  std::string manual;
  app.add_option("--manual", manual, "print a manual page or the completion")
      ->check(CLI::IsMember({"camtop.1", "camtop.bash"}))
      ->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "camtop: {} (see camtop --help)\n", error.what());
    return camd::camtop::kUsage;
  }
  if (!manual.empty()) {
    const std::string text = manual == "camtop.bash" ? camd::app::bash_completion(app)
                                                     : camd::app::manual_page(app, {CAMD_VERSION, {}, "camd(1)"});
    fmt::print("{}", text);
    return 0;
  }
  try {
    return camd::camtop::run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "camtop: {}\n", error.what());
    return camd::camtop::kUsage;
  }
}
