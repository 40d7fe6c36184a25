#include "pipeline/run/limits.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "base/error.hpp"
#include "plugins/camd_plugin.h"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
constexpr Limits kEnough{1'000'000, 1'000'000, 1'000'000 * kMiB};

// Two cameras with pictures of 3 million bytes, in 3 slots each.
config::Config two_cameras() {
  config::Config config;
  config.model.path = "/nowhere/m.onnx";
  for (const char* name : {"a", "b"}) {
    config::TestSource source;
    source.width = source.height = 1000;
    config.cameras.push_back({.name = name, .source = source});
  }
  return config;
}

TEST(Limits, AreNamedWithTheNumbersWhereCamerasDoNotFit) {
  const config::Config config = two_cameras();
  EXPECT_EQ(limit_problem(config, kEnough), "");
  const Cost cost = cost_of(config);
  EXPECT_EQ(cost.descriptors, 64U);
  EXPECT_EQ(cost.threads, 32U + 2 * 2U);
  EXPECT_EQ(cost.memory_bytes, 16 * kMiB + 2 * (kMiB + 3 * 3'000'000U));
  EXPECT_EQ(limit_problem(config, {cost.descriptors, cost.threads, cost.memory_bytes}), "");
  EXPECT_EQ(limit_problem(config, {63, 1000, kEnough.memory_bytes}),
            "2 cameras need up to 64 file descriptors, this process may have 63: raise the limit (ulimit -n 64, or "
            "LimitNOFILE=64 in the systemd unit) or use fewer cameras");
  EXPECT_EQ(
      limit_problem(config, {1000, 35, kEnough.memory_bytes}),
      "2 cameras need up to 36 threads, this process may have 35: raise the limit (ulimit -u 36, or TasksMax=36 in "
      "the systemd unit) or use fewer cameras");
  EXPECT_EQ(
      limit_problem(config, {1000, 1000, 30 * kMiB}),
      "the model and the pictures of 2 cameras need at least 36 MiB of memory, this process may have 30: raise the "
      "limit (MemoryMax= in the systemd unit, ulimit -v), or use fewer cameras, smaller pictures or fewer "
      "pipeline.slots");
}

// Weights, and what each frame in flight takes, were not reckoned: camd was killed when it made them.
TEST(Limits, OfMemoryHoldTheEngineAndItsFramesInFlight) {
  const config::Config config = two_cameras();
  constexpr std::uint64_t kDetections = 512 * sizeof(camd_detection);
  const infer::EngineMemory engine{100 * kMiB, 20 * kMiB, 3 * kMiB};
  device::DeviceInfo host;
  host.works_in_host_memory = true;
  host.default_depth = 1;
  const LaneCost lane = lane_cost(engine, 2, host);
  EXPECT_EQ(lane.frames, 4U);
  EXPECT_EQ(lane.host_bytes, 180 * kMiB + 4 * kDetections);
  EXPECT_EQ(lane.device_bytes, 0U);
  const std::uint64_t all = cost_of(config).memory_bytes + lane.host_bytes;
  EXPECT_EQ(lane_problem(config, lane, {{0, 0, all}}), "");
  EXPECT_EQ(
      lane_problem(config, lane, {{0, 0, all - 1}}),
      "the model and the pictures of 2 cameras need at least 217 MiB of memory, 181 of it for 4 frames in flight; "
      "this process may have 216: raise the limit (MemoryMax= in the systemd unit, ulimit -v), or use fewer "
      "cameras, smaller pictures or fewer pipeline.slots");
  EXPECT_EQ(lane_problem(config, lane, {{0, 0, all + lane.host_bytes}, {}, lane}), "");
  EXPECT_EQ(
      lane_problem(config, lane, {{0, 0, all}, {}, lane}),
      "the model and the pictures of 2 cameras need at least 397 MiB of memory, 181 of it for 4 frames in flight and "
      "181 for what runs until the new configuration has taken over; this process may have 216: raise the limit "
      "(MemoryMax= in the systemd unit, ulimit -v), or use fewer cameras, smaller pictures or fewer "
      "pipeline.slots");
}

TEST(Limits, OfAGpuHoldBothEnginesOfAReloadAndPageLockedOutputs) {
  config::Config config = two_cameras();
  constexpr std::uint64_t kDetections = 512 * sizeof(camd_detection);
  device::DeviceInfo gpu;
  gpu.works_in_host_memory = false;
  gpu.default_depth = 2;
  const LaneCost lane = lane_cost({100 * kMiB, 20 * kMiB, 3 * kMiB}, 2, gpu);
  EXPECT_EQ(lane.frames, 5U);
  EXPECT_EQ(lane.host_bytes, 5 * (3 * kMiB + kDetections));
  EXPECT_EQ(lane.device_bytes, 200 * kMiB);
  EXPECT_EQ(lane_problem(config, lane, {kEnough, std::nullopt, {}}), "");
  EXPECT_EQ(lane_problem(config, lane, {kEnough, 200 * kMiB, {}}), "");
  EXPECT_EQ(
      lane_problem(config, lane, {kEnough, 200 * kMiB - 1, {}}),
      "the model and 5 frames in flight need at least 200 MiB of the GPU's memory, 199 are free: use fewer cameras "
      "or a smaller model");
  EXPECT_EQ(
      lane_problem(config, lane, {kEnough, 150 * kMiB, lane}),
      "the model and 5 frames in flight need at least 200 MiB of the GPU's memory, 150 are free beside the 200 that "
      "run until the new configuration has taken over: stop camd and start it with the new configuration");
  try {
    check_lane(config, lane, {kEnough, 0, {}});
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind(), base::ErrorKind::kDevice);
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
