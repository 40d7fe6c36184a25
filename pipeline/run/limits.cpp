#include "pipeline/run/limits.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <variant>

#include "base/error.hpp"
#include "base/picture.hpp"

namespace camd::pipeline {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
// camd itself, its plug-ins' files and what libraries keep open.
constexpr Cost kWithoutCameras{64, 32, 16 * kMiB};

std::uint64_t of_groups(std::string_view name) {
  std::ifstream file("/proc/self/cgroup");
  const std::string own((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return limit_of_groups("/sys/fs/cgroup", own, name).value_or(kUnlimited);
}

// The number behind `name` in a file of lines "NAME: N kB", in bytes.
std::optional<std::uint64_t> kilobytes_in(const char* path, std::string_view name) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    std::uint64_t number = 0;
    if (word == name && file >> number) return number * 1024;
  }
  return std::nullopt;
}

// What the machine can give, with what this process has: a reload gives back what it takes.
std::uint64_t memory_of_machine() {
  const auto available = kilobytes_in("/proc/meminfo", "MemAvailable:");
  return available ? *available + kilobytes_in("/proc/self/status", "VmRSS:").value_or(0) : kUnlimited;
}

// Bytes of a picture whose size is configured; 0: only the camera knows.
std::uint64_t picture_bytes(const config::Source& source) {
  if (const auto* const test = std::get_if<config::TestSource>(&source)) {
    return base::tight_layout(test->format, test->width, test->height).size_bytes;
  }
  if (const auto* const v4l2 = std::get_if<config::V4l2Source>(&source)) {  // no format is smaller
    return base::tight_layout(base::PixelFormat::kGray8, v4l2->width, v4l2->height).size_bytes;
  }
  return 0;
}

std::uint64_t soft_limit(decltype(RLIMIT_NOFILE) resource) noexcept {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnlimited;
  return limit.rlim_cur;
}

}  // namespace

Cost cost_of(const config::Source& source) noexcept {
  if (std::holds_alternative<config::TestSource>(source)) return {0, 2, 1 * kMiB};
  if (std::holds_alternative<config::FileSource>(source)) return {6, 12, 8 * kMiB};
  if (std::holds_alternative<config::V4l2Source>(source)) return {10, 10, 4 * kMiB};
  if (const auto* const rtsp = std::get_if<config::RtspSource>(&source)) {
    return rtsp->transport == config::RtspTransport::kTcp ? Cost{12, 16, 8 * kMiB} : Cost{24, 20, 8 * kMiB};
  }
  return {12, 16, 4 * kMiB};
}

Cost cost_of(const config::Config& config) {
  Cost sum = kWithoutCameras;
  for (const config::Camera& camera : config.cameras) {
    const Cost one = cost_of(camera.source);
    sum.descriptors += one.descriptors;
    sum.threads += one.threads;
    sum.memory_bytes +=
        one.memory_bytes + static_cast<std::uint64_t>(config.pipeline.slots) * picture_bytes(camera.source);
  }
  std::error_code missing;  // is told where the file is read
  const std::uintmax_t model = std::filesystem::file_size(config.model.path, missing);
  if (!missing) sum.memory_bytes += model;
  return sum;
}

Limits process_limits() {
  return {soft_limit(RLIMIT_NOFILE), std::min(soft_limit(RLIMIT_NPROC), of_groups("pids.max")),
          std::min({soft_limit(RLIMIT_AS), of_groups("memory.max"), memory_of_machine()})};
}

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

void raise_descriptor_limit() noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

std::string limit_problem(const config::Config& config, const Limits& limits) {
  const Cost cost = cost_of(config);
  if (cost.descriptors > limits.descriptors) {
    return fmt::format(
        "{} cameras need up to {} file descriptors, this process may have {}: raise the limit (ulimit -n {}, or "
        "LimitNOFILE={} in the systemd unit) or use fewer cameras",
        config.cameras.size(), cost.descriptors, limits.descriptors, cost.descriptors, cost.descriptors);
  }
  if (cost.threads > limits.threads) {
    return fmt::format(
        "{} cameras need up to {} threads, this process may have {}: raise the limit (ulimit -u {}, or TasksMax={} in "
        "the systemd unit) or use fewer cameras",
        config.cameras.size(), cost.threads, limits.threads, cost.threads, cost.threads);
  }
  if (cost.memory_bytes > limits.memory_bytes) {
    return fmt::format(
        "the model and the pictures of {} cameras need at least {} MiB of memory, this process may have {}: raise the "
        "limit (MemoryMax= in the systemd unit, ulimit -v), or use fewer cameras, smaller pictures or fewer "
        "pipeline.slots",
        config.cameras.size(), (cost.memory_bytes + kMiB - 1) / kMiB, limits.memory_bytes / kMiB);
  }
  return {};
}

void check_limits(const config::Config& config) {
  raise_descriptor_limit();
  const std::string problem = limit_problem(config, process_limits());
  if (!problem.empty()) throw config.error(base::ErrorKind::kConfig, "cameras", problem);
}

}  // namespace camd::pipeline
