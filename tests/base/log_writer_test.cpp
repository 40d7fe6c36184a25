#include "base/log_writer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <string>

namespace camd::base {
namespace CAMD_TEST_FILE {

using namespace std::chrono_literals;

std::string lines(LogStyle style, LogLevel level, std::string_view text) {
  std::string out;
  append_log_lines(out, style, level, std::chrono::system_clock::time_point(1'700'000'000'042ms), text);
  return out;
}

class Pipe {
 public:
  Pipe() {
    if (pipe2(fds_.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe failed");
  }
  ~Pipe() {
    close(fds_[0]);
    close(fds_[1]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  [[nodiscard]] int in() const noexcept { return fds_[1]; }
  // [blocks] The next line, with its end.
  [[nodiscard]] std::string line() {
    for (;;) {
      const std::size_t end = buffer_.find('\n');
      if (end != std::string::npos) {
        std::string found = buffer_.substr(0, end + 1);
        buffer_.erase(0, end + 1);
        return found;
      }
      std::array<char, 4096> more{};
      const ssize_t got = read(fds_[0], more.data(), more.size());
      if (got <= 0) throw std::runtime_error("the pipe ended");
      buffer_.append(more.data(), static_cast<std::size_t>(got));
    }
  }

 private:
  std::array<int, 2> fds_{-1, -1};
  std::string buffer_;
};

TEST(LogLines, BeginWithDateAndLevel) {
  EXPECT_EQ(lines(LogStyle::kPlain, LogLevel::kWarning, "camera door: away"),
            "2023-11-14T22:13:20.042Z warning camera door: away\n");
  EXPECT_EQ(lines(LogStyle::kPlain, LogLevel::kError, ""), "2023-11-14T22:13:20.042Z error \n");
}

TEST(LogLines, CarryThePrioritiesThatTheJournalReads) {
  EXPECT_EQ(lines(LogStyle::kJournal, LogLevel::kError, "x"), "<3>x\n");
  EXPECT_EQ(lines(LogStyle::kJournal, LogLevel::kWarning, "x"), "<4>x\n");
  EXPECT_EQ(lines(LogStyle::kJournal, LogLevel::kInfo, "x"), "<6>x\n");
  EXPECT_EQ(lines(LogStyle::kJournal, LogLevel::kDebug, "x"), "<7>x\n");
  EXPECT_EQ(lines(LogStyle::kJournal, LogLevel::kTrace, "x"), "<7>x\n");
}

TEST(LogLines, HaveABeginningEachSoThatNoTextPassesForALineOfItsOwn) {
  EXPECT_EQ(lines(LogStyle::kJournal, LogLevel::kInfo, "a\n<0>b\n\n"), "<6>a\n<6><0>b\n");
}

TEST(LogLines, AreTextWhateverTheyAreMadeOf) {
  EXPECT_EQ(lines(LogStyle::kJournal, LogLevel::kInfo, "T\xC3\xBCr\t\x1B[31m\x7F \xC2\x9B \xFF \xE2\x82"),
            "<6>T\xC3\xBCr\t?[31m? ? ? ??\n");
}

TEST(LogStyles, FollowWhatTheDescriptorIs) {
  const Pipe pipe;
  struct stat file {};
  ASSERT_EQ(fstat(pipe.in(), &file), 0);
  const auto style = [&](const std::string& journal_stream) { return log_style_of(pipe.in(), journal_stream.c_str()); };
  EXPECT_EQ(log_style_of(pipe.in(), nullptr), LogStyle::kPlain);
  EXPECT_EQ(style(fmt::format("{}:{}", file.st_dev, file.st_ino)), LogStyle::kJournal);
  EXPECT_EQ(style(fmt::format("{}:{}", file.st_dev, file.st_ino + 1)), LogStyle::kPlain);
  EXPECT_EQ(style(fmt::format("{}:{}x", file.st_dev, file.st_ino)), LogStyle::kPlain);
  for (const char* broken : {"", ":", "7", "7:", "x:y"}) EXPECT_EQ(style(broken), LogStyle::kPlain) << broken;
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_GE(terminal, 0);
  EXPECT_EQ(log_style_of(terminal, nullptr), LogStyle::kTerminal);
  close(terminal);
}

TEST(LogWriter, WritesLinesInTheOrderInWhichTheyCame) {
  Pipe pipe;
  LogWriter writer(pipe.in(), LogStyle::kPlain);
  for (int i = 0; i < 100; ++i) writer.write(fmt::format("{}\n", i));
  EXPECT_TRUE(writer.flush(20s));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(pipe.line(), fmt::format("{}\n", i));
  EXPECT_EQ(writer.lost(), 0U);
}

// Whoever logged waited for the reader.
TEST(LogWriter, CountsTheLinesThatNobodyReadsAndTellsOfThemWhenSomebodyDoes) {
  Pipe pipe;
  LogWriter writer(pipe.in(), LogStyle::kJournal);
  const std::string text(1022, 'x');
  int written = 0;
  while (writer.lost() == 0) writer.write(fmt::format("{}{}\n", text, written++ % 10));
  writer.write("lost\n");
  writer.write("lost\nlost\n");
  ASSERT_EQ(writer.lost(), 4U);
  EXPECT_FALSE(writer.flush(0s));
  for (int i = 0; i < written - 1; ++i) ASSERT_EQ(pipe.line(), fmt::format("{}{}\n", text, i % 10));
  EXPECT_EQ(pipe.line(), "<4>4 lines of the log were lost: nobody read them\n");
  EXPECT_TRUE(writer.flush(20s));
  writer.write("heard\n");
  EXPECT_EQ(pipe.line(), "heard\n");
  EXPECT_EQ(writer.lost(), 4U);
}

TEST(LogWriter, GoesOnWhereNothingCanBeWritten) {
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  {
    LogWriter writer(full, LogStyle::kPlain);
    writer.write("a\n");
    EXPECT_TRUE(writer.flush(20s));
  }
  close(full);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::base
