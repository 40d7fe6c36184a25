// The first places of a crash that are neither this program's nor the C library's go into the record that camd reads.
#include "apps/camd-plugin/crash.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "base/crash.hpp"

namespace camd::worker {
namespace {

using pipeline::wire::Crash;
namespace wire = pipeline::wire;

constexpr std::size_t kTold = 4;  // places
static_assert(kTold <= wire::kMostPlaces);

std::atomic<Crash*> first_record{nullptr};
thread_local Crash* own_record = nullptr;

bool is_ours(const void* address) {
  Dl_info info{}, own{};
  if (dladdr(address, &info) == 0) return false;
  (void)dladdr(reinterpret_cast<const void*>(&install_crash_handler), &own);
  const char* file = info.dli_fname == nullptr ? "" : info.dli_fname;
  // The C library's way to abort() is no news either.
  return info.dli_fbase == own.dli_fbase || std::strstr(file, "libc.so") != nullptr ||
         std::strstr(file, "libstdc++") != nullptr || std::strstr(file, "libgcc_s") != nullptr;
}

void fill_record(const base::Crash& crash) noexcept {
  Crash* const record = own_record != nullptr ? own_record : first_record.load();
  if (record == nullptr || record->signal.load() != 0) return;
  record->address = reinterpret_cast<std::uintptr_t>(crash.address);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < crash.count && kept < kTold; ++i) {
    if (!is_ours(crash.frames[i])) base::put_place(record->places[kept++], crash.frames[i]);
  }
  record->count = static_cast<std::int32_t>(kept);
  record->signal = crash.signal;
}

}  // namespace

void install_crash_handler() { base::install_crash_handler(&fill_record); }

void set_crash_record(Crash* record) {
  own_record = record;
  Crash* none = nullptr;
  first_record.compare_exchange_strong(none, record);
  base::give_signal_stack();
}

}  // namespace camd::worker
