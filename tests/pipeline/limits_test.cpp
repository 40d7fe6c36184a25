#include "pipeline/run/limits.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace camd::pipeline {
namespace {

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

// The limits of a systemd unit stand in its own group, and only that of the root was read.
TEST(Limits, OfControlGroupsAreTheSmallestOfTheOwnAndThoseAroundIt) {
  const auto root = std::filesystem::temp_directory_path() / ("camd_groups_" + std::to_string(::getpid()));
  const auto write = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories((root / name).parent_path());
    std::ofstream(root / name) << text << '\n';
  };
  const std::string own = "1:name=systemd:/x\n0::/system.slice/camd.service\n";
  std::filesystem::create_directories(root);
  EXPECT_EQ(limit_of_groups(root, own, "memory.max"), std::nullopt);
  write("system.slice/camd.service/memory.max", "max");
  EXPECT_EQ(limit_of_groups(root, own, "memory.max"), std::nullopt);
  write("system.slice/memory.max", "5000");
  EXPECT_EQ(limit_of_groups(root, own, "memory.max"), 5000U);
  write("system.slice/camd.service/memory.max", "4000");
  EXPECT_EQ(limit_of_groups(root, own, "memory.max"), 4000U);
  write("memory.max", "3000");
  EXPECT_EQ(limit_of_groups(root, own, "memory.max"), 3000U);
  EXPECT_EQ(limit_of_groups(root, "0::/\n", "memory.max"), 3000U);
  EXPECT_EQ(limit_of_groups(root, "", "memory.max"), 3000U);
  EXPECT_EQ(limit_of_groups(root, own, "pids.max"), std::nullopt);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace camd::pipeline
