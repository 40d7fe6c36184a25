// What systemd is told, received at a socket of the test's own.
#include "apps/camd/service_manager.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/support/notify_socket.hpp"

namespace camd::app {
namespace CAMD_TEST_FILE {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::string of_this_test(const std::string& before) {
  std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::replace(name.begin(), name.end(), '/', '_');
  return before + "camd_notify_" + name + "_" + std::to_string(::getpid());
}

// Variables of the environment, as they were before at the end.
class Environment {
 public:
  ~Environment() {
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) ::unsetenv(name);  // NOLINT
  }
  void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }  // NOLINT
};

TEST(ServiceEnvironment, IsEmptyWhereNobodyWantsToKnow) {
  const ServiceEnvironment found = ServiceEnvironment::of_this_process();
  EXPECT_THAT(found.socket, IsEmpty());
  EXPECT_FALSE(found.period);
}

TEST(ServiceEnvironment, TakesTheWatchdogsPeriodOnlyWhereItIsMeantForThisProcess) {
  Environment environment;
  environment.set("NOTIFY_SOCKET", "/run/x");
  environment.set("WATCHDOG_USEC", "2000000");
  EXPECT_EQ(ServiceEnvironment::of_this_process().socket, "/run/x");
  EXPECT_EQ(ServiceEnvironment::of_this_process().period, base::Duration(seconds(2)));
  environment.set("WATCHDOG_PID", std::to_string(::getpid()));
  EXPECT_EQ(ServiceEnvironment::of_this_process().period, base::Duration(seconds(2)));
  environment.set("WATCHDOG_PID", std::to_string(::getppid()));
  EXPECT_FALSE(ServiceEnvironment::of_this_process().period);
}

TEST(ServiceEnvironment, TakesNoPeriodThatIsNoNumber) {
  Environment environment;
  for (const char* text : {"", "x", "5s", "0", "-1", "99999999999999999999"}) {
    environment.set("WATCHDOG_USEC", text);
    EXPECT_FALSE(ServiceEnvironment::of_this_process().period) << text;
  }
}

TEST(ServiceManager, TellsNobodyWithoutASocket) {
  ServiceManager manager({}, base::system_clock());
  EXPECT_FALSE(manager.told());
  manager.ready("x");
  manager.stopping();
}

TEST(ServiceManager, RefusesAnAddressThatIsNone) {
  for (const std::string& name :
       {std::string("relative"), std::string("/"), "/" + std::string(200, 'x'), std::string("vsock:2:1234")}) {
    const ServiceManager manager({name, {}}, base::system_clock());
    EXPECT_FALSE(manager.told()) << name;
  }
}

TEST(ServiceManager, AFileThatNobodyReadsHoldsNothingUp) {
  ServiceManager manager({of_this_test("/tmp/"), {}}, base::system_clock());
  manager.ready("x");
  manager.stopping();
}

class Told : public ::testing::TestWithParam<const char*> {
 protected:
  const test::NotifySocket listener_{of_this_test(GetParam())};
};
INSTANTIATE_TEST_SUITE_P(Addresses, Told, ::testing::Values("/tmp/", "@"), [](const auto& address) {
  return std::string(address.param[0] == '@' ? "Abstract" : "Path");
});

TEST_P(Told, ARunFromItsStartOverAReloadToItsEnd) {
  base::ManualClock clock(base::from_ns(7'000'123'456));
  ServiceManager manager({listener_.name(), {}}, clock);
  ASSERT_TRUE(manager.told());
  manager.status("starting");
  manager.ready("2 of 2 cameras running");
  manager.status("2 of 2 cameras running");  // is known
  manager.status("1 of 2 cameras running,\ndoor failed");
  manager.reloading();
  manager.ready("3 of 3 cameras running");
  manager.alive();
  manager.stopping();
  manager.status("3 of 3 cameras running");  // it is too late for that
  EXPECT_EQ(listener_.more(), "STATUS=starting");
  EXPECT_EQ(listener_.more(), "READY=1\nSTATUS=2 of 2 cameras running");
  EXPECT_EQ(listener_.more(), "STATUS=1 of 2 cameras running, door failed");
  EXPECT_EQ(listener_.more(), "RELOADING=1\nMONOTONIC_USEC=7000123\nSTATUS=reloading");
  EXPECT_EQ(listener_.more(), "READY=1\nSTATUS=3 of 3 cameras running");
  EXPECT_EQ(listener_.more(), "WATCHDOG=1");
  EXPECT_THAT(listener_.more(), StartsWith("STOPPING=1\n"));
  EXPECT_EQ(listener_.more(), "nothing");
}

TEST(PipelineProgress, IsWhatComesToItsEndOrHasNothingToDo) {
  EXPECT_TRUE((PipelineProgress{1, true}.comes_from({0, true})));
  EXPECT_TRUE((PipelineProgress{5, false}.comes_from({5, false})));
  EXPECT_TRUE((PipelineProgress{5, true}.comes_from({5, false})));  // began just now
  EXPECT_TRUE((PipelineProgress{5, false}.comes_from({5, true})));
  EXPECT_FALSE((PipelineProgress{5, true}.comes_from({5, true})));
}

// A watch whose clock and whose pipeline are the test's.
class WatchTest : public ::testing::Test {
 protected:
  // [blocks] until the watch sleeps.
  void asleep() const {
    while (clock_.waiters() == 0) std::this_thread::yield();
  }
  const test::NotifySocket listener_{of_this_test("@")};
  base::ManualClock clock_;
  std::atomic<std::uint64_t> finished_{0};
  std::atomic<bool> waiting_{false};
  std::atomic<int> looks_{0};
  ServiceWatch::Watched watched_{[this] { return "look " + std::to_string(looks_); },
                                 [this] {
                                   ++looks_;
                                   return PipelineProgress{finished_, waiting_};
                                 }};
};

TEST_F(WatchTest, TellsTheWatchdogTwiceInItsPeriodWhileFramesComeThrough) {
  ServiceManager manager({listener_.name(), seconds(1)}, clock_);
  waiting_ = true;
  const ServiceWatch watch(manager, watched_, clock_);
  EXPECT_EQ(listener_.next(), "WATCHDOG=1");
  EXPECT_EQ(listener_.next(), "STATUS=look 1");
  for (int look = 2; look < 10; ++look) {
    ++finished_;
    asleep();
    clock_.advance(milliseconds(500));
    EXPECT_EQ(listener_.next(), "WATCHDOG=1");
    EXPECT_EQ(listener_.next(), "STATUS=look " + std::to_string(look));
  }
}

TEST_F(WatchTest, LetsTheWatchdogBarkWhileFramesAreStuckAndNoLonger) {
  ServiceManager manager({listener_.name(), seconds(1)}, clock_);
  const ServiceWatch watch(manager, watched_, clock_);
  EXPECT_EQ(listener_.next(), "WATCHDOG=1");
  EXPECT_EQ(listener_.next(), "STATUS=look 1");
  const auto look = [this] {
    asleep();
    clock_.advance(milliseconds(500));
    return listener_.next();
  };
  waiting_ = true;
  EXPECT_EQ(look(), "WATCHDOG=1");  // these frames may have begun just now
  EXPECT_EQ(listener_.next(), "STATUS=look 2");
  EXPECT_EQ(look(), "STATUS=look 3");
  EXPECT_EQ(look(), "STATUS=look 4");
  ++finished_;
  EXPECT_EQ(look(), "WATCHDOG=1");
  EXPECT_EQ(listener_.next(), "STATUS=look 5");
}

TEST_F(WatchTest, KeepsTheStatusUpToDateWhereThereIsNoWatchdog) {
  ServiceManager manager({listener_.name(), {}}, clock_);
  const ServiceWatch watch(manager, watched_, clock_);
  EXPECT_EQ(listener_.next(), "STATUS=look 1");
  asleep();
  clock_.advance(seconds(5));
  EXPECT_EQ(listener_.next(), "STATUS=look 2");
}

TEST_F(WatchTest, LooksAtNothingWhereNobodyWantsToKnow) {
  ServiceManager manager({}, clock_);
  { const ServiceWatch watch(manager, watched_, clock_); }
  EXPECT_EQ(looks_, 0);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::app
