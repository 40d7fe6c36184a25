// Elementwise operators that one kernel computes together, and those that a convolution takes along.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "infer/cuda/kernels/elementwise.hpp"
#include "tests/infer/cuda_graphs.hpp"
#include "tests/infer/cuda_plans.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::expect_reference;
using test::GraphBuilder;
using test::plan_of;
using test::steps_of;

constexpr auto kAdd = Binary::Kind::kAdd;
constexpr auto kSub = Binary::Kind::kSub;
constexpr auto kMul = Binary::Kind::kMul;

// Alone, or as one of several of a kernel.
int elementwise_programs(const Graph& graph) {
  int programs = 0;
  for (const cuda::Step& step : plan_of(graph).steps) {
    if (const auto* all = std::get_if<cuda::ElementwisesArguments>(&step.arguments)) programs += all->count;
    programs += std::holds_alternative<cuda::ElementwiseArguments>(step.arguments) ? 1 : 0;
  }
  return programs;
}

// As YOLO11 makes boxes of distances: corners, centre and size, joined and scaled.
TEST(CudaElementwise, TheTailOfADetectorIsAProgramForEachPartOfTheBox) {
  GraphBuilder g({1, 4, 50});
  const auto part = [&](std::int64_t first) { return g.op(Slice{{0, first, 0}, {1, 1, 1}}, {g.input()}, {1, 2, 50}); };
  const ValueId anchors = g.constant({1, 2, 50});
  const ValueId low = g.binary(kSub, anchors, part(0)), high = g.binary(kAdd, anchors, part(2));
  const ValueId centre = g.binary(Binary::Kind::kDiv, g.binary(kAdd, low, high), g.constant({1}));
  const ValueId box = g.concat({centre, g.binary(kSub, high, low)});
  const Graph graph = g.finish({g.binary(kMul, box, g.constant({1, 50}))});
  EXPECT_EQ(elementwise_programs(graph), 2);
  EXPECT_EQ(plan_of(graph).steps.size(), 1U);
  expect_reference(graph, g.random_input());
}

// Of other shapes and ranks, and so many that they need two kernels.
TEST(CudaElementwise, ProgramsThatReadTheSameAreComputedTogether) {
  GraphBuilder g({1, 4, 6, 10});
  const ValueId x = g.input();
  const ValueId turned = g.op(Transpose{{0, 3, 1, 2}}, {x}, {1, 10, 4, 6});
  const ValueId line = g.op(Reshape{}, {x}, {240});
  const Graph graph = g.finish({g.binary(kAdd, x, g.constant({4, 1, 10})), g.binary(kMul, turned, g.constant({4, 1})),
                                g.binary(kSub, line, g.constant({1})), g.binary(kAdd, x, g.constant({6, 1})),
                                g.binary(kMul, line, g.constant({240}))});
  EXPECT_EQ(steps_of<cuda::ElementwisesArguments>(plan_of(graph)), 1);
  EXPECT_EQ(steps_of<cuda::ElementwiseArguments>(plan_of(graph)), 1);
  expect_reference(graph, g.random_input());
}

// Large ones are computed eight elements at a time, which a kernel of several programs does not do.
TEST(CudaElementwise, LargeOnesAreKernelsOfTheirOwn) {
  GraphBuilder g({1, 4, 256, 256});
  const Graph graph =
      g.finish({g.binary(kAdd, g.input(), g.constant({4, 1, 1})), g.binary(kMul, g.input(), g.constant({4, 1, 1}))});
  EXPECT_EQ(steps_of<cuda::ElementwiseArguments>(plan_of(graph)), 2);
}

TEST(CudaElementwise, AFactorThatDiffersBetweenThePartsStaysBehindThem) {
  GraphBuilder g({1, 4, 50});
  const ValueId a = g.unary(g.input(), {Function::kExp}), b = g.unary(g.input(), {Function::kTanh});
  const Graph graph = g.finish({g.binary(kMul, g.concat({a, b}), g.constant({1, 8, 1}))});
  EXPECT_EQ(elementwise_programs(graph), 1);
  expect_reference(graph, g.random_input());
}

TEST(CudaElementwise, AFunctionOfJoinedLevelsIsComputedByTheirConvolutions) {
  GraphBuilder g({1, 3, 32, 48});
  const ValueId x = g.conv(g.input(), 16, 3, 2), y = g.conv(x, 16, 3, 2);
  std::vector<ValueId> levels;
  for (const ValueId from : {x, y}) {
    levels.push_back(g.flat(g.conv(from, 20, 1, 1, 1, {})));
  }
  const Graph graph = g.finish({g.unary(g.concat(levels, 2), {Function::kSigmoid})});
  EXPECT_EQ(steps_of<cuda::MoveArguments>(plan_of(graph)), 0);  // the convolutions write their levels themselves
  expect_reference(graph, g.random_input());
}

TEST(CudaElementwise, WhatIsAnOutputOrReadByAnotherKindIsStored) {
  GraphBuilder g({1, 4, 5, 6});
  const ValueId a = g.binary(kAdd, g.input(), g.constant({1, 4, 1, 1}));
  const ValueId b = g.binary(kMul, a, g.input());
  const ValueId c = g.unary(b, {Function::kExp});
  const ValueId largest = g.op(Softmax{1, false}, {a}, g.shape(a));
  const Graph graph = g.finish({b, c, largest});
  EXPECT_EQ(elementwise_programs(graph), 2);  // a and b; the function is a move
  expect_reference(graph, g.random_input());
}

TEST(CudaElementwise, WhatIsRepeatedIsStoredOnce) {
  GraphBuilder g({1, 4, 1, 6});
  const ValueId line = g.binary(kAdd, g.input(), g.constant({1, 4, 1, 1}));
  const ValueId whole = g.op(Binary{kMul}, {line, g.constant({1, 4, 5, 6})}, {1, 4, 5, 6});
  const Graph graph = g.finish({whole});
  EXPECT_EQ(elementwise_programs(graph), 2);
  expect_reference(graph, g.random_input());
}

TEST(CudaElementwise, AValueThatThreeStepsReadIsComputedOnce) {
  GraphBuilder g({1, 4, 5, 6});
  const ValueId a = g.binary(kAdd, g.input(), g.constant({1}));
  const Graph graph = g.finish(
      {g.binary(kMul, a, g.constant({1})), g.binary(kMul, a, g.constant({1})), g.binary(kSub, a, g.constant({1}))});
  EXPECT_EQ(elementwise_programs(graph), 4);
  expect_reference(graph, g.random_input());
}

TEST(CudaElementwise, ALongChainIsCutWhereAStepIsFull) {
  GraphBuilder g({1, 4, 5, 6});
  ValueId x = g.input();
  for (int i = 0; i < 40; ++i) x = g.unary(g.binary(i % 2 == 0 ? kAdd : kMul, x, x), {Function::kTanh});
  const Graph graph = g.finish({x});
  EXPECT_EQ(plan_of(graph).steps.size(), 5U);  // 80 operators, 16 in each
  expect_reference(graph, g.random_input());
}

TEST(CudaElementwise, ASumOfManyIsCutWhereAStepHasAllItsInputs) {
  GraphBuilder g({1, 4, 5, 6});
  ValueId sum = g.input();
  for (int i = 0; i < 12; ++i) sum = g.binary(kAdd, sum, g.constant({1, 4, 5, 6}));
  const Graph graph = g.finish({sum});
  EXPECT_EQ(elementwise_programs(graph), 2);
  expect_reference(graph, g.random_input());
}

// Any order of the operators, values that are read several times, and shapes that are broadcast.
TEST(CudaElementwise, RandomOperatorsEqualTheReference) {
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::vector<Shape> constants{{1}, {6}, {5, 1}, {4, 1, 1}, {1, 4, 5, 6}};
  const std::vector<Function> functions{Function::kTanh, Function::kSigmoid, Function::kAbs, Function::kHardSwish};
  for (unsigned round = 0; round < 60; ++round) {
    GraphBuilder g({1, 4, 5, 6}, round);
    std::vector<ValueId> values{g.input(), g.conv(g.input(), 4, 3)};
    for (int i = 0; i < 25; ++i) {
      const ValueId a = values[values.size() - 1 - below(std::min<std::size_t>(values.size(), 6))];
      ValueId made = kNoValue;
      switch (below(4)) {
        case 0: made = g.unary(a, {functions[below(functions.size())]}); break;
        case 1: made = g.binary(below(2) == 0 ? kAdd : kMul, a, g.constant(constants[below(constants.size())])); break;
        default:
          made = g.binary(below(2) == 0 ? kAdd : kSub, a, values[below(values.size())], {Function::kTanh});
          break;
      }
      values.push_back(made);
    }
    std::vector<ValueId> outputs{values.back()};
    for (int i = 0; i < 3; ++i) outputs.push_back(values[2 + below(values.size() - 2)]);
    SCOPED_TRACE(round);
    expect_reference(g.finish(outputs), g.random_input());
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
