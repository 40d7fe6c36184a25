#include "plugins/outbox/identity.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <utility>

namespace camd::plugins {
namespace {

// Which outboxes of this process run.
struct Running {
  std::mutex mutex;
  std::condition_variable changed;
  std::set<std::string> identities;
};
Running& running() {
  static Running all;
  return all;
}

}  // namespace

bool take_identity(const std::string& identity, const std::function<bool()>& stopping,
                   const std::function<void()>& waits) {
  Running& all = running();
  std::unique_lock lock(all.mutex);
  bool told = false;
  while (all.identities.count(identity) > 0) {
    if (all.changed.wait_for(lock, std::chrono::seconds(2)) == std::cv_status::timeout && !std::exchange(told, true)) {
      waits();
    }
    if (stopping()) return false;
  }
  all.identities.insert(identity);
  return true;
}

void give_identity(const std::string& identity) {
  Running& all = running();
  const std::lock_guard lock(all.mutex);
  all.identities.erase(identity);
  all.changed.notify_all();
}

void wake_identities() { running().changed.notify_all(); }

}  // namespace camd::plugins
