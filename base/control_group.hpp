// Limits of the control groups that this process is in (cgroups(7), version 2).
//
// Threads: functions of their arguments and of files of the kernel, [any].
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace camd::base {

// The smallest number in the files `name` of a control group and of those around it; nothing where none of them has a
// limit. `root` is where the groups are mounted, `own` the contents of /proc/self/cgroup.
[[nodiscard]] std::optional<std::uint64_t> limit_of_groups(const std::filesystem::path& root, std::string_view own,
                                                           std::string_view name);
// Of this process: "memory.max", "pids.max".
[[nodiscard]] std::optional<std::uint64_t> limit_of_own_groups(std::string_view name);

}  // namespace camd::base
