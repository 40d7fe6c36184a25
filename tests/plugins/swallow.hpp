// A connection to nowhere: takes each message and acknowledges it at once.
//
// Threads: as Connection.
#pragma once

#include <array>
#include <condition_variable>
#include <mutex>
#include <string>

#include "plugins/outbox/connection.hpp"

namespace camd::plugins::testing {

class Swallow final : public Connection {
 public:
  [[nodiscard]] std::string name() const override { return "nowhere"; }
  void open() override { ready_ = true; }
  [[nodiscard]] bool ready() const override { return ready_; }
  [[nodiscard]] std::size_t window() const override { return sent_.size(); }
  void send(std::uint64_t id, const Message& /*message*/) override { sent_.at(count_++) = id; }
  void work(Answers& answers, std::chrono::milliseconds most) override {
    for (std::size_t i = 0; i < count_; ++i) answers.acknowledged(sent_.at(i));
    const bool some = count_ > 0;
    count_ = 0;
    if (some) return;
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, most, [this] { return woken_; });
    woken_ = false;
  }
  void wake() noexcept override {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    changed_.notify_one();
  }
  void close(bool /*politely*/) noexcept override {
    ready_ = false;
    count_ = 0;
  }

 private:
  std::array<std::uint64_t, 16> sent_{};
  std::size_t count_ = 0;
  bool ready_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
};

}  // namespace camd::plugins::testing
