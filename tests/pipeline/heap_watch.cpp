#include "tests/pipeline/heap_watch.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// glibc's own functions under the names that it keeps for those who replace malloc().
extern "C" {
void* __libc_malloc(std::size_t size);                           // NOLINT(bugprone-reserved-identifier)
void* __libc_calloc(std::size_t count, std::size_t size);        // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void* memory, std::size_t size);            // NOLINT(bugprone-reserved-identifier)
void* __libc_memalign(std::size_t alignment, std::size_t size);  // NOLINT(bugprone-reserved-identifier)
}

namespace {

constexpr std::size_t kStacks = 8;
constexpr int kDepth = 24;

struct Stack {
  std::array<void*, kDepth> frames{};
  int depth = 0;
  std::array<char, 16> thread{};
};

std::atomic<bool> watching{false};
std::atomic<std::uint64_t> allocations{0};
std::atomic<std::uint64_t> of_driver{0};
std::array<Stack, kStacks> stacks;
thread_local bool inside = false;  // taking a stack may allocate

bool is_drivers(const void* caller) noexcept {
  Dl_info info{};
  return dladdr(caller, &info) != 0 && info.dli_fname != nullptr &&
         std::strstr(info.dli_fname, "/libcuda.so") != nullptr;
}

void count(const void* caller) noexcept {
  if (!watching.load(std::memory_order_relaxed) || inside) return;
  if (is_drivers(caller)) {
    ++of_driver;
    return;
  }
  const std::uint64_t number = allocations.fetch_add(1);
  if (number >= kStacks) return;
  inside = true;
  Stack& stack = stacks[number];
  stack.depth = backtrace(stack.frames.data(), kDepth);
  (void)pthread_getname_np(pthread_self(), stack.thread.data(), stack.thread.size());
  inside = false;
}

}  // namespace

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): the names in glibc's headers are reserved ones
extern "C" {
__attribute__((visibility("default"))) void* malloc(std::size_t size) {
  count(__builtin_return_address(0));
  return __libc_malloc(size);
}
__attribute__((visibility("default"))) void* calloc(std::size_t number, std::size_t size) {
  count(__builtin_return_address(0));
  return __libc_calloc(number, size);
}
__attribute__((visibility("default"))) void* realloc(void* memory, std::size_t size) {
  count(__builtin_return_address(0));
  return __libc_realloc(memory, size);
}
__attribute__((visibility("default"))) void* memalign(std::size_t alignment, std::size_t size) {
  count(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}
__attribute__((visibility("default"))) void* aligned_alloc(std::size_t alignment, std::size_t size) {
  count(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}
__attribute__((visibility("default"))) int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  count(__builtin_return_address(0));
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)

namespace camd::test {

void start_heap_watch() {
  std::array<void*, 4> first{};
  (void)backtrace(first.data(), 4);  // its first call loads the unwinder
  stacks = {};
  allocations = 0;
  of_driver = 0;
  watching = true;
}

HeapReport stop_heap_watch() {
  watching = false;
  HeapReport report;
  report.allocations = allocations;
  report.of_driver = of_driver;
  for (std::size_t i = 0; i < std::min<std::size_t>(kStacks, report.allocations); ++i) {
    report.where += std::string("on thread ") + stacks[i].thread.data() + ":\n";
    for (int d = 1; d < stacks[i].depth; ++d) {
      Dl_info info{};
      void* const address = stacks[i].frames[static_cast<std::size_t>(d)];
      if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) continue;
      std::array<char, 256> line{};
      std::snprintf(line.data(), line.size(), "  %.120s+0x%zx %.100s\n", info.dli_fname,
                    static_cast<std::size_t>(static_cast<char*>(address) - static_cast<char*>(info.dli_fbase)),
                    info.dli_sname == nullptr ? "" : info.dli_sname);
      report.where += line.data();
    }
  }
  return report;
}

}  // namespace camd::test
