#include "apps/camd/service_manager.hpp"

#include <fmt/format.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/log.hpp"
#include "base/thread.hpp"

namespace camd::app {
namespace {

using base::MutexLock;

constexpr base::Duration kStatusPeriod = std::chrono::seconds(5);
constexpr timeval kSendPatience{1, 0};  // of a systemd that does not read

std::string environment(const char* name) {
  const char* const text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody changes the environment
  return text == nullptr ? std::string() : std::string(text);
}

// A line is an assignment.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::optional<std::int64_t> number(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

ServiceEnvironment ServiceEnvironment::of_this_process() {
  ServiceEnvironment found;
  found.socket = environment("NOTIFY_SOCKET");
  const std::optional<std::int64_t> period_us = number(environment("WATCHDOG_USEC"));
  const std::string meant_for = environment("WATCHDOG_PID");
  if (period_us && *period_us > 0 && (meant_for.empty() || number(meant_for) == ::getpid())) {
    found.period = std::chrono::microseconds(*period_us);
  }
  return found;
}

ServiceManager::ServiceManager(const ServiceEnvironment& environment, const base::Clock& clock)
    : clock_(clock), period_(environment.period) {
  const std::string& path = environment.socket;
  if (path.empty()) return;
  // A path, or with '@' a name in the abstract name space, which begins with a 0.
  if ((path[0] != '/' && path[0] != '@') || path.size() < 2 || path.size() >= sizeof(address_.sun_path)) {
    base::log().warn("NOTIFY_SOCKET={}: neither a path nor an abstract name: systemd is told nothing", path);
    return;
  }
  address_.sun_family = AF_UNIX;
  std::memcpy(address_.sun_path, path.data(), path.size());
  if (path[0] == '@') address_.sun_path[0] = '\0';
  address_size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0 || ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &kSendPatience, sizeof(kSendPatience)) != 0) {
    base::log().warn("systemd is told nothing: {}", std::strerror(errno));
  }
}

ServiceManager::~ServiceManager() {
  if (socket_ >= 0) ::close(socket_);
}

void ServiceManager::send(std::string_view message) {
  if (socket_ < 0) return;
  const auto* const to = reinterpret_cast<const sockaddr*>(&address_);
  const bool sent = ::sendto(socket_, message.data(), message.size(), MSG_NOSIGNAL, to, address_size_) >= 0;
  if (!sent && !failing_) base::log().warn("systemd cannot be told: {}", std::strerror(errno));
  failing_ = !sent;
}

void ServiceManager::status(const std::string& text) {
  const MutexLock lock(mutex_);
  if (stopping_ || text == last_status_) return;
  last_status_ = text;
  send("STATUS=" + one_line(text));
}

void ServiceManager::ready(const std::string& status) {
  const MutexLock lock(mutex_);
  last_status_ = status;
  send("READY=1\nSTATUS=" + one_line(status));
}

void ServiceManager::reloading() {
  const MutexLock lock(mutex_);
  last_status_ = "reloading";
  const auto now = std::chrono::duration_cast<std::chrono::microseconds>(clock_.now().time_since_epoch());
  send(fmt::format("RELOADING=1\nMONOTONIC_USEC={}\nSTATUS={}", now.count(), last_status_));
}

void ServiceManager::stopping() {
  const MutexLock lock(mutex_);
  stopping_ = true;
  send("STOPPING=1\nSTATUS=stopping: frames on their way are finished");
}

void ServiceManager::alive() {
  const MutexLock lock(mutex_);
  send("WATCHDOG=1");
}

ServiceWatch::ServiceWatch(ServiceManager& manager, Watched watched, const base::Clock& clock)
    : manager_(manager), watched_(std::move(watched)), clock_(clock) {
  if (manager_.told()) thread_ = std::thread([this] { loop(); });
}

ServiceWatch::~ServiceWatch() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    ended_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void ServiceWatch::loop() {
  base::name_this_thread("watchdog");
  const std::optional<base::Duration> period = manager_.period();
  // systemd wants to hear at half of its period.
  const base::Duration step = period ? std::min(*period / 2, kStatusPeriod) : kStatusPeriod;
  PipelineProgress before;
  bool barks = false;
  base::TimePoint next = clock_.now();
  for (;;) {
    const PipelineProgress now = watched_.progress();
    if (period && now.comes_from(before)) manager_.alive();
    if (period && std::exchange(barks, !now.comes_from(before)) != barks) {
      if (barks) {
        base::log().error("frames are on their way and none has come through for {} ms: the watchdog is not told",
                          std::chrono::duration_cast<std::chrono::milliseconds>(step).count());
      } else {
        base::log().info("frames come through again: the watchdog is told");
      }
    }
    before = now;
    manager_.status(watched_.status());
    next += step;
    const MutexLock lock(mutex_);
    while (!ending_ && clock_.now() < next) (void)clock_.wait_until(ended_, mutex_, next);
    if (ending_) return;
  }
}

}  // namespace camd::app
