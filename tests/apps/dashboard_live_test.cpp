#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include "apps/dashboard/live_dashboard.hpp"
#include "apps/dashboard/terminal.hpp"
#include "base/error.hpp"
#include "dashboard_pty.hpp"
#include "dashboard_samples.hpp"

namespace camd::dashboard {
namespace CAMD_TEST_FILE {

using testing::camera_line;
using testing::Pty;
using testing::start_line;

constexpr char kEnterScreen[] = "\x1b[?1049h";
constexpr char kLeaveScreen[] = "\x1b[?1049l";
constexpr char kShowCursor[] = "\x1b[?25h";

LiveDashboard::Options on(const Pty& pty) {
  LiveDashboard::Options options;
  options.fd = pty.slave();
  options.min_interval = std::chrono::milliseconds(1);
  return options;
}

bool same_modes(const termios& a, const termios& b) {
  return a.c_iflag == b.c_iflag && a.c_oflag == b.c_oflag && a.c_cflag == b.c_cflag && a.c_lflag == b.c_lflag &&
         std::memcmp(a.c_cc, b.c_cc, sizeof a.c_cc) == 0;
}

class LiveDashboardTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TERM", "xterm-256color", 1);
    ::unsetenv("NO_COLOR");
  }
};

TEST_F(LiveDashboardTest, DrawsWhatIsFedAndLeavesTheTerminalAsItWas) {
  Pty pty;
  const termios before = pty.modes();
  {
    LiveDashboard dashboard(on(pty));
    EXPECT_FALSE(same_modes(before, pty.modes()));
    EXPECT_TRUE(dashboard.feed(start_line()));
    EXPECT_TRUE(dashboard.feed(camera_line("door")));
    EXPECT_TRUE(pty.wait_for_screen("captured 30 = delivered 30 + dropped 0 + in flight 0")) << pty.screen();
    EXPECT_NE(pty.output().find(kEnterScreen), std::string::npos);
    EXPECT_EQ(pty.output().find(kLeaveScreen), std::string::npos);
  }
  EXPECT_TRUE(same_modes(before, pty.modes()));
  EXPECT_TRUE(pty.wait_for("door  captured 30 = delivered 30"));  // the summary
  const std::size_t left = pty.output().find(kLeaveScreen);
  ASSERT_NE(left, std::string::npos);
  EXPECT_LT(pty.output().find(kShowCursor), left);
  EXPECT_LT(left, pty.output().find("ran for"));
  EXPECT_EQ(pty.output().find(kEnterScreen, left), std::string::npos);
}

TEST_F(LiveDashboardTest, ClosingTwiceAndFeedingAfterwardsAreHarmless) {
  Pty pty;
  LiveDashboard dashboard(on(pty));
  dashboard.close();
  pty.wait_for("ran for");
  dashboard.close();
  EXPECT_TRUE(dashboard.feed(start_line()));
  dashboard.add_log("late");
  pty.clear();
  pty.drain();
  EXPECT_EQ(pty.output(), "");
}

TEST_F(LiveDashboardTest, EveryPictureIsOneSynchronizedUpdateOfTheChangedRows) {
  Pty pty;
  Terminal terminal(pty.slave(), false);
  terminal.draw({Line("one"), Line("two"), Line("three")});
  ASSERT_TRUE(pty.wait_for("three"));
  ASSERT_TRUE(pty.wait_for("\x1b[?2026l"));
  pty.clear();
  terminal.draw({Line("one"), Line("2"), Line("three")});
  ASSERT_TRUE(pty.wait_for("\x1b[?2026l"));
  EXPECT_EQ(pty.output(), "\x1b[?2026h\x1b[2;1H2\x1b[K\x1b[?2026l");
  pty.clear();
  terminal.draw({Line("one"), Line("2"), Line("three")});
  terminal.draw({Line(std::string(80, 'x')), Line("2"), Line("three")});
  ASSERT_TRUE(pty.wait_for("\x1b[?2026l"));
  EXPECT_EQ(pty.output(),
            "\x1b[?2026h\x1b[1;1H" + std::string(80, 'x') + "\x1b[?2026l");  // the same again sent nothing
}

TEST_F(LiveDashboardTest, FollowsTheSizeOfTheTerminal) {
  Pty pty(80, 24);
  LiveDashboard dashboard(on(pty));
  dashboard.feed(start_line());
  dashboard.feed(camera_line("door"));
  ASSERT_TRUE(pty.wait_for_screen("p99.9 ms"));
  pty.clear();
  pty.resize(20, 5);
  ::kill(::getpid(), SIGWINCH);
  ASSERT_TRUE(pty.wait_for("\x1b[2J"));
  ASSERT_TRUE(pty.wait_for_screen("30 = 30 + 0 + 0")) << pty.screen();
  EXPECT_EQ(pty.screen().find("p99.9 ms"), std::string::npos);
  EXPECT_EQ(pty.output().find("\x1b[6;1H"), std::string::npos);
}

TEST_F(LiveDashboardTest, ArrowKeysChooseTheCameraAndQQuits) {
  Pty pty;
  std::atomic<bool> quit{false};
  LiveDashboard::Options options = on(pty);
  options.on_quit = [&] { quit = true; };
  LiveDashboard dashboard(options);
  for (const char* name : {"door", "yard", "roof"}) dashboard.feed(camera_line(name));
  ASSERT_TRUE(pty.wait_for_screen("▸ door"));
  pty.type("\x1b[B");
  EXPECT_TRUE(pty.wait_for_screen("▸ yard"));
  pty.type("\x1b");  // a key that arrives in two pieces
  pty.type("OB");
  EXPECT_TRUE(pty.wait_for_screen("▸ roof"));
  pty.type("kk\x1b[5~x");
  EXPECT_TRUE(pty.wait_for_screen("▸ door"));
  pty.type("q");
  EXPECT_TRUE(pty.wait([&] { return quit.load(); }));
}

TEST_F(LiveDashboardTest, MayBeClosedFromInsideOnQuit) {
  Pty pty;
  std::atomic<bool> closed{false};
  LiveDashboard* self = nullptr;
  LiveDashboard::Options options = on(pty);
  options.on_quit = [&] {
    self->close();
    closed = true;
  };
  LiveDashboard dashboard(options);
  self = &dashboard;
  dashboard.feed(camera_line("door"));
  ASSERT_TRUE(pty.wait_for_screen("q quit"));
  pty.type("q");
  EXPECT_TRUE(pty.wait([&] { return closed.load(); }));
  EXPECT_TRUE(pty.wait_for("ran for"));
}

TEST_F(LiveDashboardTest, StderrOnTheSameTerminalGoesToTheLogAreaAndComesBack) {
  Pty pty;
  const int real_stderr = ::dup(STDERR_FILENO);
  ::dup2(pty.slave(), STDERR_FILENO);
  {
    LiveDashboard dashboard(on(pty));
    dashboard.feed(camera_line("door"));
    const char text[] = "library: \x1b[31mlost\x1b[0m buffers\x1b[2J\npartial";
    EXPECT_EQ(::write(STDERR_FILENO, text, sizeof text - 1), static_cast<ssize_t>(sizeof text - 1));
    EXPECT_TRUE(pty.wait_for_screen("│ library: lost buffers\\x1b[2J")) << pty.screen();
  }
  EXPECT_TRUE(pty.wait([&] {
    const std::size_t end = pty.output().find(kLeaveScreen);
    return end != std::string::npos && pty.output().find("library: lost buffers", end) != std::string::npos;
  }));
  EXPECT_EQ(::isatty(STDERR_FILENO), 1);
  ::dup2(real_stderr, STDERR_FILENO);
  ::close(real_stderr);
}

TEST_F(LiveDashboardTest, NoColorMeansNoColour) {
  ::setenv("NO_COLOR", "1", 1);
  Pty pty;
  LiveDashboard dashboard(on(pty));
  dashboard.feed(camera_line("door", 1, "failed"));
  ASSERT_TRUE(pty.wait_for_screen("failed"));
  for (const char* colour : {"\x1b[31m", "\x1b[32m", "\x1b[1;31m", "\x1b[36m"})
    EXPECT_EQ(pty.output().find(colour), std::string::npos);
  ::unsetenv("NO_COLOR");
}

TEST_F(LiveDashboardTest, ASecondDashboardAndAPlainFileAreRefused) {
  Pty pty;
  LiveDashboard dashboard(on(pty));
  EXPECT_THROW(LiveDashboard second(on(pty)), base::Error);
  LiveDashboard::Options file;
  file.fd = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  EXPECT_FALSE(LiveDashboard::usable(file.fd));
  EXPECT_THROW(LiveDashboard third(file), base::Error);
  ::close(file.fd);
}

TEST_F(LiveDashboardTest, DumbTerminalsAreNotUsable) {
  Pty pty;
  EXPECT_TRUE(LiveDashboard::usable(pty.slave()));
  ::setenv("TERM", "dumb", 1);
  EXPECT_FALSE(LiveDashboard::usable(pty.slave()));
}

TEST_F(LiveDashboardTest, ATerminalThatTakesNothingHoldsUpNeitherFeedNorClose) {
  Pty pty;
  LiveDashboard dashboard(on(pty));
  std::atomic<bool> done{false};
  // Nobody reads the other side: its buffer fills, and every frame differs in every row.
  for (int i = 0; i < 20'000; ++i) dashboard.feed(camera_line("door", i % 60, "running", i));
  std::thread closer([&] {
    dashboard.close();
    done = true;
  });
  closer.join();
  EXPECT_TRUE(done);
}

TEST_F(LiveDashboardTest, TheHandlersOfTheProgramStayItsOwn) {
  struct sigaction mine {};
  mine.sa_handler = [](int) {};
  struct sigaction old {};
  ::sigaction(SIGTERM, &mine, &old);
  struct sigaction now {};
  {
    Pty pty;
    LiveDashboard dashboard(on(pty));
    ::sigaction(SIGTERM, nullptr, &now);
    EXPECT_EQ(now.sa_handler, mine.sa_handler);
    ::sigaction(SIGABRT, nullptr, &now);
    EXPECT_NE(now.sa_flags & SA_SIGINFO, 0);
  }
  for (const int signal : {SIGWINCH, SIGTSTP, SIGCONT, SIGABRT, SIGINT}) {
    ::sigaction(signal, nullptr, &now);
    EXPECT_EQ(now.sa_handler, SIG_DFL) << signal;
  }
  ::sigaction(SIGTERM, &old, nullptr);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::dashboard
