// The cameras of a shard.
#include "config/shard.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "tests/config/helpers.hpp"

namespace camd::config {
namespace CAMD_TEST_FILE {

std::string name(int i) { return "camera-" + std::to_string(i); }

TEST(Shard, IsWrittenAsItsNumberAndHowManyThereAre) {
  ASSERT_TRUE(parse_shard("0/3"));
  EXPECT_EQ(parse_shard("2/3")->index, 2);
  EXPECT_EQ(parse_shard("2/3")->count, 3);
  for (const char* wrong : {"", "/", "1", "3/3", "-1/3", "0/0", "0/5000", "1/3x", " 1/3", "1/", "/3", "a/b"}) {
    EXPECT_FALSE(parse_shard(wrong)) << wrong;
  }
}

// A fleet is restarted one by one, with newer versions too: what these names give must never change.
TEST(Shard, OfANameIsTheSameForEver) {
  std::vector<int> shards;
  shards.reserve(8);
  for (int i = 0; i < 8; ++i) shards.push_back(shard_of(name(i), 3));
  EXPECT_THAT(shards, ::testing::ElementsAre(0, 2, 0, 1, 0, 2, 0, 1));
}

TEST(Shard, HasItsShareOfManyCameras) {
  std::map<int, int> counts;
  for (int i = 0; i < 3000; ++i) ++counts[shard_of(name(i), 3)];
  ASSERT_EQ(counts.size(), 3U);
  for (const auto& [shard, count] : counts) EXPECT_NEAR(count, 1000, 100) << shard;
}

TEST(Shard, KeepsACameraOrGivesItToTheNewShardWhenOneMoreComes) {
  int moved = 0;
  for (int i = 0; i < 1000; ++i) {
    const int before = shard_of(name(i), 4), after = shard_of(name(i), 5);
    if (before == after) continue;
    EXPECT_EQ(after, 4);
    ++moved;
  }
  EXPECT_NEAR(moved, 200, 50);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::config
