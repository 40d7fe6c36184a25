#include "base/semaphore.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace camd::base {
namespace CAMD_TEST_FILE {

TEST(Semaphore, LetsOneAcquireGoOnForEachRelease) {
  Semaphore semaphore, answer;
  semaphore.release();
  semaphore.release();
  semaphore.acquire();
  semaphore.acquire();
  int rounds = 0;
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) {
      semaphore.acquire();
      ++rounds;
      answer.release();
    }
  });
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(rounds, i) << "the other thread did not wait";
    semaphore.release();
    answer.acquire();
  }
  other.join();
  EXPECT_EQ(rounds, 100);
}

TEST(Semaphore, TriesOnceForEachReleaseWithoutWaiting) {
  Semaphore semaphore;
  EXPECT_FALSE(semaphore.try_acquire());
  semaphore.release();
  EXPECT_TRUE(semaphore.try_acquire());
  EXPECT_FALSE(semaphore.try_acquire());
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::base
