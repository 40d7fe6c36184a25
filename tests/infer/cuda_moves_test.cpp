// Copies that the planner makes together, and results that are written where they end.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/infer/cuda_graphs.hpp"
#include "tests/infer/cuda_plans.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::expect_reference;
using test::GraphBuilder;
using test::plan_of;
using test::steps_of;

// The positions of a picture as lines of its channels, as detectors put out their levels.
ValueId lines(GraphBuilder& g, ValueId picture) {
  const Shape s = g.shape(picture);
  const ValueId turned = g.op(Transpose{{0, 2, 3, 1}}, {picture}, {1, s[2], s[3], s[1]});
  return g.op(Reshape{}, {turned}, {1, s[2] * s[3], s[1]});
}

TEST(CudaMoves, CopiesToOutputsAreOneKernel) {
  GraphBuilder g({1, 3, 32, 48});
  const ValueId x = g.conv(g.input(), 16, 3, 2), y = g.conv(x, 16, 3, 2);
  std::vector<ValueId> outputs;
  for (const ValueId level : {x, y}) {
    for (const int channels : {4, 8, 10}) outputs.push_back(lines(g, g.conv(level, channels, 3, 1, 1, {})));
  }
  const Graph graph = g.finish(outputs);
  const cuda::Plan plan = plan_of(graph);
  EXPECT_EQ(steps_of<cuda::MovesArguments>(plan), 1);
  EXPECT_EQ(steps_of<cuda::MoveArguments>(plan), 0);
  expect_reference(graph, g.random_input());
}

TEST(CudaMoves, MoreCopiesThanAKernelTakesAreSeveral) {
  GraphBuilder g({1, 3, 16, 24});
  std::vector<ValueId> outputs;
  outputs.reserve(cuda::kMostMoves + 2);
  for (int i = 0; i < cuda::kMostMoves + 2; ++i) outputs.push_back(lines(g, g.conv(g.input(), 3 + i, 3, 2, 1, {})));
  const Graph graph = g.finish(outputs);
  EXPECT_EQ(steps_of<cuda::MovesArguments>(plan_of(graph)), 2);
  expect_reference(graph, g.random_input());
}

// By one element and by eight, with a function, a table and padding.
TEST(CudaMoves, CopiesOfEveryKindTogetherEqualTheReference) {
  GraphBuilder g({1, 16, 12, 16});
  const ValueId x = g.input();
  const ValueId rows = g.op(Transpose{{0, 2, 3, 1}}, {x}, {1, 12, 16, 16});
  const ValueId some = g.op(Gather{3, {3, 0, 15, 3}}, {x}, {1, 16, 12, 4});
  const ValueId part = g.op(Slice{{0, 8, 1, 8}, {1, 1, 2, 1}}, {x}, {1, 8, 5, 8});
  Pad pad;
  pad.before = {0, 0, 2, 3};
  pad.mode = Pad::Mode::kEdge;
  const ValueId padded = g.op(pad, {x}, {1, 16, 16, 20});
  const Graph graph = g.finish({rows, some, part, g.unary(x, {Function::kSigmoid}), padded});
  EXPECT_EQ(steps_of<cuda::MovesArguments>(plan_of(graph, DataType::kF32)), 1);
  expect_reference(graph, g.random_input());
}

// One that reads what another one makes has to wait.
TEST(CudaMoves, ACopyOfACopyIsAKernelOfItsOwn) {
  GraphBuilder g({1, 3, 12, 16});
  const ValueId first = g.op(Gather{3, {1, 0, 5}}, {g.input()}, {1, 3, 12, 3});
  const Graph graph = g.finish({first, g.op(Gather{2, {7, 2}}, {first}, {1, 3, 2, 3})});
  EXPECT_EQ(steps_of<cuda::MoveArguments>(plan_of(graph, DataType::kF32)), 2);
  expect_reference(graph, g.random_input());
}

// As NanoDet and YuNet end.
TEST(CudaMoves, AFunctionInFrontOfATransposedOutputWritesTheOutput) {
  GraphBuilder g({1, 3, 16, 24});
  const ValueId scores = g.unary(g.conv(g.input(), 12, 3, 2, 1, {}), {Function::kSigmoid});
  const Graph graph = g.finish({lines(g, scores)});
  const cuda::Plan plan = plan_of(graph);
  EXPECT_EQ(steps_of<cuda::MoveArguments>(plan), 1);
  expect_reference(graph, g.random_input());
}

// As YOLOX ends: the parts of each level, flattened, joined and transposed.
TEST(CudaMoves, PartsOfLevelsAreWrittenIntoTheTransposedOutput) {
  GraphBuilder g({1, 3, 32, 48});
  const ValueId x = g.conv(g.input(), 16, 3, 2), y = g.conv(x, 16, 3, 2);
  std::vector<ValueId> levels;
  for (const ValueId level : {x, y}) {
    levels.push_back(g.flat(g.concat({g.conv(level, 4, 1, 1, 1, {}), g.conv(level, 1, 1, 1, 1, {Function::kSigmoid}),
                                      g.conv(level, 20, 1, 1, 1, {Function::kSigmoid})})));
  }
  const ValueId all = g.concat(levels, 2);
  const Graph graph = g.finish({g.op(Transpose{{0, 2, 1}}, {all}, {1, g.shape(all)[2], 25})});
  const cuda::Plan plan = plan_of(graph);
  const int copies = steps_of<cuda::MovesArguments>(plan) + steps_of<cuda::MoveArguments>(plan);
  EXPECT_LE(copies, 2);  // a level's parts are made together
  for (const cuda::Step& step : plan.steps) {
    if (!std::holds_alternative<cuda::MovesArguments>(step.arguments)) continue;
    EXPECT_TRUE(std::all_of(step.writes.begin(), step.writes.end(),
                            [&](int buffer) { return buffer == plan.outputs[0].buffer; }));
  }
  expect_reference(graph, g.random_input());
}

// As a shuffle's kept half beside a chain: the chain keeps the first lane, in which kernels start early.
TEST(CudaMoves, AStepBesideTheLongestChainLeavesItsLane) {
  GraphBuilder g({1, 3, 40, 40});
  ValueId x = g.conv(g.input(), 32, 3, 2), kept = x;
  for (int i = 0; i < 4; ++i) {
    const ValueId deep = g.conv(g.conv(g.conv(x, 32, 1), 32, 5, 1, 32), 32, 1);
    kept = g.conv(g.unary(kept, {Function::kTanh}), 32, 5, 1, 32);
    x = g.concat({deep, kept});
  }
  const cuda::Plan plan = plan_of(g.finish({g.conv(x, 8, 1, 1, 1, {})}));
  for (const cuda::Step& step : plan.steps) {
    if (std::holds_alternative<cuda::TileProgramArguments>(step.arguments)) {
      EXPECT_EQ(step.lane, 0) << step.origin;
    }
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
