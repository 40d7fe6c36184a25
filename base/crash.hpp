// What a process says when a signal ends it: which signal, and where. The process ends by the same signal as without
// this, so that core dumps and service managers see what they would have seen.
//
// Threads: install_crash_handler() once, before others; give_signal_stack() by each thread for itself; the reporter
// runs on the thread that crashed.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace camd::base {

struct Crash {
  int signal = 0;
  const void* address = nullptr;         // that could not be reached; null where a signal was sent by somebody
  std::array<const void*, 48> frames{};  // of code, from the inside out
  std::size_t count = 0;
};

// Called in the signal's handler: allocates nothing and takes no lock.
using CrashReporter = void (*)(const Crash& crash) noexcept;

// Does nothing in a build with sanitizers, which have handlers of their own.
void install_crash_handler(CrashReporter report);

// So that this thread's crash is reported also where its stack has overflowed. It stays until the process ends.
void give_signal_stack();

// "libx.so+0x12a4 (process)": what addr2line wants, and the nearest name; cut where there is no room.
void put_place(std::span<char> to, const void* address) noexcept;

// A CrashReporter: a line with the signal and the thread's name, and one for each frame.
void report_crash_to_stderr(const Crash& crash) noexcept;

}  // namespace camd::base
