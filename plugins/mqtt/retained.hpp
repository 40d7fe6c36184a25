// Retained: the values that a broker is to keep for each topic: the newest counts, and nothing is lost with an older
// one.
//
// Threads: set(), remove(), generation() [any]; take(), all_again() by the connection's thread.
// Invariants: a topic has one value. What was not sent yet is sent once, in its newest form.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace camd::plugins {

class Retained {
 public:
  // True when that changed something.
  bool set(const std::string& topic, std::string_view value) {
    const std::lock_guard lock(mutex_);
    Value& kept = values_[topic];
    if (kept.known && kept.text == value) return false;
    kept.text.assign(value);
    kept.known = true;
    kept.sent = false;
    return true;
  }
  // The broker is to forget it: an empty value is sent once.
  void remove(const std::string& topic) {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(topic);
    if (found == values_.end()) return;
    found->second.text.clear();
    found->second.sent = false;
  }
  // One that is not sent yet. False: there is none. It counts as sent from now on.
  [[nodiscard]] bool take(std::string& topic, std::string& value) {
    const std::lock_guard lock(mutex_);
    for (auto at = values_.begin(); at != values_.end(); ++at) {
      if (at->second.sent) continue;
      topic = at->first;
      value = at->second.text;
      at->second.sent = true;
      if (value.empty()) values_.erase(at);
      return true;
    }
    return false;
  }
  // All are to be sent again: the broker may have forgotten them.
  void all_again() {
    const std::lock_guard lock(mutex_);
    for (auto& [topic, value] : values_) value.sent = false;
  }

 private:
  struct Value {
    std::string text;
    bool known = false;
    bool sent = false;
  };
  std::mutex mutex_;
  std::map<std::string, Value> values_;
};

}  // namespace camd::plugins
