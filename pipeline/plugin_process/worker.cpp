// The life of a worker process: start, watch, bury, start anew.
#include "pipeline/plugin_process/worker.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <future>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/thread.hpp"
#include "pipeline/plugin_process/descriptor_socket.hpp"

namespace camd::pipeline {
namespace {

using base::Error;
using base::ErrorKind;

constexpr base::Duration kEndPatience = std::chrono::milliseconds(1500);
constexpr base::Duration kLookAtUse = std::chrono::milliseconds(50);  // at what the process uses
constexpr base::Duration kLinePatience = std::chrono::seconds(1);
constexpr std::int64_t kMostThreads = 512;

base::TimePoint now() { return base::system_clock().now(); }

}  // namespace

Worker::Worker(WorkerSpec spec) : spec_(std::move(spec)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_) throw Error(ErrorKind::kPlugin, "worker processes: eventfd() failed");
  std::promise<void> started;
  std::future<void> result = started.get_future();
  thread_ = std::thread([this, &started] {
    base::name_this_thread("plugin:" + spec_.order.name);
    try {
      start_process();
      started.set_value();
    } catch (...) {
      started.set_exception(std::current_exception());
      return;
    }
    run();
  });
  try {
    result.get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

Worker::~Worker() {
  stop_ = true;
  const std::uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));
  if (thread_.joinable()) thread_.join();
}

// [the thread] Throws Error(kPlugin).
void Worker::start_process() {
  auto [mine, theirs] = socket_pair();
  auto process = std::make_shared<WorkerProcess>(spec_.program, std::vector<std::string>{"--serve", spec_.order.name},
                                                 theirs.get());
  theirs.reset();
  wire::WorkerOrder order = spec_.order;
  order.parent = getpid();
  const std::vector<char> bytes = order.bytes();
  const MemoryFile blob = sealed_bytes(bytes);
  const std::uint64_t size = bytes.size();
  if (!send_descriptors(mine.get(), std::as_bytes(std::span(&size, 1)), {blob.fd()})) {
    throw Error(ErrorKind::kPlugin, fmt::format("{}: it ended as soon as it was started", spec_.program));
  }
  const base::MutexLock lock(process_mutex_);
  process_ = std::move(process);
  control_ = std::move(mine);
  kill_reason_.clear();
  end_.clear();
  started_at_ = now();
}

bool Worker::hand_over(int socket, int orders, int answers) {
  const base::MutexLock lock(process_mutex_);
  const std::uint64_t size = 0;
  return control_ && send_descriptors(control_.get(), std::as_bytes(std::span(&size, 1)), {socket, orders, answers});
}

void Worker::enter(WorkerGuest& guest) {
  const base::MutexLock lock(guests_mutex_);
  guests_.push_back(&guest);
}

void Worker::leave(WorkerGuest& guest) {
  const base::MutexLock lock(guests_mutex_);
  std::erase(guests_, &guest);
}

void Worker::kill(const std::string& why) {
  const base::MutexLock lock(process_mutex_);
  if (process_ == nullptr || process_->ended()) return;
  if (kill_reason_.empty()) kill_reason_ = why;
  process_->kill();
}

bool Worker::ended() const {
  const base::MutexLock lock(process_mutex_);
  return process_ == nullptr || process_->ended();
}

std::string Worker::how_it_ended() {
  const base::MutexLock lock(process_mutex_);
  if (process_ == nullptr) return end_;
  const std::optional<ProcessEnd> end = process_->end();
  if (!end) return {};
  return kill_reason_.empty() ? "its process " + end->text() : kill_reason_;
}

void Worker::run() {
  for (;;) {
    int process_fd = -1;
    {
      const base::MutexLock lock(process_mutex_);
      if (process_ != nullptr) process_fd = process_->fd();
    }
    base::Duration longest = std::chrono::hours(1);
    if (process_fd >= 0) {
      longest = kLookAtUse;
    } else if (state_ == State::kRestarting) {
      longest = std::max(restart_at_ - now(), base::Duration(0));
    }
    std::array<pollfd, 2> fds{{{wake_.get(), POLLIN, 0}, {process_fd, POLLIN, 0}}};
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(longest).count();
    if (poll(fds.data(), fds.size(), static_cast<int>(ms)) < 0 && errno != EINTR) return;
    if (stop_) break;
    if (process_fd >= 0 && (fds[1].revents & POLLIN) != 0) {
      bury();
    } else if (process_fd >= 0) {
      look_after();
    } else if (state_ == State::kRestarting && now() >= restart_at_) {
      restart();
    }
  }
  // Its control socket ends: it leaves by itself, so that what it registered for its end runs.
  std::shared_ptr<WorkerProcess> process;
  {
    const base::MutexLock lock(process_mutex_);
    control_.reset();
    process = process_;
  }
  if (process != nullptr && !process->wait(kEndPatience)) {
    base::log().warn("plug-in process {}: did not end within {} ms, and was killed", spec_.order.name,
                     std::chrono::duration_cast<std::chrono::milliseconds>(kEndPatience).count());
    process->kill();
    (void)process->wait(base::Duration::max());
  }
}

void Worker::look_after() {
  std::shared_ptr<WorkerProcess> process;
  {
    const base::MutexLock lock(process_mutex_);
    process = process_;
  }
  const std::optional<ProcessUse> use = process->use();
  if (!use) return;
  if (spec_.order.memory_bytes > 0 && use->private_bytes > spec_.order.memory_bytes) {
    kill(fmt::format("used {} MiB of memory, memory: allows {} MiB", use->private_bytes >> 20,
                     spec_.order.memory_bytes >> 20));
  } else if (spec_.order.confined && use->threads > kMostThreads) {
    kill(fmt::format("had {} threads, {} are allowed", use->threads, kMostThreads));
  }
}

void Worker::tell_all_dead(const std::string& why) {
  std::string known;
  {
    const base::MutexLock lock(guests_mutex_);
    for (WorkerGuest* guest : guests_) {
      const std::string account = guest->died(why);
      if (known.empty()) known = account;
    }
  }
  const std::string who = known.empty() ? fmt::format("plug-in process {}: {}", spec_.order.name, why) : known;
  if (state_ == State::kFailed) {
    base::log().error("{}: it has died {} times in a row and is given up", who, deaths_);
  } else {
    base::log().error("{}: it is started anew", who);
  }
}

std::string Worker::line_of(const std::string& place) const {
  const std::size_t plus = place.rfind("+0x");
  if (plus == std::string::npos) return {};
  const std::string offset = place.substr(plus + 1, place.find(' ', plus) - plus - 1);
  auto [mine, theirs] = socket_pair();
  // Debug information is read where it can do no harm.
  WorkerProcess process(spec_.program, {"--where", place.substr(0, plus), offset}, theirs.get());
  theirs.reset();
  pollfd answer{mine.get(), POLLIN, 0};
  std::array<char, 512> text{};
  const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(kLinePatience).count();
  if (poll(&answer, 1, static_cast<int>(patience)) <= 0) return {};
  const ssize_t got = recv(mine.get(), text.data(), text.size(), MSG_DONTWAIT);
  const std::string_view line(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  if (line.empty() || line.find("??:") != std::string_view::npos) return {};
  return base::one_line(line.substr(0, line.find('\n')));
}

void Worker::tell_lines() {
  constexpr std::size_t kMostPlaces = 16;
  std::vector<std::string> places;
  {
    const base::MutexLock lock(guests_mutex_);
    for (const WorkerGuest* guest : guests_) places.push_back(guest->place());
  }
  for (const std::string& place : places) {
    if (place.empty() || places_told_.size() == kMostPlaces || !places_told_.insert(place).second) continue;
    try {
      const std::string line = line_of(place);
      if (!line.empty()) base::log().error("plug-in process {}: {} is {}", spec_.order.name, place, line);
    } catch (const Error&) {  // the line is a help, no more
    }
  }
}

void Worker::bury() {
  std::shared_ptr<WorkerProcess> process;
  std::string why;
  {
    const base::MutexLock lock(process_mutex_);
    process = process_;
  }
  const ProcessEnd end = process->wait(base::Duration::max()).value_or(ProcessEnd{});
  {
    // In one step: who sees that it has ended asks how.
    const base::MutexLock lock(process_mutex_);
    why = kill_reason_.empty() ? "its process " + end.text() : kill_reason_;
    end_ = why;
    process_ = nullptr;
    control_.reset();
  }
  const base::TimePoint at = now();
  bool anybody = false;
  {
    const base::MutexLock lock(guests_mutex_);
    anybody = !guests_.empty();
  }
  deaths_ = at - started_at_ >= spec_.restart.good_after ? 1 : deaths_ + 1;
  const bool given_up = !anybody || deaths_ > spec_.restart.most_deaths;
  state_ = given_up ? State::kFailed : State::kRestarting;
  base::Duration pause = deaths_ <= 1 ? spec_.restart.first : spec_.restart.second;
  for (int i = 2; i < deaths_ && pause < spec_.restart.longest; ++i) pause *= 2;
  restart_at_ = at + std::min(pause, spec_.restart.longest);
  if (!anybody) return;  // set-up looks after itself
  tell_all_dead(why);
  if (!given_up) return;
  {
    const base::MutexLock lock(guests_mutex_);
    for (WorkerGuest* guest : guests_) guest->given_up(why);
  }
  tell_lines();
}

void Worker::restart() {
  try {
    start_process();
    ++restarts_;
    {
      const base::MutexLock lock(guests_mutex_);
      for (WorkerGuest* guest : guests_) guest->revive();
      state_ = State::kRunning;
    }
    tell_lines();
  } catch (const Error& error) {
    bool there = false;
    {
      const base::MutexLock lock(process_mutex_);
      there = process_ != nullptr;
    }
    if (there) {
      kill(error.what());  // what is left of it is buried as every other
      return;
    }
    // It could not even be started.
    base::log().error("plug-in process {}: {}", spec_.order.name, error.what());
    ++deaths_;
    restart_at_ = now() + spec_.restart.longest;
    if (deaths_ <= spec_.restart.most_deaths) return;
    state_ = State::kFailed;
    const base::MutexLock lock(guests_mutex_);
    for (WorkerGuest* guest : guests_) guest->given_up(error.what());
  }
}

}  // namespace camd::pipeline
