#include "apps/dashboard/live_dashboard.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/dashboard/model.hpp"
#include "apps/dashboard/order.hpp"
#include "apps/dashboard/render.hpp"
#include "apps/dashboard/terminal.hpp"
#include "base/error.hpp"
#include "base/mutex.hpp"
#include "base/thread.hpp"

namespace camd::dashboard {
namespace {

using SteadyClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kGather{15};         // the lines of one period come together: one picture for all
constexpr milliseconds kIdle{1000};         // how often silence is looked at
constexpr std::size_t kMaxLogLine = 65536;  // of a stderr line without an end
constexpr std::size_t kLogsAtEnd = 20;
constexpr std::ptrdiff_t kPage = 10;      // cameras
constexpr std::size_t kMaxFilter = 64;    // bytes
constexpr milliseconds kEscapeAlone{50};  // what follows Escape in a sequence comes with it

}  // namespace

class LiveDashboard::Impl {
 public:
  explicit Impl(Options options)
      : options_(std::move(options)), terminal_(options_.fd, options_.take_stderr), wake_fd_(make_event()) {
    sigset_t all;
    sigset_t before;
    // The program's signals belong to its own threads. Faults must stay deliverable where they happen.
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  ~Impl() {
    close();
    if (thread_.joinable()) thread_.join();  // close() came from on_quit
    ::close(wake_fd_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  bool feed(std::string_view line) {
    bool understood = false;
    {
      const base::MutexLock lock(mutex_);
      understood = model_.feed(line);
      last_feed_ = SteadyClock::now();
      dirty_ = true;
    }
    wake();
    return understood;
  }

  void add_log(std::string_view line) {
    {
      const base::MutexLock lock(mutex_);
      model_.add_log(line);
      dirty_ = true;
    }
    wake();
  }

  void close() {
    std::call_once(closed_, [this] {
      {
        const base::MutexLock lock(mutex_);
        closing_ = true;
      }
      wake();
      // From on_quit this is the drawing thread itself: it draws no more and ends when on_quit returns.
      if (thread_.get_id() != std::this_thread::get_id()) thread_.join();
      take_stderr_lines();
      terminal_.restore();
      std::string text;
      const base::MutexLock lock(mutex_);
      if (terminal_.stderr_fd() >= 0) {
        const auto& logs = model_.logs();
        for (std::size_t i = logs.size() - std::min(logs.size(), kLogsAtEnd); i < logs.size(); ++i) {
          text += logs[i] + "\n";
        }
      }
      if (options_.summary) {
        for (const Line& line : render_summary(model_, terminal_.size().columns)) {
          text += line.ansi(terminal_.colour()) + "\n";
        }
      }
      terminal_.print(text);
    });
  }

 private:
  static int make_event() {
    const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) throw base::Error(base::ErrorKind::kIo, "dashboard: cannot make an event");
    return fd;
  }

  void wake() const noexcept {
    const std::uint64_t one = 1;
    const ssize_t written = ::write(wake_fd_, &one, sizeof one);  // fails only when already readable
    (void)written;
  }

  // [dashboard]
  void run() {
    base::name_this_thread("dashboard");
    SteadyClock::time_point next_draw = SteadyClock::now();
    bool waiting = true;  // something is to be drawn at next_draw
    for (;;) {
      const auto now = SteadyClock::now();
      if (waiting && now >= next_draw) {
        draw(now);
        waiting = false;
        next_draw = now + options_.min_interval;
      }
      wait_for_events(waiting ? std::chrono::ceil<milliseconds>(next_draw - SteadyClock::now()) : kIdle);
      const bool urgent = handle_events();
      bool dirty = false;
      {
        const base::MutexLock lock(mutex_);
        if (closing_) break;
        dirty = std::exchange(dirty_, false);
      }
      const auto later = SteadyClock::now();
      if (urgent) {
        next_draw = later;
        waiting = true;
      } else if (!waiting && (dirty || silence(later) > 0)) {
        next_draw = std::max(next_draw, later + kGather);
        waiting = true;
      }
    }
    draw(SteadyClock::now());
  }

  void wait_for_events(milliseconds timeout) {
    if (terminal_.has_escape()) timeout = std::min(timeout, kEscapeAlone);
    std::vector<pollfd> fds{{wake_fd_, POLLIN, 0}, {terminal_.signal_fd(), POLLIN, 0}};
    if (terminal_.stderr_fd() >= 0) fds.push_back({terminal_.stderr_fd(), POLLIN, 0});
    const bool keys = terminal_.key_fd() >= 0 && !terminal_.suspended();
    if (keys) fds.push_back({terminal_.key_fd(), POLLIN, 0});
    const auto bounded = std::clamp<std::int64_t>(timeout.count(), 0, kIdle.count());
    if (::poll(fds.data(), fds.size(), static_cast<int>(bounded)) <= 0) {
      escape_ = keys && terminal_.take_escape();
      return;
    }
    if ((fds[0].revents & POLLIN) != 0) {
      std::uint64_t count = 0;
      const ssize_t n = ::read(wake_fd_, &count, sizeof count);
      (void)n;
    }
    // A terminal that hung up would make every poll return at once.
    if (keys && (fds.back().revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) terminal_.close_keys();
  }

  // True when the picture must change at once: the user did something.
  bool handle_events() {
    take_stderr_lines();
    const Terminal::Signals signals = terminal_.read_signals();
    if (signals.stop) {
      terminal_.suspend();
      return terminal_.resume();
    }
    if (signals.continued || terminal_.suspended()) return terminal_.resume();
    bool urgent = signals.resized;
    if (std::exchange(escape_, false)) {
      take_key({Key::kEscape});
      urgent = true;
    }
    for (KeyPress press = terminal_.read_key(typing()); press.key != Key::kNone; press = terminal_.read_key(typing())) {
      urgent = true;
      if (press.key == Key::kQuit && options_.on_quit) options_.on_quit();
      take_key(press);
    }
    return urgent;
  }

  bool typing() {
    const base::MutexLock lock(mutex_);
    return typing_;
  }

  void take_key(const KeyPress& press) {
    const base::MutexLock lock(mutex_);
    switch (press.key) {
      case Key::kUp: select(-1); break;
      case Key::kDown: select(1); break;
      case Key::kPageUp: select(-kPage); break;
      case Key::kPageDown: select(kPage); break;
      case Key::kFilter:
        typing_ = true;
        filter_.clear();
        break;
      case Key::kText:
        if (filter_.size() < kMaxFilter) filter_ += press.text;
        break;
      case Key::kErase:
        while (!filter_.empty() && (static_cast<unsigned char>(filter_.back()) & 0xC0U) == 0x80U) filter_.pop_back();
        if (!filter_.empty()) filter_.pop_back();
        break;
      case Key::kEnter: typing_ = false; break;
      case Key::kEscape:
        typing_ = false;
        filter_.clear();
        selected_.reset();  // whoever is worst
        break;
      case Key::kQuit:
      case Key::kNone: break;
    }
  }

  // So many cameras further, in the order in which they are shown.
  void select(std::ptrdiff_t steps) CAMD_REQUIRES(mutex_) {
    const std::vector<std::size_t> order = cameras_in_order(model_, filter_);
    if (order.empty()) return;
    const auto found = selected_ ? std::find(order.begin(), order.end(), *selected_) : order.end();
    const std::ptrdiff_t now = found == order.end() ? 0 : found - order.begin();
    const auto last = static_cast<std::ptrdiff_t>(order.size()) - 1;
    selected_ = order[static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(now + steps, 0, last))];
  }

  void take_stderr_lines() {
    partial_ += terminal_.read_stderr();
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = partial_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      add_log(std::string_view(partial_).substr(begin, end - begin));
    }
    partial_.erase(0, begin);
    if (partial_.size() > kMaxLogLine) partial_.clear();
  }

  int silence(SteadyClock::time_point now) {
    const base::MutexLock lock(mutex_);
    return silence_locked(now);
  }

  // Seconds without a line, once that is longer than three periods.
  int silence_locked(SteadyClock::time_point now) const CAMD_REQUIRES(mutex_) {
    const auto quiet = std::chrono::duration_cast<std::chrono::seconds>(now - last_feed_).count();
    double period = 1;
    for (const Camera& camera : model_.cameras()) period = std::max(period, std::min(camera.period_s, 3600.0));
    return static_cast<double>(quiet) >= 3 * period ? static_cast<int>(std::min<std::int64_t>(quiet, 99999)) : 0;
  }

  void draw(SteadyClock::time_point now) {
    if (terminal_.suspended()) return;
    const Size size = terminal_.size();
    std::vector<Line> lines;
    {
      const base::MutexLock lock(mutex_);
      View view;
      view.columns = size.columns;
      view.rows = size.rows;
      view.selected = selected_;
      view.filter = printable(filter_);
      view.typing = typing_;
      view.ascii = options_.ascii || terminal_.ascii_only();
      view.quit_key = terminal_.key_fd() >= 0 && options_.on_quit != nullptr;
      view.keys = view.quit_key || (terminal_.key_fd() >= 0 && model_.cameras().size() > 1);
      view.silent_s = silence_locked(now);
      lines = render(model_, view);
    }
    terminal_.draw(lines);  // without the lock: feed() never waits for the terminal
  }

  const Options options_;
  Terminal terminal_;    // [dashboard], then close()
  bool escape_ = false;  // was pressed alone; [dashboard]
  std::string partial_;  // of a stderr line; [dashboard], then close()
  const int wake_fd_;
  std::once_flag closed_;
  base::Mutex mutex_;
  Model model_ CAMD_GUARDED_BY(mutex_);
  std::optional<std::size_t> selected_ CAMD_GUARDED_BY(mutex_);
  std::string filter_ CAMD_GUARDED_BY(mutex_);
  bool typing_ CAMD_GUARDED_BY(mutex_) = false;
  SteadyClock::time_point last_feed_ CAMD_GUARDED_BY(mutex_) = SteadyClock::now();
  bool dirty_ CAMD_GUARDED_BY(mutex_) = false;
  bool closing_ CAMD_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

bool LiveDashboard::usable(int fd) { return Terminal::usable(fd); }
LiveDashboard::LiveDashboard(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
LiveDashboard::~LiveDashboard() = default;
bool LiveDashboard::feed(std::string_view line) { return impl_->feed(line); }
void LiveDashboard::add_log(std::string line) { impl_->add_log(line); }
void LiveDashboard::close() { impl_->close(); }

}  // namespace camd::dashboard
