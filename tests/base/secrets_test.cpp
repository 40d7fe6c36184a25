#include "base/secrets.hpp"

#include <gtest/gtest.h>

#include "base/clock.hpp"
#include "base/log.hpp"

namespace camd::base {
namespace CAMD_TEST_FILE {

TEST(Secrets, AreTakenOutOfEveryTextTheLongestFirst) {
  hide_secret("correct horse");
  hide_secret("correct horse battery");
  hide_secret("correct horse");
  EXPECT_EQ(without_secrets("a correct horse battery, correct horse; correct"), "a ***, ***; correct");
  EXPECT_EQ(without_secrets(""), "");
}

TEST(Secrets, OfLessThanFourBytesAreNotHiddenAsTheyStandInManyLines) {
  hide_secret("abc");
  hide_secret("");
  EXPECT_EQ(without_secrets("abc"), "abc");
}

TEST(Secrets, AreNotLogged) {
  hide_secret("hunter22");
  testing::internal::CaptureStderr();
  log().error("refused: hunter22");
  tell_error("it was hunter22");
  EXPECT_TRUE(flush_log(std::chrono::seconds(10)));
  const std::string written = testing::internal::GetCapturedStderr();
  EXPECT_EQ(written.find("hunter22"), std::string::npos) << written;
  EXPECT_NE(written.find("refused: ***"), std::string::npos) << written;
  EXPECT_NE(written.find("it was ***"), std::string::npos) << written;
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::base
