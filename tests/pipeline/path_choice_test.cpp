#include "pipeline/run/path_choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <vector>

#include "tests/device/emulated_gpu.hpp"
#include "tests/pipeline/digest_engine.hpp"
#include "tests/pipeline/support.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

constexpr double kAsFastAsTheyGo = std::numeric_limits<double>::infinity();

// What is chosen for a plug-in that reads everything.
PathChoice choose(const base::Clock& clock, device::Device& device, StreamStrategy streams,
                  std::optional<Transfer> transfer, double demand = 30) {
  test::DigestEngine engine(device);
  test::FakePlugin plugin(test::takes_it);
  plugin.outputs = 2;
  PluginHost plugins({}, clock);
  plugin.add_to(plugins);
  test::declare(plugins, engine);
  return choose_path(clock, device, engine, plugins, streams, transfer, demand);
}

TEST(PathChoice, TheHostDeviceReadsAndWritesInPlaceAndMeasuresNothing) {
  const auto host = device::make_host_device(base::system_clock());
  const PathChoice choice = choose(base::system_clock(), *host, StreamStrategy::kSplit, {});
  EXPECT_EQ(choice.options.transfer, Transfer::kMapped);
  EXPECT_FALSE(choice.options.graph);
}

TEST(PathChoice, SplitStreamsBecomeAGraphForEachFrameInFlightOnAGpuAndOthersStay) {
  test::EmulatedGpu gpu(base::system_clock());
  const PathChoice split = choose(base::system_clock(), gpu, StreamStrategy::kSplit, Transfer::kPinned);
  EXPECT_TRUE(split.options.graph);
  EXPECT_EQ(split.options.streams, StreamStrategy::kPerFrame);
  for (const StreamStrategy streams : {StreamStrategy::kPerFrame, StreamStrategy::kSingle}) {
    const PathChoice other = choose(base::system_clock(), gpu, streams, Transfer::kPinned);
    EXPECT_FALSE(other.options.graph);
    EXPECT_EQ(other.options.streams, streams);
  }
}

TEST(PathChoice, WhatIsConfiguredIsNotMeasured) {
  test::EmulatedGpu gpu(base::system_clock());
  for (const Transfer transfer : {Transfer::kPageable, Transfer::kPinned, Transfer::kDirect, Transfer::kMapped}) {
    const PathChoice choice = choose(base::system_clock(), gpu, StreamStrategy::kSplit, transfer);
    EXPECT_EQ(choice.options.transfer, transfer);
    EXPECT_EQ(choice.figures, std::string(to_string(transfer)) + ", as configured");
  }
}

// An engine that serves both goals, and notes for which one it made executions.
class TwoGoals final : public infer::Engine {
 public:
  explicit TwoGoals(device::Device& device) : engine_(device) {}
  [[nodiscard]] std::string_view name() const noexcept override { return engine_.name(); }
  [[nodiscard]] const infer::ModelDescription& model() const noexcept override { return engine_.model(); }
  [[nodiscard]] const infer::InputOptions& input_options() const noexcept override { return engine_.input_options(); }
  [[nodiscard]] const infer::TensorSpec& input() const noexcept override { return engine_.input(); }
  [[nodiscard]] const std::vector<infer::TensorSpec>& outputs() const noexcept override { return engine_.outputs(); }
  [[nodiscard]] std::unique_ptr<infer::Execution> make_execution() override { return engine_.make_execution(); }
  [[nodiscard]] bool serves(infer::Goal) const noexcept override { return true; }
  [[nodiscard]] std::unique_ptr<infer::Execution> make_execution_for(infer::Goal goal) override {
    goals.insert(goal);
    return engine_.make_execution();
  }
  std::set<infer::Goal> goals;

 private:
  test::DigestEngine engine_;
};

TEST(PathChoice, BothGoalsOfAnEngineAreMeasuredAlsoWithAConfiguredTransfer) {
  for (const std::optional<Transfer> transfer : {std::optional<Transfer>(), std::optional(Transfer::kDirect)}) {
    test::EmulatedGpu gpu(base::system_clock());
    TwoGoals engine(gpu);
    PluginHost plugins({}, base::system_clock());
    test::declare(plugins, engine);
    const PathChoice choice = choose_path(base::system_clock(), gpu, engine, plugins, StreamStrategy::kSplit, transfer,
                                          std::numeric_limits<double>::infinity());
    EXPECT_EQ(engine.goals, (std::set{infer::Goal::kLatency, infer::Goal::kThroughput}));
    if (transfer) {
      EXPECT_EQ(choice.options.transfer, Transfer::kDirect);
      EXPECT_EQ(choice.figures, "direct, as configured");
    }
  }
}

TEST(PathChoice, FramesInFlightAreMeasuredWhereTheDeviceWorksByItself) {
  test::EmulatedGpu gpu(base::system_clock());
  test::DigestEngine engine(gpu);
  PluginHost plugins({}, base::system_clock());
  test::declare(plugins, engine);
  const PathChoice choice =
      choose_path(base::system_clock(), gpu, engine, plugins, StreamStrategy::kSplit, Transfer::kPinned, 30);
  EXPECT_GE(choice.in_flight, 1);
  EXPECT_LE(choice.in_flight, 8);
  EXPECT_GT(choice.frames_per_second, 0);
}

TEST(PathChoice, FramesInFlightAreNotMeasuredOnTheHost) {
  const auto host = device::make_host_device(base::system_clock());
  EXPECT_EQ(choose(base::system_clock(), *host, StreamStrategy::kSplit, {}).in_flight, 0);
}

TEST(FramesInFlight, AreMeasuredOnBehindACountOrTwoThatBringNothing) {
  const std::vector<double> rates{4740, 7543, 11358, 10239, 11300, 12898};
  EXPECT_TRUE(more_may_pay(std::span(rates).first(4)));
  EXPECT_TRUE(more_may_pay(std::span(rates).first(5)));
  EXPECT_TRUE(more_may_pay(std::span(rates).first(6)));
}

TEST(FramesInFlight, AreNoLongerMeasuredBehindThreeCountsThatBringNothing) {
  const std::vector<double> rates{1120, 1260, 1250, 1255, 1258};
  EXPECT_TRUE(more_may_pay({}));
  EXPECT_TRUE(more_may_pay(std::span(rates).first(4)));
  EXPECT_FALSE(more_may_pay(rates));
}

TEST(FramesInFlight, AreEightAtMost) {
  const std::vector<double> rates{1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_TRUE(more_may_pay(std::span(rates).first(7)));
  EXPECT_FALSE(more_may_pay(rates));
}

TEST(FramesInFlight, AreTheFewestThatComeWithinThreePercentOfTheBest) {
  const std::vector<double> grows{4711, 7501, 10982, 10699, 11507, 12845, 13661, 13502};
  EXPECT_EQ(fewest_that_pay(grows), 7);
  const std::vector<double> is_full{5037, 7830, 8471, 8658, 8640, 8702};
  EXPECT_EQ(fewest_that_pay(is_full), 3);
  EXPECT_EQ(fewest_that_pay(std::vector<double>{50}), 1);
}

TEST(FramesInFlight, AreTwoMoreForThroughputWhereSoManyWereMeasured) {
  const std::vector<double> rates{6700, 11000, 14500, 16900, 18000, 18400, 18600, 18400};
  EXPECT_EQ(frames_in_flight(rates, infer::Goal::kLatency), 6);
  EXPECT_EQ(frames_in_flight(rates, infer::Goal::kThroughput), 8);
  EXPECT_EQ(frames_in_flight(std::span(rates).first(6), infer::Goal::kThroughput), 6);
}

TEST(ExpectedTime, IsThatOfAFrameAloneAndItsWait) {
  const Way way{Transfer::kPinned, 200, 10000};  // 100 us each
  EXPECT_DOUBLE_EQ(expected_us(way, 0), 200);
  EXPECT_DOUBLE_EQ(expected_us(way, 5000), 250);  // half as long as one takes
  EXPECT_DOUBLE_EQ(expected_us(way, 8000), 400);
  EXPECT_TRUE(std::isinf(expected_us(way, 10000)));
  EXPECT_TRUE(std::isinf(expected_us(way, kAsFastAsTheyGo)));
}

// Figures of an H100.
const std::vector<Way> kWays{
    {Transfer::kPinned, 203, 13700}, {Transfer::kDirect, 184, 8700}, {Transfer::kMapped, 360, 7800}};

TEST(BestWay, OfAFewCamerasIsTheOneWithTheLeastLatency) {
  EXPECT_EQ(best_way(kWays, 30).transfer, Transfer::kDirect);
  EXPECT_EQ(best_way(kWays, 64 * 30).transfer, Transfer::kDirect);
}

TEST(BestWay, OfHundredsOfCamerasIsTheOneInWhichFramesWaitLess) {
  EXPECT_EQ(best_way(kWays, 128 * 30).transfer, Transfer::kPinned);
  EXPECT_EQ(best_way(kWays, 300 * 30).transfer, Transfer::kPinned);
}

TEST(BestWay, IsForThroughputWhereSoManyComeThatTheyWaitLessThen) {
  const std::vector<Way> ways{{Transfer::kPinned, 150, 12500, infer::Goal::kLatency},
                              {Transfer::kPinned, 160, 14900, infer::Goal::kThroughput}};
  EXPECT_EQ(best_way(ways, 30).goal, infer::Goal::kLatency);
  EXPECT_EQ(best_way(ways, 300 * 30).goal, infer::Goal::kThroughput);
  EXPECT_EQ(best_way(ways, 20000).goal, infer::Goal::kThroughput);
  EXPECT_EQ(to_string(ways[0]), "pinned");
  EXPECT_EQ(to_string(ways[1]), "pinned for throughput");
}

TEST(BestWay, IsTheOneThatTakesMostFramesWhereMoreComeThanAnyTakes) {
  EXPECT_EQ(best_way(kWays, 20000).transfer, Transfer::kPinned);
  EXPECT_EQ(best_way(kWays, kAsFastAsTheyGo).transfer, Transfer::kPinned);
}

TEST(TooManyFrames, AreToldWhereMoreComeThanTheDeviceTakes) {
  const Way way{Transfer::kDirect, 184, 8777};
  EXPECT_EQ(
      too_many_frames("cuda:0", way, 9000, false),
      "the cameras bring some 9000 frames a second, of which cuda:0 takes 8777 with pipeline.transfer: direct; the "
      "others will be dropped as superseded");
  EXPECT_EQ(
      too_many_frames("cuda:0", way, 9000, true),
      "the cameras bring some 9000 frames a second, of which cuda:0 takes 8777 with pipeline.transfer: direct; the "
      "others will be dropped as superseded; another transfer may take more, and camd measures that when it starts");
}

TEST(TooManyFrames, AreNotWhatTheDeviceTakesNorWhatComesAsFastAsItTakesNorWhatWasNotMeasured) {
  EXPECT_EQ(too_many_frames("cuda:0", {Transfer::kDirect, 184, 8777}, 8777, false), "");
  EXPECT_EQ(too_many_frames("cuda:0", {Transfer::kDirect, 184, 8777}, kAsFastAsTheyGo, false), "");
  EXPECT_EQ(too_many_frames("host", {Transfer::kMapped, 0, 0}, 9000, false), "");
}

TEST(PathChoice, MeasuresTheFramesASecondOfThoseWaysAloneThatCanBeTheBest) {
  base::ManualClock clock;
  test::EmulatedGpu gpu(clock);
  gpu.before_copy([&](const void*) { clock.advance(std::chrono::milliseconds(1)); });
  EXPECT_THAT(choose(clock, gpu, StreamStrategy::kSplit, {}).figures,
              testing::HasSubstr("mapped inf frames a second, where some 30 come"));
  EXPECT_THAT(choose(clock, gpu, StreamStrategy::kSplit, {}, kAsFastAsTheyGo).figures,
              testing::AllOf(testing::ContainsRegex("mapped inf, direct [0-9]+, pinned [0-9]+ frames a second"),
                             testing::HasSubstr("where as many as it takes come")));
}

TEST(PathChoice, MeasuresFramesInFlightOfTheWayThatItTakes) {
  test::EmulatedGpu gpu(base::system_clock());
  const PathChoice choice = choose(base::system_clock(), gpu, StreamStrategy::kSplit, {});
  EXPECT_GE(choice.in_flight, 1);
  EXPECT_GT(choice.frames_per_second, 0);
}

TEST(PathChoice, OfThoseThatAreMeasuredTheFastestIsKept) {
  base::ManualClock clock;
  test::EmulatedGpu gpu(clock);
  // Only copies take time, so the fewest are the fastest.
  gpu.before_copy([&](const void*) { clock.advance(std::chrono::milliseconds(1)); });
  const PathChoice choice = choose(clock, gpu, StreamStrategy::kSplit, {});
  EXPECT_EQ(choice.options.transfer, Transfer::kMapped);
  EXPECT_THAT(choice.figures, testing::StartsWith("pinned 2000 us, direct 1000 us, mapped 0 us host to host"));
}

TEST(PathChoice, DirectIsNotMeasuredWhereNothingIsCopiedBack) {
  base::ManualClock clock;
  test::EmulatedGpu gpu(clock);
  gpu.before_copy([&](const void*) { clock.advance(std::chrono::milliseconds(1)); });
  test::DigestEngine engine(gpu);
  PluginHost reads_nothing({}, clock);
  test::declare(reads_nothing, engine);
  const PathChoice choice = choose_path(clock, gpu, engine, reads_nothing, StreamStrategy::kSplit, {}, 30);
  EXPECT_THAT(choice.figures, testing::StartsWith("pinned 1000 us, mapped 0 us host to host"));
}

TEST(PathChoice, AnIntegratedGpuThatIsCoherentCopiesNothingAndMeasuresNothing) {
  const base::ManualClock clock;
  test::EmulatedGpu gpu(clock, 0, test::GpuMemory::kCoherent);
  const PathChoice choice = choose(clock, gpu, StreamStrategy::kSplit, {});
  EXPECT_EQ(choice.options.transfer, Transfer::kMapped);
  EXPECT_EQ(choice.figures, "the device shares the CPU's memory, and nothing is copied there");
}

TEST(PathChoice, OnAnIntegratedGpuThatNeedsBarriersTheWaysAreMeasured) {
  base::ManualClock clock;
  test::EmulatedGpu gpu(clock, 0, test::GpuMemory::kIncoherent);
  gpu.before_copy([&](const void*) { clock.advance(std::chrono::milliseconds(1)); });
  const PathChoice choice = choose(clock, gpu, StreamStrategy::kSplit, {});
  EXPECT_EQ(choice.options.transfer, Transfer::kMapped);
  EXPECT_THAT(choice.figures, testing::StartsWith("pinned 2000 us, direct 1000 us, mapped 0 us host to host"));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
