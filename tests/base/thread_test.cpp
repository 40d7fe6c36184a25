#include "base/thread.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <string>
#include <thread>

namespace camd::base {
namespace CAMD_TEST_FILE {

std::string name_of_a_thread_named(const std::string& name) {
  std::array<char, 64> read{};
  std::thread([&] {
    name_this_thread(name);
    pthread_getname_np(pthread_self(), read.data(), read.size());
  }).join();
  return read.data();
}

TEST(NameThisThread, NamesTheCallingThread) { EXPECT_EQ(name_of_a_thread_named("source door"), "source door"); }

TEST(NameThisThread, KeepsTheFirstFifteenCharacters) {
  EXPECT_EQ(name_of_a_thread_named("dispatch of camera door"), "dispatch of cam");
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::base
