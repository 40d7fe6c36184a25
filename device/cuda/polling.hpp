// How a thread waits for a GPU: it looks again and again, and this is what it does between two looks. Private to
// device/cuda.
//
// Threads: used by one.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "device/device.hpp"

namespace camd::device {

class Polling {
 public:
  // For `spin` it keeps the CPU.
  explicit Polling(Duration spin) noexcept : spin_(spin) {}

  // [blocks] for a moment. Returns how long it has waited in all.
  Duration pause() {
    const Duration waited = Clock::now() - begin_;
    if (waited < spin_) {
      relax();
    } else {
      // Long waits: a thirty-second of the time waited so far is added at most, and the CPU is left alone.
      const auto nap = std::clamp<Duration>(waited / 32, std::chrono::microseconds(10), std::chrono::microseconds(200));
      std::this_thread::sleep_for(nap);
    }
    return waited;
  }

 private:
  using Clock = std::chrono::steady_clock;

  static void relax() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb");  // `yield` does nothing on most processors
#else
    std::this_thread::yield();
#endif
  }

  const Duration spin_;
  const Clock::time_point begin_ = Clock::now();
};

}  // namespace camd::device
