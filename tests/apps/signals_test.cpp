#include "apps/camd/signals.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>

namespace camd::app {
namespace CAMD_TEST_FILE {

// Signals stay blocked in the thread that made a Signals: not in the other tests.
class SignalsTest : public ::testing::Test {
 protected:
  SignalsTest() { pthread_sigmask(SIG_SETMASK, nullptr, &before_); }
  ~SignalsTest() override { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

TEST_F(SignalsTest, ARequestFromBeforeWakesWhoeverComesNext) {
  Signals signals;
  signals.ask_to_stop();
  int woken = 0;
  signals.attach({[&] { ++woken; }, {}});
  EXPECT_EQ(woken, 1);
  EXPECT_TRUE(signals.stop_asked());
  EXPECT_FALSE(signals.take_reload());
}

// SIGUSR1 was what ended the thread, and told nobody.
TEST_F(SignalsTest, Sigusr1AsksForFilesToBeOpenedAnewAndForNothingElse) {
  Signals signals;
  std::promise<void> woken;
  signals.attach({[&] { woken.set_value(); }, {}});
  ASSERT_EQ(kill(getpid(), SIGUSR1), 0);
  woken.get_future().wait();
  EXPECT_TRUE(signals.take_reopen());
  EXPECT_FALSE(signals.take_reopen());
  EXPECT_FALSE(signals.take_reload());
  EXPECT_FALSE(signals.stop_asked());
}

TEST_F(SignalsTest, ASecondRequestToStopRestoresTheTerminalAndThenLeaves) {
  std::string order;
  Signals signals([&](int code) { order += "left with " + std::to_string(code); });
  signals.on_leave([&] { order += "restored, "; });
  signals.ask_to_stop();
  EXPECT_EQ(order, "");
  signals.ask_to_stop();
  EXPECT_EQ(order, "restored, left with 70");
}

// A second signal that came while the run ended called into an Output that was being destroyed.
TEST_F(SignalsTest, WhatIsUsedForLeavingIsNotDestroyedWhileItIsUsed) {
  std::promise<void> entered;
  std::promise<void> gate;
  Signals signals([](int) {});
  auto dashboard = std::make_unique<std::atomic<bool>>(false);
  signals.on_leave([&entered, opened = gate.get_future().share(), closed = dashboard.get()] {
    entered.set_value();
    opened.wait();
    *closed = true;
  });
  signals.ask_to_stop();
  std::thread leaver([&] { signals.ask_to_stop(); });
  entered.get_future().wait();
  std::promise<void> about_to_destroy;
  std::atomic<bool> was_closed{false};
  std::thread owner([&] {
    about_to_destroy.set_value();
    signals.on_leave({});
    was_closed = dashboard->load();
    dashboard.reset();
  });
  about_to_destroy.get_future().wait();
  gate.set_value();
  leaver.join();
  owner.join();
  EXPECT_TRUE(was_closed);
}

TEST_F(SignalsTest, LeavesOnceWhenTwoThreadsAskForIt) {
  int left = 0;
  Signals* again = nullptr;
  Signals signals([&](int) { ++left; });
  again = &signals;
  // The dashboard's thread asks while another one closes the dashboard and waits for that very thread.
  signals.on_leave([&] {
    std::thread drawing([&] { again->ask_to_stop(); });
    drawing.join();
  });
  signals.ask_to_stop();
  signals.ask_to_stop();
  EXPECT_EQ(left, 1);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::app
