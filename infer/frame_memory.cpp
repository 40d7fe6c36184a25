#include "infer/frame_memory.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/control_group.hpp"

namespace camd::infer {
namespace {

// The smaller of the machine's memory and what the control groups may take.
std::uint64_t machine_memory() {
  const std::uint64_t bytes =
      static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return std::min(bytes, base::limit_of_own_groups("memory.max").value_or(bytes));
}

}  // namespace

void check_frame_memory(const std::string& path, std::uint64_t tensors, std::uint64_t between) {
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
  const std::uint64_t most = std::clamp(machine_memory() / 32, 512 * kMiB, 1024 * kMiB);
  if (tensors + between <= most) return;
  throw ModelTooLarge(fmt::format(
      "{}: each frame in flight would take {} MiB ({} for the input and the outputs, {} between them); at most {} MiB "
      "can be had, a thirty-second of the machine's memory within 512 and 1024 MiB",
      path, (tensors + between) / kMiB, tensors / kMiB, between / kMiB, most / kMiB));
}

}  // namespace camd::infer
