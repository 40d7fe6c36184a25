// Calling into a plug-in: its table is checked first, what it throws becomes a failure, its message becomes one line,
// and a call that may hang is made on a thread of its own, which is left behind.
//
// Threads: functions of their arguments, [any]; Aside [setup], one thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "plugins/camd_plugin.h"

namespace camd::pipeline {

// Refuses a table before anything of it is called. Throws Error(kPlugin).
void check_table(const camd_plugin& table, const std::string& label);

[[nodiscard]] camd_error no_error() noexcept;
// The plug-in's message: one line of UTF-8, always ended.
[[nodiscard]] std::string message_of(camd_error& error);

// Calls a function of a plug-in. The interface is C, so nothing may be thrown through it; what is thrown all the same
// is a failure of this call.
template <class Call>
std::int32_t guarded(camd_error& error, Call&& call) noexcept {
  const auto failed = [&error](const char* what) {
    std::snprintf(error.message, sizeof(error.message), "threw an exception: %s", what);
    return std::int32_t{CAMD_ERROR_FAILED};
  };
  try {
    return call();
  } catch (const std::exception& thrown) {
    return failed(thrown.what());
  } catch (...) {
    return failed("one that is no std::exception");
  }
}

// What the plug-in offers by that name; nullptr: nothing. Throws Error(kPlugin), its line begins with `prefix`.
[[nodiscard]] const void* extension_of(const camd_plugin& table, const char* id, const std::string& prefix);
// Throws Error(kPlugin): the plug-in's extension lacks a function.
[[noreturn]] void refuse_extension(const char* id, const std::string& prefix);

// An extension that is a struct with a size and functions that must all be there; nullptr: it is not offered.
template <class T, class... Functions>
[[nodiscard]] const T* functions_of(const camd_plugin& table, const std::string& prefix, const char* id,
                                    Functions T::*... functions) {
  const auto* found = static_cast<const T*>(extension_of(table, id, prefix));
  if (found == nullptr) return nullptr;
  if (found->struct_size < sizeof(T) || ((found->*functions == nullptr) || ...)) refuse_extension(id, prefix);
  return found;
}

// What plug-ins may take to finish their files, and to come back once somebody wants to stop.
inline constexpr base::Duration kFinishPatience = std::chrono::milliseconds(1500);

// How long a call may take, and who may cut that short.
struct Patience {
  base::Duration longest = std::chrono::seconds(30);
  // True: somebody wants to stop, and waits no longer than `when_asked`. May be empty. [setup]
  std::function<bool()> stop_asked{};
  base::Duration when_asked = kFinishPatience;
};

// Whether a thread that was left behind still runs foreign code in this process.
[[nodiscard]] bool plugin_threads_left_behind() noexcept;

namespace detail {
extern std::atomic<int> threads_left_behind;
}

// Work on a thread of its own. It holds all that it needs, because it may be left behind: then its result, or what it
// throws, is dropped when it comes back.
template <class Result>
class Aside {
  using Task = std::packaged_task<Result()>;

 public:
  explicit Aside(std::function<Result()> work) {
    auto task = std::make_shared<Task>(std::move(work));
    result_ = task->get_future();
    try {
      thread_ = std::thread([task, left = left_]() mutable {
        (*task)();
        task = nullptr;  // and all that the work held
        if (left->exchange(true)) --detail::threads_left_behind;
      });
    } catch (const std::system_error&) {  // no thread is to be had: without a bound
      (*task)();
    }
  }
  ~Aside() {
    if (!thread_.joinable()) return;
    // Counted before it is told: one that comes back in between counts down what is there.
    ++detail::threads_left_behind;
    if (left_->exchange(true)) --detail::threads_left_behind;
    thread_.detach();
  }
  Aside(Aside&&) noexcept = default;
  Aside& operator=(Aside&&) = delete;
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;

  // [blocks] until it is done, or nothing. Throws what the work threw.
  [[nodiscard]] std::optional<Result> wait_until(std::chrono::steady_clock::time_point until) {
    if (result_.wait_until(until) != std::future_status::ready) return std::nullopt;
    if (thread_.joinable()) thread_.join();
    return result_.get();
  }
  // The same with somebody who may want to stop.
  [[nodiscard]] std::optional<Result> wait_for(const Patience& patience) {
    using std::chrono::steady_clock;
    constexpr auto kLook = std::chrono::milliseconds(50);
    auto deadline = steady_clock::now() + patience.longest;
    bool asked = false;
    while (true) {
      const auto now = steady_clock::now();
      if (!asked && patience.stop_asked && patience.stop_asked()) {
        asked = true;
        deadline = std::min(deadline, now + patience.when_asked);
      }
      const auto next = patience.stop_asked && !asked ? std::min(deadline, now + kLook) : deadline;
      if (std::optional<Result> result = wait_until(next)) return result;
      if (next == deadline) return std::nullopt;
    }
  }

 private:
  // Whoever comes second, the thread's end or this object's, knows that the other one has been there.
  std::shared_ptr<std::atomic<bool>> left_ = std::make_shared<std::atomic<bool>>(false);
  std::future<Result> result_;
  std::thread thread_;
};

}  // namespace camd::pipeline
