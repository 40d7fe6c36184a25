#include "config/suggest.hpp"

#include <gtest/gtest.h>

#include <array>

namespace camd::config {
namespace CAMD_TEST_FILE {

TEST(Suggest, CountsInsertionDeletionSubstitutionAndSwapAsOneEdit) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("slots", "slot"), 1U);
  EXPECT_EQ(edit_distance("slot", "slots"), 1U);
  EXPECT_EQ(edit_distance("model", "modal"), 1U);
  EXPECT_EQ(edit_distance("device", "devcie"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

TEST(Suggest, TakesTheNearestWordAndNoneThatIsFar) {
  constexpr std::array<std::string_view, 4> kWords = {"path", "card", "engine", "max_age"};
  EXPECT_EQ(nearest("pth", kWords), "path");
  EXPECT_EQ(nearest("Max-Age", kWords), "max_age");
  EXPECT_EQ(nearest("enigne", kWords), "engine");
  EXPECT_EQ(nearest("colour", kWords), "");
  EXPECT_EQ(nearest("", kWords), "");
  EXPECT_EQ(nearest(std::string(1000, 'p'), kWords), "");
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::config
