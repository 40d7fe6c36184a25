#include "pipeline/run/interrupted_cpus.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <latch>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using std::chrono::seconds;

const std::string kGpu = "0000:3b:00.0";

// A kernel whose GPUs have interrupted so often, and a process of eight CPUs.
class InterruptedCpusTest : public testing::Test {
 protected:
  void line(const std::string& gpu, int number, const std::string& counts) const {
    const auto lines = root_ / "sys/bus/pci/devices" / gpu / "msi_irqs";
    const auto counters = root_ / "sys/kernel/irq" / std::to_string(number);
    std::filesystem::create_directories(lines);
    std::filesystem::create_directories(counters);
    std::ofstream(lines / std::to_string(number)) << "msix\n";
    std::ofstream(counters / "per_cpu_count") << counts << '\n';
  }
  // A second later.
  void look(const std::vector<std::string>& gpus = {kGpu}) {
    clock_.advance(seconds(1));
    cpus_.look(gpus);
  }

  InterruptedCpusTest() { std::filesystem::remove_all(root_); }
  ~InterruptedCpusTest() override { std::filesystem::remove_all(root_); }

  const std::filesystem::path root_ =
      std::filesystem::path(testing::TempDir()) / ("interrupted_cpus." + std::to_string(getpid()));
  base::ManualClock clock_;
  std::vector<std::pair<Cpus, Cpus>> moves_;
  InterruptedCpus cpus_{clock_,
                        {0, 1, 2, 3, 4, 5, 6, 7},
                        [this](const Cpus& from, const Cpus& to) { moves_.emplace_back(from, to); },
                        root_};
};

TEST_F(InterruptedCpusTest, ThreadsLeaveACpuThatServesManyInterrupts) {
  line(kGpu, 42, "5,0,0,900000,0,0,0,0");
  look();
  EXPECT_TRUE(moves_.empty());  // nothing to compare with
  line(kGpu, 42, "6,0,0,900200,0,0,0,0");
  look();
  EXPECT_EQ(cpus_.avoided(), (Cpus{3}));
  EXPECT_EQ(moves_, (std::vector<std::pair<Cpus, Cpus>>{{{0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 4, 5, 6, 7}}}));
}

TEST_F(InterruptedCpusTest, LinesOfAllGpusAreAddedUp) {
  line(kGpu, 42, "0,0,0,0,0,0,0,0");
  line("0000:3c:00.0", 43, "0,0,0,0,0,0,0,0");
  line("0000:ff:00.0", 44, "0,0,0,0,0,0,0,0");  // another device
  look({kGpu, "0000:3c:00.0"});
  line(kGpu, 42, "0,0,100,0,0,0,0,0");
  line("0000:3c:00.0", 43, "0,0,100,0,0,0,0,0");
  line("0000:ff:00.0", 44, "9999,0,0,0,0,0,0,0");
  look({kGpu, "0000:3c:00.0"});
  EXPECT_EQ(cpus_.avoided(), (Cpus{2}));
}

TEST_F(InterruptedCpusTest, FewInterruptsMoveNobodyAndFewerBringThreadsBack) {
  line(kGpu, 42, "0,0,0,0,0,0,0,0");
  look();
  line(kGpu, 42, "199,0,0,0,0,0,0,0");
  look();
  EXPECT_TRUE(moves_.empty());
  line(kGpu, 42, "1199,0,0,0,0,0,0,0");
  look();
  EXPECT_EQ(cpus_.avoided(), (Cpus{0}));
  line(kGpu, 42, "1219,0,0,0,0,0,0,0");  // between the two: as it was
  look();
  EXPECT_EQ(cpus_.avoided(), (Cpus{0}));
  line(kGpu, 42, "1238,0,0,0,0,0,0,0");
  look();
  EXPECT_EQ(cpus_.avoided(), (Cpus{}));
  EXPECT_EQ(moves_.back().second, (Cpus{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(InterruptedCpusTest, ThreadsFollowInterruptsThatMoveToAnotherCpu) {
  line(kGpu, 42, "0,0,0,0,0,0,0,0");
  look();
  line(kGpu, 42, "0,4500,0,0,0,0,0,0");
  look();
  line(kGpu, 42, "0,4500,0,0,0,4500,0,0");
  look();
  EXPECT_EQ(cpus_.avoided(), (Cpus{5}));
  EXPECT_EQ(moves_.back(), (std::pair<Cpus, Cpus>{{0, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 3, 4, 6, 7}}));
}

TEST_F(InterruptedCpusTest, NoMoreThanAQuarterOfTheCpusIsGivenUpAndTheBusiestAre) {
  line(kGpu, 42, "0,0,0,0,0,0,0,0");
  look();
  line(kGpu, 42, "300,900,500,300,300,300,300,300");
  look();
  EXPECT_EQ(cpus_.avoided(), (Cpus{1, 2}));
}

TEST_F(InterruptedCpusTest, OfFewerThanFourCpusNoneIsGivenUp) {
  InterruptedCpus cpus{
      clock_, {0, 1, 2}, [this](const Cpus& from, const Cpus& to) { moves_.emplace_back(from, to); }, root_};
  line(kGpu, 42, "0,0,0");
  cpus.look({kGpu});
  line(kGpu, 42, "0,9000,0");
  clock_.advance(seconds(1));
  cpus.look({kGpu});
  EXPECT_TRUE(moves_.empty());
}

TEST_F(InterruptedCpusTest, CpusThatTheProcessMayNotUseAreNoConcern) {
  line(kGpu, 42, "0,0,0,0,0,0,0,0,0,0");
  look();
  line(kGpu, 42, "0,0,0,0,0,0,0,0,0,9000");
  look();
  EXPECT_TRUE(moves_.empty());
}

TEST_F(InterruptedCpusTest, GpusThatTheKernelDoesNotShowCountNothing) {
  look({"", "0000:00:00.0"});
  look({"", "0000:00:00.0"});
  EXPECT_TRUE(moves_.empty());
}

TEST_F(InterruptedCpusTest, OtherGpusAreCountedAnew) {
  line(kGpu, 42, "0,0,0,0,0,0,0,0");
  line("0000:3c:00.0", 43, "0,0,0,70000,0,0,0,0");  // since the machine was started
  look();
  look({"0000:3c:00.0"});
  EXPECT_TRUE(moves_.empty());
  line("0000:3c:00.0", 43, "0,0,0,71000,0,0,0,0");
  look({"0000:3c:00.0"});
  EXPECT_EQ(cpus_.avoided(), (Cpus{3}));
}

TEST(InterruptedCpus, AllThreadsButThoseBoundElsewhereAreMoved) {
  const Cpus all = allowed_cpus();
  if (all.size() < 2) GTEST_SKIP() << "needs two CPUs";
  const Cpus one{*all.begin()};
  const Cpus others(std::next(all.begin()), all.end());
  std::latch bound(2);
  std::latch moved(1);
  Cpus of_free;
  Cpus of_bound;
  std::thread free([&] {
    bound.arrive_and_wait();
    moved.wait();
    of_free = allowed_cpus();
  });
  std::thread elsewhere([&] {
    cpu_set_t bits;
    CPU_ZERO(&bits);
    CPU_SET(static_cast<std::size_t>(*one.begin()), &bits);
    EXPECT_EQ(sched_setaffinity(0, sizeof(bits), &bits), 0);
    bound.arrive_and_wait();
    moved.wait();
    of_bound = allowed_cpus();
  });
  bound.wait();
  move_threads(all, others);
  EXPECT_EQ(allowed_cpus(), others);
  moved.count_down();
  free.join();
  elsewhere.join();
  EXPECT_EQ(of_free, others);
  EXPECT_EQ(of_bound, one);
  move_threads(others, all);
  EXPECT_EQ(allowed_cpus(), all);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
