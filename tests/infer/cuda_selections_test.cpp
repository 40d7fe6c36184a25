// Networks that shuffle channels: no kernel of its own lies between two convolutions.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/infer/cuda_graphs.hpp"
#include "tests/infer/cuda_plans.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::expect_reference;
using test::GraphBuilder;

int moves(const Graph& graph) {
  const cuda::Plan plan = test::plan_of(graph);
  return test::steps_of<cuda::MoveArguments>(plan) + test::steps_of<cuda::MovesArguments>(plan);
}

ValueId select(GraphBuilder& g, ValueId x, std::vector<std::int64_t> channels) {
  Shape shape = g.shape(x);
  shape[1] = static_cast<std::int64_t>(channels.size());
  return g.op(Gather{1, std::move(channels)}, {x}, shape);
}
// Of the channels of two halves by turns, `count` from `first` on.
std::vector<std::int64_t> shuffled(std::int64_t half, std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> channels;
  for (std::int64_t i = first; i < first + count; ++i) channels.push_back(i / 2 + i % 2 * half);
  return channels;
}
ValueId branch(GraphBuilder& g, ValueId x, int width) {
  return g.conv(g.conv(g.conv(x, width, 1), width, 3, 1, width, {}), width, 1);
}

// As ShuffleNet V2 in NanoDet: halves that are no multiple of 8 channels, joined, shuffled, and cut in two.
TEST(CudaSelections, AShuffleIsNoKernelOfItsOwn) {
  for (const int width : {10, 16, 58}) {
    GraphBuilder g({1, 3, 24, 32});
    const ValueId x = g.conv(g.input(), 16, 3, 2);
    ValueId whole = g.concat({g.conv(x, width, 1), branch(g, x, width)});
    for (int block = 0; block < 3; ++block) {
      const ValueId kept = select(g, whole, shuffled(width, 0, width));
      whole = g.concat({kept, branch(g, select(g, whole, shuffled(width, width, width)), width)});
    }
    const Graph graph = g.finish({g.conv(whole, 8, 1, 1, 1, {})});
    EXPECT_EQ(moves(graph), 0) << width;  // the block's own kernel copies what is kept
    expect_reference(graph, g.random_input());
  }
}

// As in FastestDet: every second channel.
TEST(CudaSelections, AConvolutionOfEverySecondChannelReadsThemWhereTheyLie) {
  GraphBuilder g({1, 3, 24, 32});
  const ValueId x = g.conv(g.input(), 48, 3, 2);
  const ValueId odd = g.op(Slice{{0, 1, 0, 0}, {1, 2, 1, 1}}, {x}, {1, 24, 12, 16});
  const Graph graph = g.finish({g.conv(g.conv(odd, 24, 1), 8, 3, 1, 1, {})});
  EXPECT_EQ(moves(graph), 1);  // the output
  expect_reference(graph, g.random_input());
}

TEST(CudaSelections, ADepthwiseConvolutionComputesShuffledChannelsInTheirOrder) {
  GraphBuilder g({1, 3, 24, 32});
  const ValueId x = g.conv(g.input(), 24, 3, 2);
  const ValueId order = select(g, x, shuffled(12, 0, 24));
  const ValueId deep = g.conv(order, 24, 3, 2, 24);
  const Graph graph = g.finish({g.conv(g.conv(deep, 16, 1), 8, 1, 1, 1, {}), g.conv(order, 8, 1, 1, 1, {})});
  EXPECT_EQ(moves(graph), 0);
  expect_reference(graph, g.random_input());
}

TEST(CudaSelections, AChannelThatIsTakenTwiceHasTheSumOfItsWeights) {
  GraphBuilder g({1, 3, 24, 32});
  const ValueId x = g.conv(g.input(), 8, 3, 2);
  const Graph graph = g.finish({g.conv(select(g, x, {5, 5, 0, 7, 5}), 16, 1, 1, 1, {})});
  EXPECT_EQ(moves(graph), 0);
  expect_reference(graph, g.random_input());
}

TEST(CudaSelections, AFewChannelsOfAWideImageAreCopied) {
  GraphBuilder g({1, 3, 24, 32});
  const ValueId x = g.conv(g.input(), 64, 3, 2);
  const Graph graph = g.finish({g.conv(select(g, x, {5, 50, 0, 7}), 16, 1, 1, 1, {})});
  EXPECT_EQ(moves(graph), 1);
  expect_reference(graph, g.random_input());
}

TEST(CudaSelections, WhatIsAlsoAnOutputKeepsItsChannels) {
  GraphBuilder g({1, 3, 24, 32});
  const ValueId x = g.conv(g.input(), 16, 3, 2);
  const ValueId whole = g.concat({g.conv(x, 10, 1), g.conv(x, 10, 1)});
  const ValueId mixed = select(g, whole, shuffled(10, 0, 20));
  expect_reference(g.finish({whole, mixed, g.conv(mixed, 8, 1, 1, 1, {})}), g.random_input());
}

TEST(CudaSelections, RandomSelectionsEqualTheReference) {
  std::mt19937 random(3);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  for (unsigned round = 0; round < 25; ++round) {
    GraphBuilder g({1, 3, 16, 24}, round);
    std::vector<ValueId> values{g.conv(g.input(), 12, 3, 2), g.conv(g.input(), 20, 3, 2)};
    for (int i = 0; i < 12; ++i) {
      const ValueId x = values[values.size() - 1 - below(std::min<std::size_t>(values.size(), 4))];
      const auto channels = static_cast<std::size_t>(g.shape(x)[1]);
      std::vector<std::int64_t> chosen(channels);
      std::iota(chosen.begin(), chosen.end(), 0);
      std::shuffle(chosen.begin(), chosen.end(), random);
      switch (below(4)) {
        case 0: values.push_back(g.conv(x, static_cast<int>(4 + below(20)), 1)); break;
        case 1: values.push_back(g.conv(x, static_cast<int>(channels), 3, 1, static_cast<int>(channels))); break;
        case 2:
          chosen.resize(1 + below(channels));
          values.push_back(select(g, x, chosen));
          break;
        default: {
          const ValueId other = values[below(values.size())];
          values.push_back(channels < 60 ? g.concat({x, other}) : select(g, x, chosen));
        }
      }
    }
    SCOPED_TRACE(round);
    expect_reference(g.finish({values.end() - 3, values.end()}), g.random_input());
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
