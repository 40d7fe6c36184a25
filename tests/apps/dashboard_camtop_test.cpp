#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "dashboard_pty.hpp"
#include "dashboard_samples.hpp"
#include "tests/support/paths.hpp"

namespace camd::dashboard {
namespace CAMD_TEST_FILE {

using testing::camera_line;
using testing::Pty;
using testing::sample_path;
using testing::start_line;

std::string camtop() { return test::binary_dir() + "/bin/camtop"; }

struct Result {
  int code = 0;
  std::string out;  // with stderr
};

// Through the shell: pipes and redirections as a user writes them.
Result shell(const std::string& command) {
  Result result;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return {-1, "popen failed"};
  char buffer[4096];
  for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) result.out.append(buffer, n);
  const int status = ::pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return result;
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

// A file in the test's own folder, removed at the end.
class TempFile {
 public:
  TempFile() : path_(::testing::TempDir() + "camtop_test_" + std::to_string(::getpid()) + ".jsonl") {}
  ~TempFile() { std::remove(path_.c_str()); }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  void write(const std::string& text, bool append) const {
    std::ofstream(path_, append ? std::ios::app : std::ios::trunc) << text << std::flush;
  }

 private:
  std::string path_;
};

// Standard input of a camtop on a terminal.
class Feeder {
 public:
  Feeder() {
    if (::pipe2(ends_, O_CLOEXEC) != 0) std::abort();
  }
  ~Feeder() {
    close_write();
    ::close(ends_[0]);
  }
  Feeder(const Feeder&) = delete;
  Feeder& operator=(const Feeder&) = delete;
  [[nodiscard]] int read_end() const { return ends_[0]; }
  void send(const std::string& line) const {
    const std::string text = line + "\n";
    EXPECT_EQ(::write(ends_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void close_write() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }

 private:
  int ends_[2] = {-1, -1};
};

TEST(Camtop, OncePrintsOneFrameOfTheEnd) {
  const Result result = shell(camtop() + " --once " + sample_path());
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(count(result.out, "camd 0.1.0 ·"), 1U) << result.out;
  EXPECT_NE(result.out.find("stopped, exit code 0"), std::string::npos);
  EXPECT_NE(result.out.find("captured 1200 = delivered 1194 + dropped 6 + in flight 0"), std::string::npos);
  EXPECT_EQ(result.out.find('\x1b'), std::string::npos);
}

TEST(Camtop, WithoutATerminalItPrintsAFramePerPeriodAndTheSummary) {
  const Result result = shell("cat " + sample_path() + " | " + camtop());
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(count(result.out, "camd 0.1.0 ·"), 41U);  // forty periods and the stop line
  EXPECT_EQ(count(result.out, "ran for 00:00:41"), 1U);
  EXPECT_EQ(result.out.find('\x1b'), std::string::npos);
}

TEST(Camtop, ReplayKeepsItsPaceTimesTheSpeed) {
  const auto start = std::chrono::steady_clock::now();
  const Result result = shell(camtop() + " --replay 100 " + sample_path());
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(result.code, 0);
  EXPECT_GE(took, std::chrono::milliseconds(400));  // 41 s of run a hundred times faster
  EXPECT_EQ(count(result.out, "camd 0.1.0 ·"), 41U);
}

TEST(Camtop, SaysInOneLineWhatIsWrong) {
  const std::string cases[][2] = {
      {" /no/such/file", "camtop: cannot read /no/such/file: No such file or directory\n"},
      {" /", "camtop: cannot read /: Is a directory\n"},
      {" --replay 0 " + sample_path(), "--replay"},
      {" --replay fast " + sample_path(), "--replay"},
      {" --once --replay 1 " + sample_path(), "--once"},
      {" --nonsense", "--nonsense"},
      {" --once " + sample_path() + " > /dev/full", "camtop: cannot write standard output: No space left on device\n"},
  };
  for (const auto& [arguments, message] : cases) {
    // stderr alone: what goes to stdout may be redirected.
    const Result result = shell("{ " + camtop() + arguments + " ; }");
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_NE(result.out.find(message), std::string::npos) << result.out;
    EXPECT_EQ(count(result.out, "\n"), 1U) << result.out;
  }
}

TEST(Camtop, HelpIsNoError) {
  const Result result = shell(camtop() + " --help");
  EXPECT_EQ(result.code, 0);
  EXPECT_NE(result.out.find("--replay"), std::string::npos);
}

TEST(Camtop, JunkAloneGivesAFrameThatSaysSo) {
  const Result result = shell("printf 'hello\\n{}\\n{\"event\":\"camera\",\"schema\":9}\\n' | " + camtop() + " --once");
  EXPECT_EQ(result.code, 0);
  EXPECT_NE(result.out.find("1 line of schema 9, this dashboard reads schema 1"), std::string::npos) << result.out;
}

TEST(Camtop, OnATerminalWithoutInputItSaysWhatToDo) {
  Pty pty({camtop()}, -1);
  EXPECT_EQ(pty.wait_exit(), 2);
  EXPECT_NE(pty.output().find("nothing to read"), std::string::npos) << pty.output();
}

TEST(Camtop, WhenStandardInputEndsTheTotalsStayOnTheNormalScreen) {
  Feeder feeder;
  Pty pty({camtop()}, feeder.read_end());
  feeder.send(start_line());
  feeder.send(camera_line("door"));
  ASSERT_TRUE(pty.wait_for_screen("captured 30")) << pty.output();
  feeder.close_write();
  EXPECT_EQ(pty.wait_exit(), 0);
  const std::size_t left = pty.output().find("\x1b[?1049l");
  ASSERT_NE(left, std::string::npos);
  EXPECT_NE(pty.output().find("captured 30 = delivered 30", left), std::string::npos);
}

TEST(Camtop, KeysComeFromTheTerminalWhileStandardInputIsAPipe) {
  Feeder feeder;
  Pty pty({camtop()}, feeder.read_end());
  feeder.send(camera_line("door"));
  feeder.send(camera_line("yard"));
  ASSERT_TRUE(pty.wait_for_screen("▸ door"));
  pty.type("j");
  ASSERT_TRUE(pty.wait_for_screen("▸ yard"));
  pty.type("q");
  EXPECT_EQ(pty.wait_exit(), 0);
}

TEST(Camtop, FollowsAFileThatGrowsAndOneThatIsReplaced) {
  TempFile file;
  file.write(start_line() + "\n" + camera_line("door") + "\n" + camera_line("half").substr(0, 50), false);
  Pty pty({camtop(), file.path()}, -1);
  ASSERT_TRUE(pty.wait_for_screen("door"));
  file.write(camera_line("half").substr(50) + "\n", true);  // the second half of a line
  ASSERT_TRUE(pty.wait_for_screen("half"));
  EXPECT_EQ(pty.screen().find("not understood"), std::string::npos);
  file.write(camera_line("new") + "\n", false);  // truncated
  ASSERT_TRUE(pty.wait_for_screen("new"));
  pty.type("q");
  EXPECT_EQ(pty.wait_exit(), 0);
}

TEST(Camtop, ResizeReachesIt) {
  Feeder feeder;
  Pty pty({camtop()}, feeder.read_end());
  feeder.send(camera_line("door"));
  ASSERT_TRUE(pty.wait_for_screen("p99.9 ms"));
  pty.clear();
  pty.resize(40, 10);
  ASSERT_TRUE(pty.wait_for_screen("30 = 30 + 0 + 0")) << pty.screen();
}

TEST(Camtop, CtrlCWaitsForTheLastLinesOfThePipe) {
  Feeder feeder;
  Pty pty({camtop()}, feeder.read_end());
  feeder.send(camera_line("door"));
  ASSERT_TRUE(pty.wait_for_screen("captured 30"));
  pty.type("\x03");
  feeder.send(camera_line("door", 2, "ended", 60));
  feeder.close_write();
  EXPECT_EQ(pty.wait_exit(), 0);
  EXPECT_NE(pty.output().find("door  captured 60 = delivered 60"), std::string::npos) << pty.output();
}

// However it dies, the screen is left, the cursor is back and the modes are as before.
class CamtopDies : public ::testing::TestWithParam<int> {};

TEST_P(CamtopDies, AndTheTerminalIsRestored) {
  Feeder feeder;
  Pty pty({camtop()}, feeder.read_end());
  feeder.send(camera_line("door"));
  ASSERT_TRUE(pty.wait_for_screen("captured 30"));
  EXPECT_EQ(pty.modes().c_lflag & (ICANON | ECHO), 0U);
  ::kill(pty.child(), GetParam());
  EXPECT_TRUE(pty.wait_for("\x1b[?1049l"));
  const int code = pty.wait_exit();
  // 0: it ended by itself; 1 and 66: the handler of a sanitizer, which ours hands on to.
  EXPECT_TRUE(code == 0 || code == 1 || code == 66 || code == 128 + GetParam()) << code;
  EXPECT_NE(pty.output().find("\x1b[?25h"), std::string::npos);
  EXPECT_EQ(pty.modes().c_lflag & (ICANON | ECHO), static_cast<tcflag_t>(ICANON | ECHO));
}

INSTANTIATE_TEST_SUITE_P(Signals, CamtopDies, ::testing::Values(SIGTERM, SIGHUP, SIGQUIT, SIGABRT, SIGSEGV, SIGFPE));

TEST(Camtop, CtrlZLeavesTheScreenAndComesBackToIt) {
  Feeder feeder;
  Pty pty({camtop()}, feeder.read_end());
  feeder.send(camera_line("door"));
  ASSERT_TRUE(pty.wait_for_screen("captured 30"));
  pty.clear();
  // The test's program leads an orphaned group, which the kernel does not stop: it leaves and comes back at once.
  pty.type("\x1a");
  ASSERT_TRUE(pty.wait_for("\x1b[?1049l"));
  ::kill(pty.child(), SIGCONT);
  ASSERT_TRUE(pty.wait_for("\x1b[?1049h"));
  EXPECT_TRUE(pty.wait_for_screen("captured 30"));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::dashboard
