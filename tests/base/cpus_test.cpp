#include "base/cpus.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace camd::base {
namespace CAMD_TEST_FILE {

TEST(UsableCpus, AreThoseThatTheThreadMayRunOn) {
  int cpus = 0;
  std::thread([&cpus] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    cpus = usable_cpus();
  }).join();
  EXPECT_EQ(cpus, 1);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::base
