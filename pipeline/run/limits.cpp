#include "pipeline/run/limits.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <variant>

#include "base/error.hpp"

namespace camd::pipeline {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
// camd itself, its plug-ins' files and what libraries keep open.
constexpr Cost kWithoutCameras{64, 32};

// The processes and threads that the control group allows (cgroups(7), pids.max), where it says so.
std::uint64_t most_tasks_of_group() {
  std::ifstream file("/sys/fs/cgroup/pids.max");
  std::uint64_t most = 0;
  return file >> most ? most : kUnlimited;
}

std::uint64_t soft_limit(decltype(RLIMIT_NOFILE) resource) noexcept {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnlimited;
  return limit.rlim_cur;
}

}  // namespace

Cost cost_of(const config::Source& source) noexcept {
  if (std::holds_alternative<config::TestSource>(source)) return {0, 2};
  if (std::holds_alternative<config::FileSource>(source)) return {6, 12};
  if (std::holds_alternative<config::V4l2Source>(source)) return {10, 10};
  if (const auto* const rtsp = std::get_if<config::RtspSource>(&source)) {
    return rtsp->transport == config::RtspTransport::kTcp ? Cost{12, 16} : Cost{24, 20};
  }
  return {12, 16};
}

Cost cost_of(const config::Config& config) noexcept {
  Cost sum = kWithoutCameras;
  for (const config::Camera& camera : config.cameras) {
    const Cost one = cost_of(camera.source);
    sum.descriptors += one.descriptors;
    sum.threads += one.threads;
  }
  return sum;
}

Limits process_limits() {
  return {soft_limit(RLIMIT_NOFILE), std::min(soft_limit(RLIMIT_NPROC), most_tasks_of_group())};
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
  return {};
}

void check_limits(const config::Config& config) {
  raise_descriptor_limit();
  const std::string problem = limit_problem(config, process_limits());
  if (!problem.empty()) throw config.error(base::ErrorKind::kConfig, "cameras", problem);
}

}  // namespace camd::pipeline
