#include "base/semaphore.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace camd::base {
namespace {

TEST(Semaphore, LetsOneAcquireGoOnForEachRelease) {
  Semaphore semaphore, answer;
  semaphore.release();
  semaphore.release();
  semaphore.acquire();
  semaphore.acquire();
  int rounds = 0;
  std::thread other([&] {
    for (; rounds < 100; ++rounds) {
      semaphore.acquire();
      answer.release();
    }
  });
  for (int i = 0; i < 100; ++i) {
    semaphore.release();
    answer.acquire();
  }
  other.join();
  EXPECT_EQ(rounds, 100);
}

}  // namespace
}  // namespace camd::base
