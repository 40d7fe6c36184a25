#include "pipeline/run/path_choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "tests/device/emulated_gpu.hpp"
#include "tests/pipeline/digest_engine.hpp"
#include "tests/pipeline/support.hpp"

namespace camd::pipeline {
namespace {

// What is chosen for a plug-in that reads everything.
PathChoice choose(const base::Clock& clock, device::Device& device, StreamStrategy streams,
                  std::optional<Transfer> transfer) {
  test::DigestEngine engine(device);
  test::FakePlugin plugin(test::takes_it);
  plugin.outputs = 2;
  PluginHost plugins({}, clock);
  plugin.add_to(plugins);
  test::declare(plugins, engine);
  return choose_path(clock, device, engine, plugins, streams, transfer);
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

TEST(PathChoice, FramesInFlightAreMeasuredWhereTheDeviceWorksByItself) {
  test::EmulatedGpu gpu(base::system_clock());
  test::DigestEngine engine(gpu);
  PluginHost plugins({}, base::system_clock());
  test::declare(plugins, engine);
  const PathChoice choice =
      choose_path(base::system_clock(), gpu, engine, plugins, StreamStrategy::kSplit, Transfer::kPinned);
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

TEST(BestWay, IsTheOneWithTheLeastLatencyWhereNoneNearItBringsATenthMoreFramesASecond) {
  const std::vector<Way> ways{{Transfer::kPinned, 155, 13000}, {Transfer::kDirect, 147, 12000}};
  EXPECT_EQ(best_way(ways).transfer, Transfer::kDirect);
}

TEST(BestWay, IsHardlySlowerWhereItBringsMoreFramesASecond) {
  const std::vector<Way> ways{
      {Transfer::kPinned, 149, 17000}, {Transfer::kDirect, 147, 12600}, {Transfer::kMapped, 150, 16000}};
  EXPECT_EQ(best_way(ways).transfer, Transfer::kPinned);
}

TEST(BestWay, IsNotOneThatTakesMoreThanATenthLongerHoweverManyFramesASecondItBrings) {
  const std::vector<Way> ways{{Transfer::kPinned, 149, 12600}, {Transfer::kMapped, 165, 30000}};
  EXPECT_TRUE(is_near(ways[0], ways));
  EXPECT_FALSE(is_near(ways[1], ways));
  EXPECT_EQ(best_way(ways).transfer, Transfer::kPinned);
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

}  // namespace
}  // namespace camd::pipeline
