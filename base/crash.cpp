// The handler does what a signal handler should not, dladdr() and backtrace(): the process is lost already.
#include "base/crash.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace camd::base {
namespace {

constexpr std::size_t kStackBytes = 64 << 10;
constexpr std::size_t kLine = 320;
std::atomic<CrashReporter> reporter{nullptr};
std::atomic<bool> told{false};

// Where the thread was when the signal came.
[[maybe_unused]] const void* interrupted_at([[maybe_unused]] const void* context) noexcept {
#if defined(__x86_64__)
  return reinterpret_cast<const void*>(  // NOLINT(performance-no-int-to-ptr)
      static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return reinterpret_cast<const void*>(  // NOLINT(performance-no-int-to-ptr)
      static_cast<const ucontext_t*>(context)->uc_mcontext.pc);
#else
  return nullptr;
#endif
}

[[maybe_unused]] void on_signal(int signal, siginfo_t* info, void* context) {
  // Others that crash meanwhile end with this one.
  if (!told.exchange(true)) {
    Crash crash;
    crash.signal = signal;
    if (info->si_code > 0) crash.address = info->si_addr;
    std::array<void*, 48> walked{};
    const int count = backtrace(walked.data(), static_cast<int>(walked.size()));
    const void* const innermost = interrupted_at(context);
    // In front of the place itself are this handler and what called it.
    const auto end = walked.begin() + std::max(count, 0);
    const auto found = std::find(walked.begin(), end, innermost);
    if (innermost != nullptr && found == end) crash.frames[crash.count++] = innermost;
    for (auto frame = found == end ? walked.begin() : found; frame != end && crash.count < crash.frames.size();
         ++frame) {
      crash.frames[crash.count++] = *frame;
    }
    if (const CrashReporter report = reporter.load(); report != nullptr) report(crash);
  }
  ::signal(signal, SIG_DFL);
  (void)raise(signal);
}

void tell(const char* line) noexcept { (void)!write(STDERR_FILENO, line, std::strlen(line)); }

}  // namespace

void install_crash_handler([[maybe_unused]] CrashReporter report) {
#if !defined(CAMD_SANITIZED)
  std::array<void*, 2> warm{};
  (void)backtrace(warm.data(), static_cast<int>(warm.size()));  // loads what it needs now
  give_signal_stack();
  reporter = report;
  struct sigaction action {};
  action.sa_sigaction = &on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS}) (void)sigaction(signal, &action, nullptr);
#endif
}

void give_signal_stack() {
  void* memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  stack_t stack{};
  stack.ss_sp = memory;
  stack.ss_size = kStackBytes;
  (void)sigaltstack(&stack, nullptr);
}

void put_place(std::span<char> to, const void* address) noexcept {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) {
    std::snprintf(to.data(), to.size(), "%p", address);
    return;
  }
  const auto offset = reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  if (info.dli_sname != nullptr) {
    std::snprintf(to.data(), to.size(), "%s+0x%zx (%s)", info.dli_fname, static_cast<std::size_t>(offset),
                  info.dli_sname);
  } else {
    std::snprintf(to.data(), to.size(), "%s+0x%zx", info.dli_fname, static_cast<std::size_t>(offset));
  }
}

void report_crash_to_stderr(const Crash& crash) noexcept {
  std::array<char, 16> thread{};
  (void)pthread_getname_np(pthread_self(), thread.data(), thread.size());
  std::array<char, kLine> line{};
  const char* const name = sigabbrev_np(crash.signal);
  std::snprintf(line.data(), line.size(), "killed by signal %d (SIG%s) in thread '%s'", crash.signal,
                name == nullptr ? "?" : name, thread.data());
  tell(line.data());
  if (crash.address != nullptr) {
    std::snprintf(line.data(), line.size(), ", which wanted address %p", crash.address);
    tell(line.data());
  }
  tell("; where, from the inside out:\n");
  for (std::size_t i = 0; i < crash.count; ++i) {
    put_place(line, crash.frames[i]);
    tell("  ");
    tell(line.data());
    tell("\n");
  }
}

}  // namespace camd::base
