#include "base/control_group.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace camd::base {
namespace CAMD_TEST_FILE {

// The limits of a systemd unit stand in its own group, and only that of the root was read.
TEST(ControlGroup, ItsLimitIsTheSmallestOfItsOwnAndThoseAroundIt) {
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

}  // namespace CAMD_TEST_FILE
}  // namespace camd::base
