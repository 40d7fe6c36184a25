#include "apps/camd/stdout_lines.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

namespace camd::app {
namespace CAMD_TEST_FILE {

constexpr int kPipeBytes = 16384;

// A pipe of four pages whose reader is this test.
class StdoutLinesTest : public ::testing::Test {
 protected:
  StdoutLinesTest() {
    if (pipe2(fds_, O_CLOEXEC) != 0) throw std::runtime_error("pipe failed");
    (void)fcntl(fds_[1], F_SETPIPE_SZ, kPipeBytes);
    (void)fcntl(fds_[0], F_SETFL, O_NONBLOCK);
  }
  ~StdoutLinesTest() override {
    close(fds_[0]);
    close(fds_[1]);
  }
  // What the reader has before it.
  std::string read_all() {
    std::string text;
    char buffer[4096];
    for (ssize_t got = 0; (got = read(fds_[0], buffer, sizeof(buffer))) > 0;) {
      text.append(buffer, static_cast<std::size_t>(got));
    }
    return text;
  }
  [[nodiscard]] int fd() const { return fds_[1]; }

 private:
  int fds_[2] = {-1, -1};
};

// After a reload the metrics had ended for good when stdout had been slow for a second at the stop before it.
TEST_F(StdoutLinesTest, AreWrittenAgainAfterAStopThatGaveUpOnASlowReader) {
  StdoutLines lines(fd());
  lines.write(std::string(kPipeBytes - 1, 'a'));  // the pipe is full
  lines.cancel();
  lines.write("given up");
  lines.write("given up without another second");
  lines.resume();
  EXPECT_EQ(read_all(), std::string(kPipeBytes - 1, 'a') + "\n");
  lines.write("after the reload");
  EXPECT_EQ(read_all(), "after the reload\n");
}

TEST_F(StdoutLinesTest, FinishesTheLineOfWhichAPartWasWrittenBeforeAnother) {
  StdoutLines lines(fd());
  lines.cancel();
  lines.write(std::string(kPipeBytes + 904, 'b'));
  EXPECT_EQ(read_all(), std::string(kPipeBytes, 'b'));
  lines.resume();
  lines.write("next");
  EXPECT_EQ(read_all(), std::string(904, 'b') + "\nnext\n");
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::app
