// Tells systemd how the daemon is: sd_notify(3), written here because the protocol is one datagram, promised to stay as
// it is, and its manual page asks nobody to link a library for it. Without NOTIFY_SOCKET nothing is told.
//
// Threads: ServiceManager: functions [any]. ServiceWatch: constructor, destructor [main]; its functions are called on a
// thread of its own, "watchdog".
// Invariants: a message is sent whole or not at all, and waits for a second at most. Once stopping() was called no
// status follows it.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.hpp"
#include "base/mutex.hpp"

namespace camd::app {

// What systemd has put into the environment of a service.
struct ServiceEnvironment {
  std::string socket;                    // NOTIFY_SOCKET; empty: nobody wants to know
  std::optional<base::Duration> period;  // WATCHDOG_USEC, if it is meant for this process

  [[nodiscard]] static ServiceEnvironment of_this_process();
};

class ServiceManager {
 public:
  // An address that cannot be used is a warning. The clock outlives this.
  ServiceManager(const ServiceEnvironment& environment, const base::Clock& clock);
  ~ServiceManager();
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;

  // Whether somebody wants to know.
  [[nodiscard]] bool told() const noexcept { return socket_ >= 0; }
  [[nodiscard]] std::optional<base::Duration> period() const noexcept { return period_; }

  void status(const std::string& text);   // one line for people
  void ready(const std::string& status);  // also when a reload is over
  void reloading();
  void stopping();
  void alive();  // the watchdog is to wait for another period

 private:
  void send(std::string_view message) CAMD_REQUIRES(mutex_);

  const base::Clock& clock_;
  const std::optional<base::Duration> period_;
  sockaddr_un address_{};
  socklen_t address_size_ = 0;
  int socket_ = -1;
  base::Mutex mutex_;
  std::string last_status_ CAMD_GUARDED_BY(mutex_);
  bool stopping_ CAMD_GUARDED_BY(mutex_) = false;
  bool failing_ CAMD_GUARDED_BY(mutex_) = false;
};

// How far a pipeline has come.
struct PipelineProgress {
  std::uint64_t finished = 0;  // frames that nobody will look at again
  bool waiting = false;        // frames are on their way

  // Whether a pipeline that was here before does its work: something came to its end, or there was nothing to do.
  [[nodiscard]] bool comes_from(const PipelineProgress& before) const noexcept {
    return finished != before.finished || !waiting || !before.waiting;
  }
};

// While it lives the status is kept up to date, and the watchdog is kept from barking as long as frames come through.
class ServiceWatch {
 public:
  struct Watched {
    std::function<std::string()> status;
    std::function<PipelineProgress()> progress;
  };
  ServiceWatch(ServiceManager& manager, Watched watched, const base::Clock& clock);
  ~ServiceWatch();
  ServiceWatch(const ServiceWatch&) = delete;
  ServiceWatch& operator=(const ServiceWatch&) = delete;

 private:
  void loop();

  ServiceManager& manager_;
  const Watched watched_;
  const base::Clock& clock_;
  base::Mutex mutex_;
  base::CondVar ended_;
  bool ending_ CAMD_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // only where somebody wants to know
};

}  // namespace camd::app
