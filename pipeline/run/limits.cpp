#include "pipeline/run/limits.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <variant>

#include "base/control_group.hpp"
#include "base/error.hpp"
#include "base/picture.hpp"
#include "pipeline/core/lane.hpp"
#include "plugins/camd_plugin.h"

namespace camd::pipeline {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
// What is needed, rounded up; what there is, is rounded down.
constexpr std::uint64_t mebibytes(std::uint64_t bytes) noexcept { return (bytes + kMiB - 1) / kMiB; }
// camd itself, its plug-ins' files and what libraries keep open.
constexpr Cost kWithoutCameras{64, 32, 16 * kMiB};
// A plug-in in a process of its own: camd's descriptors, its threads and those of the process, what that takes at
// least.
constexpr Cost kWorker{10, 4, 8 * kMiB};

std::uint64_t of_groups(std::string_view name) { return base::limit_of_own_groups(name).value_or(kUnlimited); }

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
  bool shares_pictures = false;  // each slot may be a file that a plug-in's process maps
  for (const config::Postprocessor& entry : config.postprocess) {
    if (entry.isolation != config::Isolation::kProcess) continue;
    shares_pictures = true;
    sum.descriptors += kWorker.descriptors;
    sum.threads += kWorker.threads;
    sum.memory_bytes += kWorker.memory_bytes;
  }
  for (const config::Camera& camera : config.cameras) {
    const Cost one = cost_of(camera.source);
    sum.descriptors += one.descriptors + (shares_pictures ? static_cast<std::uint64_t>(config.pipeline.slots) : 0);
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
        config.cameras.size(), mebibytes(cost.memory_bytes), limits.memory_bytes / kMiB);
  }
  return {};
}

void check_limits(const config::Config& config) {
  raise_descriptor_limit();
  const std::string problem = limit_problem(config, process_limits());
  if (!problem.empty()) throw config.error(base::ErrorKind::kConfig, "cameras", problem);
}

infer::EngineMemory engine_memory(const config::Model& model, const infer::ModelReport& report,
                                  const device::DeviceInfo& device) {
  const std::string_view wanted = device.works_in_host_memory ? "cpu" : "cuda";
  if (model.engine == config::EngineChoice::kOpencv) return {};
  for (const infer::EngineReport& engine : report.engines) {
    if (engine.engine == wanted && engine.runs) return engine.memory;
  }
  return {};
}

LaneCost lane_cost(const infer::EngineMemory& engine, std::size_t cameras, const device::DeviceInfo& device) noexcept {
  constexpr std::uint64_t kDetections = CAMD_DEFAULT_DETECTIONS * sizeof(camd_detection);
  LaneCost cost;
  cost.frames = static_cast<std::uint64_t>(frames_in_flight(static_cast<int>(cameras), device.default_depth));
  const std::uint64_t computed = engine.weight_bytes + cost.frames * engine.frame_bytes;
  cost.host_bytes = cost.frames * kDetections;
  if (device.works_in_host_memory) {
    cost.host_bytes += computed;
  } else {
    cost.host_bytes += cost.frames * engine.output_bytes;
    cost.device_bytes = computed;
  }
  return cost;
}

namespace {

std::string on_host(const config::Config& config, const LaneCost& lane, const Room& room) {
  const std::uint64_t all = cost_of(config).memory_bytes + lane.host_bytes + room.beside.host_bytes;
  if (all <= room.limits.memory_bytes) return {};
  return fmt::format(
      "the model and the pictures of {} cameras need at least {} MiB of memory, {} of it for {} frames in flight{}; "
      "this "
      "process may have {}: raise the limit (MemoryMax= in the systemd unit, ulimit -v), or use fewer cameras, smaller "
      "pictures or fewer pipeline.slots",
      config.cameras.size(), mebibytes(all), mebibytes(lane.host_bytes), lane.frames,
      room.beside.host_bytes == 0 ? std::string()
                                  : fmt::format(" and {} for what runs until the new configuration has taken over",
                                                mebibytes(room.beside.host_bytes)),
      room.limits.memory_bytes / kMiB);
}

std::string on_device(const LaneCost& lane, const Room& room) {
  if (!room.free_device_bytes || lane.device_bytes <= *room.free_device_bytes) return {};
  return fmt::format(
      "the model and {} frames in flight need at least {} MiB of the GPU's memory, {} are free{}", lane.frames,
      mebibytes(lane.device_bytes), *room.free_device_bytes / kMiB,
      room.beside.device_bytes == 0
          ? ": use fewer cameras or a smaller model"
          : fmt::format(" beside the {} that run until the new configuration has taken over: stop camd and "
                        "start it with the new configuration",
                        mebibytes(room.beside.device_bytes)));
}

}  // namespace

std::string lane_problem(const config::Config& config, const LaneCost& lane, const Room& room) {
  const std::string problem = on_host(config, lane, room);
  return problem.empty() ? on_device(lane, room) : problem;
}

void check_lane(const config::Config& config, const LaneCost& lane, const Room& room) {
  if (const std::string host = on_host(config, lane, room); !host.empty()) {
    throw config.error(base::ErrorKind::kConfig, "cameras", host);
  }
  if (const std::string device = on_device(lane, room); !device.empty()) {
    throw config.error(base::ErrorKind::kDevice, "model.path", device);
  }
}

}  // namespace camd::pipeline
