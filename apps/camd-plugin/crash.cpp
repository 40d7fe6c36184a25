// The handler does what a signal handler should not, dladdr() and backtrace(): the process is lost already, and camd
// ends it if it hangs here.
#include "apps/camd-plugin/crash.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace camd::worker {
namespace {

using pipeline::wire::Crash;
namespace wire = pipeline::wire;

constexpr std::size_t kStackBytes = 64 << 10;
std::atomic<Crash*> first_record{nullptr};
thread_local Crash* own_record = nullptr;

// "libx.so+0x12a4 (process)": what addr2line wants, and the nearest name.
void put_place(char (&to)[wire::kPlaceBytes], const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) {
    std::snprintf(to, sizeof(to), "%p", address);
    return;
  }
  const auto offset = reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  if (info.dli_sname != nullptr) {
    std::snprintf(to, sizeof(to), "%s+0x%zx (%s)", info.dli_fname, static_cast<std::size_t>(offset), info.dli_sname);
  } else {
    std::snprintf(to, sizeof(to), "%s+0x%zx", info.dli_fname, static_cast<std::size_t>(offset));
  }
}

bool is_ours(const void* address) {
  Dl_info info{}, own{};
  if (dladdr(address, &info) == 0) return false;
  (void)dladdr(reinterpret_cast<const void*>(&install_crash_handler), &own);
  const char* file = info.dli_fname == nullptr ? "" : info.dli_fname;
  // The C library's way to abort() is no news either.
  return info.dli_fbase == own.dli_fbase || std::strstr(file, "libc.so") != nullptr ||
         std::strstr(file, "libstdc++") != nullptr || std::strstr(file, "libgcc_s") != nullptr;
}

[[maybe_unused]] void on_signal(int signal, siginfo_t* info, void* context) {
  Crash* record = own_record != nullptr ? own_record : first_record.load();
  if (record != nullptr && record->signal.load() == 0) {
    record->address = reinterpret_cast<std::uintptr_t>(info->si_addr);
    std::array<void*, 64> frames{};
    int count = 0;
#if defined(__x86_64__)
    frames[static_cast<std::size_t>(count++)] = reinterpret_cast<void*>(  // NOLINT(performance-no-int-to-ptr)
        static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
    frames[static_cast<std::size_t>(count++)] = reinterpret_cast<void*>(  // NOLINT(performance-no-int-to-ptr)
        static_cast<const ucontext_t*>(context)->uc_mcontext.pc);
#else
    (void)context;
#endif
    count += backtrace(frames.data() + count, static_cast<int>(frames.size()) - count);
    std::size_t kept = 0;
    for (int i = 0; i < count && kept < 4; ++i) {
      const void* frame = frames[static_cast<std::size_t>(i)];
      if (is_ours(frame) || (i > 0 && frame == frames[0])) continue;
      put_place(record->places[kept++], frame);
    }
    record->count = static_cast<std::int32_t>(kept);
    record->signal = signal;
  }
  ::signal(signal, SIG_DFL);
  (void)raise(signal);
}

void give_stack() {
  void* memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  stack_t stack{};
  stack.ss_sp = memory;
  stack.ss_size = kStackBytes;
  (void)sigaltstack(&stack, nullptr);
}

}  // namespace

void install_crash_handler() {
#if !defined(CAMD_SANITIZED)  // they have handlers of their own
  std::array<void*, 2> warm{};
  (void)backtrace(warm.data(), static_cast<int>(warm.size()));  // loads what it needs now
  give_stack();
  struct sigaction action {};
  action.sa_sigaction = &on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS}) (void)sigaction(signal, &action, nullptr);
#endif
}

void set_crash_record(Crash* record) {
  own_record = record;
  Crash* none = nullptr;
  first_record.compare_exchange_strong(none, record);
  give_stack();
}

}  // namespace camd::worker
