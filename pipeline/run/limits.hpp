// What cameras cost a process, and whether its limits allow it: descriptors, threads and memory.
//
// GLib aborts the process when it cannot open a descriptor, start a thread or allocate memory, so what cannot fit is
// refused before. Descriptors and threads are reckoned with the most that there may be, memory with the least that is
// certain: pictures whose size is configured, the model's file, what libraries need. How large other pictures are only
// the camera knows.
// Threads: functions of their arguments and of the process's limits, [any].
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "config/config.hpp"

namespace camd::pipeline {

struct Cost {
  std::uint64_t descriptors = 0;
  std::uint64_t threads = 0;
  std::uint64_t memory_bytes = 0;  // the least, without pictures
};

// Most that one camera of the kind takes, attempts to reconnect included (docs/configuration.md has the measurement).
[[nodiscard]] Cost cost_of(const config::Source& source) noexcept;
// Of a whole configuration, with what camd takes without cameras.
[[nodiscard]] Cost cost_of(const config::Config& config);

struct Limits {
  std::uint64_t descriptors = 0;
  std::uint64_t threads = 0;       // that this process may have
  std::uint64_t memory_bytes = 0;  // that it may have, with what it has
};
[[nodiscard]] Limits process_limits();

// The smallest number in the files `name` of a control group and of those around it (cgroups(7)); nothing where none of
// them has a limit. `root` is where the groups are mounted, `own` the contents of /proc/self/cgroup.
[[nodiscard]] std::optional<std::uint64_t> limit_of_groups(const std::filesystem::path& root, std::string_view own,
                                                           std::string_view name);

// Lifts the soft limit of descriptors to the hard one.
void raise_descriptor_limit() noexcept;

// What is wrong, with the numbers; empty when it fits.
[[nodiscard]] std::string limit_problem(const config::Config& config, const Limits& limits);
// Throws Error(kConfig) with that, for this process after raise_descriptor_limit().
void check_limits(const config::Config& config);

}  // namespace camd::pipeline
