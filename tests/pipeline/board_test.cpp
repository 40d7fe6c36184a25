#include "pipeline/diagnose/board.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using testing::ElementsAre;
using testing::IsEmpty;

// What the kernel of a board tells, in a folder of its own.
class Board : public testing::Test {
 public:
  ~Board() override { std::filesystem::remove_all(root_); }

 protected:
  void file(const std::string& name, const std::string& text) {
    const std::filesystem::path path = root_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  // "name: detail", with "!" in front where it is not well.
  [[nodiscard]] std::vector<std::string> findings() const {
    std::vector<std::string> texts;
    for (const Finding& finding : examine_board(root_)) {
      EXPECT_EQ(finding.area, "machine");
      EXPECT_EQ(finding.health == Health::kOk, finding.mend.empty());
      texts.push_back((finding.health == Health::kOk ? "" : "!") + finding.name + ": " + finding.detail);
    }
    return texts;
  }

  const std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / ("camd_board_" + std::to_string(::getpid()));
};

TEST_F(Board, WhoseKernelTellsNothingHasNothingToSay) { EXPECT_THAT(findings(), IsEmpty()); }

TEST_F(Board, SaysWhatItIsAndHowMuchMemoryIsSetAside) {
  file("proc/device-tree/model", std::string("Raspberry Pi 4 Model B Rev 1.4\0", 31));
  file("proc/meminfo", "MemTotal:        1894412 kB\nMemFree:  100 kB\nCmaTotal:         524288 kB\n");
  EXPECT_THAT(findings(),
              ElementsAre("board: Raspberry Pi 4 Model B Rev 1.4",
                          "memory: 1850 MiB, of which 512 MiB are set aside for cameras, decoders and the GPU (CMA)"));
}

TEST_F(Board, SaysWhenItsMemoryIsTooLittle) {
  file("proc/meminfo", "MemTotal:         221344 kB\nCmaTotal:              0 kB\n");
  EXPECT_THAT(findings(), ElementsAre("!memory: 216 MiB: too little for a camera on the CPU"));
}

TEST_F(Board, SaysHowFastItsCoresAreWhereTheyDiffer) {
  file("sys/devices/system/cpu/cpu0/cpu_capacity", "397\n");
  file("sys/devices/system/cpu/cpu1/cpu_capacity", "397\n");
  file("sys/devices/system/cpu/cpufreq/unrelated", "\n");
  EXPECT_THAT(findings(), IsEmpty());
  file("sys/devices/system/cpu/cpu2/cpu_capacity", "1024\n");
  EXPECT_THAT(findings(), ElementsAre("cores: 3 of different speed: 2 of capacity 397, 1 of capacity 1024"));
}

TEST_F(Board, SaysWhichGovernorHoldsTheClockBack) {
  file("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "ondemand\n");
  file("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "ondemand\n");
  file("sys/devices/system/cpu/cpufreq/unrelated", "\n");
  EXPECT_THAT(findings(), ElementsAre("!clock: governor ondemand: the clock rises only after work has come, so single "
                                      "frames take longer"));
}

TEST_F(Board, WithTheGovernorForPerformanceIsWell) {
  file("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
  EXPECT_THAT(findings(), ElementsAre("clock: governor performance"));
}

TEST_F(Board, OfARaspberryPiTellsOfItsPowerSupplyAndItsHeat) {
  file("sys/devices/platform/soc/soc:firmware/get_throttled", "0\n");
  EXPECT_THAT(findings(), IsEmpty());
  file("sys/devices/platform/soc/soc:firmware/get_throttled", "50005\n");
  EXPECT_THAT(findings(), ElementsAre("!throttling: too little voltage now, throttled now"));
  file("sys/devices/platform/soc/soc:firmware/get_throttled", "0xa0000\n");
  EXPECT_THAT(findings(), ElementsAre("!throttling: clock held back since the start, at the limit of temperature since "
                                      "the start"));
}

TEST_F(Board, TellsWhichClocksHeatHoldsBackAtThisMoment) {
  file("sys/class/thermal/cooling_device0/type", "pwm-fan\n");
  file("sys/class/thermal/cooling_device0/cur_state", "3\n");
  file("sys/class/thermal/cooling_device1/type", "thermal-cpufreq-0\n");
  file("sys/class/thermal/cooling_device1/cur_state", "2\n");
  file("sys/class/thermal/cooling_device1/max_state", "12\n");
  file("sys/class/thermal/cooling_device2/type", "Processor\n");
  file("sys/class/thermal/cooling_device2/cur_state", "0\n");
  EXPECT_THAT(findings(),
              ElementsAre("!throttling: heat holds the clock of thermal-cpufreq-0 back now (step 2 of 12)"));
}

TEST_F(Board, WhoseKernelWritesNonsenseHasNothingToSay) {
  file("proc/meminfo", "MemTotal:\nMemTotal: kB\n");
  file("sys/devices/platform/soc/soc:firmware/get_throttled", "hot\n");
  file("sys/class/thermal/cooling_device0/type", "Processor\n");
  file("sys/class/thermal/cooling_device0/cur_state", "-1\n");
  EXPECT_THAT(findings(), IsEmpty());
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
