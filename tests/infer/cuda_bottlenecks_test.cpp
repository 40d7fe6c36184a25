// A 1x1, a depthwise 3x3 and a 1x1 convolution behind each other are one kernel, under emulation.
#include <gtest/gtest.h>

#include "tests/infer/cuda_graphs.hpp"
#include "tests/infer/cuda_plans.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::expect_reference;
using test::GraphBuilder;

int bottlenecks(const Graph& graph) { return test::steps_of<cuda::BottleneckArguments>(test::plan_of(graph)); }

struct Block {
  int from, between, to;
  int stride = 1;
  Function function = Function::kRelu;
  bool adds = false, activation_first = false;
  int height = 24, width = 40;  // of the picture, twice as large as the block's input
};
class Bottleneck : public testing::TestWithParam<Block> {};

TEST_P(Bottleneck, IsOneKernelThatEqualsTheReference) {
  const Block& b = GetParam();
  GraphBuilder g({1, 3, b.height, b.width});
  const ValueId x = g.conv(g.input(), b.from, 3, 2);
  const Activation f{b.function};
  const ValueId deep = g.conv(g.conv(x, b.between, 1, 1, 1, f), b.between, 3, b.stride, b.between, f);
  const ValueId y = g.conv(deep, b.to, 1, 1, 1, f, b.adds ? x : kNoValue, b.activation_first);
  const Graph graph = g.finish({g.conv(y, 8, 3, 1, 1, {})});
  EXPECT_EQ(bottlenecks(graph), 1);
  expect_reference(graph, g.random_input());
}

INSTANTIATE_TEST_SUITE_P(Blocks, Bottleneck,
                         testing::Values(Block{16, 32, 24}, Block{24, 24, 24, 2}, Block{58, 58, 58}, Block{10, 20, 72},
                                         Block{64, 64, 116, 2, Function::kLeakyRelu},
                                         Block{32, 48, 32, 1, Function::kSilu, true, true},
                                         Block{20, 40, 20, 1, Function::kNone, true},
                                         Block{12, 40, 12, 1, Function::kRelu, true},
                                         Block{64, 96, 136, 2, Function::kHardSwish, false, false, 26, 30},
                                         Block{8, 16, 16, 1, Function::kRelu, false, false, 182, 214}));

// As in FastestDet: the even channels of a block's input are kept beside what the block makes of the odd ones.
TEST(Bottlenecks, KeepTheChannelsThatAreJoinedWithTheirResult) {
  GraphBuilder g({1, 3, 22, 30});
  ValueId whole = g.conv(g.input(), 48, 3, 2);
  const auto every_second = [&](ValueId x, std::int64_t first) {
    Shape shape = g.shape(x);
    shape[1] /= 2;
    return g.op(Slice{{0, first, 0, 0}, {1, 2, 1, 1}}, {x}, shape);
  };
  for (int block = 0; block < 3; ++block) {
    const ValueId made = g.conv(g.conv(g.conv(every_second(whole, 1), 24, 1), 24, 3, 1, 24, {}), 24, 1);
    whole = g.concat({every_second(whole, 0), made});
  }
  const Graph graph = g.finish({g.conv(whole, 8, 1, 1, 1, {})});
  EXPECT_EQ(bottlenecks(graph), 3);
  EXPECT_EQ(test::steps_of<cuda::MoveArguments>(test::plan_of(graph)), 0);
  expect_reference(graph, g.random_input());
}

// Of the channels that only weights of 0 meet nothing is read: the first convolution multiplies half of them.
TEST(Bottlenecks, ReadOnlyTheGroupsOfChannelsThatHaveWeights) {
  GraphBuilder g({1, 3, 24, 32});
  const ValueId x = g.conv(g.input(), 64, 3, 2);
  const ValueId upper = g.op(Gather{1, {}}, {x}, {1, 32, 12, 16});
  auto& channels = std::get<Gather>(g.graph().ops.back().operation).indices;
  for (std::int64_t i = 0; i < 32; ++i) channels.push_back(32 + i % 2 * 16 + i / 2);
  const Graph graph = g.finish({g.conv(g.conv(g.conv(g.conv(upper, 32, 1), 32, 3, 1, 32), 32, 1), 8, 3, 1, 1, {})});
  const cuda::Plan plan = test::plan_of(graph);
  for (const cuda::Step& step : plan.steps) {
    const auto* const a = std::get_if<cuda::BottleneckArguments>(&step.arguments);
    EXPECT_EQ(a != nullptr ? a->front_groups : 4, 4);
  }
  ASSERT_EQ(bottlenecks(graph), 1);
  expect_reference(graph, g.random_input());
}

TEST(Bottlenecks, LayersThatWouldComputeTooMuchTwiceHaveTwoKernels) {
  GraphBuilder g({1, 3, 24, 32});
  const ValueId x = g.conv(g.input(), 232, 3, 2);
  const Graph graph = g.finish({g.conv(g.conv(g.conv(g.conv(x, 232, 1), 232, 3, 1, 232), 232, 1), 8, 3, 1, 1, {})});
  EXPECT_EQ(bottlenecks(graph), 0);
  EXPECT_EQ(test::steps_of<cuda::SeparableArguments>(test::plan_of(graph)), 1);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
