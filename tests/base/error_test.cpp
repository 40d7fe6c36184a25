#include "base/error.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace camd::base {
namespace CAMD_TEST_FILE {

TEST(ExitCode, IsTwoForUsageConfigurationAndFiles) {
  EXPECT_EQ(exit_code(ErrorKind::kUsage), 2);
  EXPECT_EQ(exit_code(ErrorKind::kConfig), 2);
  EXPECT_EQ(exit_code(ErrorKind::kIo), 2);
}

TEST(ExitCode, IsThreeForDeviceModelAndPlugin) {
  EXPECT_EQ(exit_code(ErrorKind::kDevice), 3);
  EXPECT_EQ(exit_code(ErrorKind::kModel), 3);
  EXPECT_EQ(exit_code(ErrorKind::kPlugin), 3);
}

TEST(ExitCode, IsFourForSourcesAndFiveForALostDevice) {
  EXPECT_EQ(exit_code(ErrorKind::kSource), 4);
  EXPECT_EQ(exit_code(ErrorKind::kDeviceLost), 5);
}

TEST(ExitCode, IsSeventyForOurOwnMistakes) {
  EXPECT_EQ(exit_code(ErrorKind::kState), 70);
  EXPECT_EQ(exit_code(ErrorKind::kInternal), 70);
}

TEST(ExitCode, IsSeventyForAValueThatIsNoKind) { EXPECT_EQ(exit_code(static_cast<ErrorKind>(1000)), 70); }

TEST(Error, CarriesItsKindAndItsLine) {
  const Error error(ErrorKind::kModel, "a.onnx: is empty");
  EXPECT_EQ(error.kind(), ErrorKind::kModel);
  EXPECT_STREQ(error.what(), "a.onnx: is empty");
}

TEST(Error, IsCaughtAsARuntimeError) { EXPECT_THROW(throw Error(ErrorKind::kConfig, "x"), std::runtime_error); }

// An ARM's char has no sign: bytes above 127 are greater than a blank there.
TEST(OneLine, HasBlanksForWhatIsNotPrintableWithAndWithoutASignOfChar) {
  EXPECT_EQ(one_line(" all of it\nin two lines \xC3\xBC\x7F"), "all of it in two lines");
  EXPECT_EQ(one_line("\x01\x80\xFF"), "");
}

TEST(Status, IsSuccessUntilToldOtherwise) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_TRUE(static_cast<bool>(status));
  EXPECT_EQ(status.message(), "");
}

TEST(Status, CarriesKindAndMessageOfAFailure) {
  const Status status(ErrorKind::kDeviceLost, "the GPU has fallen off the bus");
  EXPECT_FALSE(status.ok());
  EXPECT_FALSE(static_cast<bool>(status));
  EXPECT_EQ(status.kind(), ErrorKind::kDeviceLost);
  EXPECT_EQ(status.message(), "the GPU has fallen off the bus");
}

TEST(Status, KeepsWhatItSaysWhenCopiedAndMoved) {
  const Status first(ErrorKind::kPlugin, "no");
  Status copy = first;
  const Status moved = std::move(copy);
  EXPECT_EQ(first.message(), "no");
  EXPECT_EQ(moved.kind(), ErrorKind::kPlugin);
  EXPECT_EQ(moved.message(), "no");
  Status assigned;
  assigned = first;
  EXPECT_EQ(assigned.message(), "no");
  EXPECT_EQ(first.message(), "no");
  assigned = Status();
  EXPECT_TRUE(assigned.ok());
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::base
