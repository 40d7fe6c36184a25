#include "base/log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"

namespace camd::base {
namespace CAMD_TEST_FILE {

// Puts the level back that other tests of the process expect.
class Log : public testing::Test {
 protected:
  ~Log() override { set_log_level("info"); }
};

TEST_F(Log, TakesEachOfItsFiveLevels) {
  set_log_level("error");
  EXPECT_EQ(log().level(), spdlog::level::err);
  set_log_level("warn");
  EXPECT_EQ(log().level(), spdlog::level::warn);
  set_log_level("info");
  EXPECT_EQ(log().level(), spdlog::level::info);
  set_log_level("debug");
  EXPECT_EQ(log().level(), spdlog::level::debug);
  set_log_level("trace");
  EXPECT_EQ(log().level(), spdlog::level::trace);
}

TEST_F(Log, RefusesAnotherWordAndSaysWhichAreAllowed) {
  set_log_level("warn");
  try {
    set_log_level("loud");
    FAIL() << "\"loud\" was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_STREQ(error.what(), "log level \"loud\": allowed are error, warn, info, debug, trace");
  }
  EXPECT_EQ(log().level(), spdlog::level::warn);
}

TEST_F(Log, IsOneLoggerForTheWholeProcess) { EXPECT_EQ(&log(), &log()); }

TEST_F(Log, WritesToStderrAndLeavesStdoutToMetrics) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  log().warn("camera {}: away", "door");
  log().flush();
  const std::string err = testing::internal::GetCapturedStderr();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_THAT(err, testing::HasSubstr("camera door: away"));
  EXPECT_THAT(err, testing::HasSubstr("warn"));
}

TEST_F(Log, LeavesOutWhatIsBelowItsLevel) {
  set_log_level("error");
  testing::internal::CaptureStderr();
  log().warn("not said");
  log().flush();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::base
