#include "base/control_group.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

namespace camd::base {

std::optional<std::uint64_t> limit_of_groups(const std::filesystem::path& root, std::string_view own,
                                             std::string_view name) {
  // Of version 2: "0::/system.slice/camd.service".
  constexpr std::string_view kUnified = "0::/";
  const std::size_t line = own.starts_with(kUnified) ? 0 : own.find("\n0::/");
  std::filesystem::path group = root;
  if (line != std::string_view::npos) {
    const std::string_view from = own.substr(own.find('/', line) + 1);
    group /= from.substr(0, from.find('\n'));
  }
  std::optional<std::uint64_t> least;
  for (;; group = group.parent_path()) {
    std::ifstream file(group / name);
    std::uint64_t most = 0;
    if (file >> most) least = std::min(least.value_or(most), most);  // "max" is no number
    if (group == root || !group.has_relative_path()) return least;
  }
}

std::optional<std::uint64_t> limit_of_own_groups(std::string_view name) {
  std::ifstream file("/proc/self/cgroup");
  const std::string own((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return limit_of_groups("/sys/fs/cgroup", own, name);
}

}  // namespace camd::base
