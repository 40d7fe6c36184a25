// Averages of whole images, alone and with two layers of them, as steps of a plan and under emulation.
#include <gtest/gtest.h>

#include "tests/infer/cuda_plans.hpp"

namespace camd::infer {
namespace {

using test::average;
using test::expect_reference;
using test::GraphBuilder;
using test::plan_of;
using test::steps_of;

// Squeeze and excitation, as mobile networks have it.
Graph excited(GraphBuilder& g, int channels, int hidden, int stride) {
  const ValueId x = g.conv(g.input(), channels, 3, stride);
  const ValueId small = g.conv(average(g, x), hidden, 1);
  const ValueId gate = g.conv(small, channels, 1, 1, 1, {Function::kHardSigmoid, 0.2F, 0.5F});
  const ValueId y = g.binary(Binary::Kind::kMul, x, gate);
  return g.finish({g.conv(y, 8, 1)});
}

TEST(CudaSqueeze, TheMeanAndItsTwoLayersAreOneStep) {
  for (const auto& [channels, hidden, stride] : {std::tuple{48, 12, 1}, {44, 11, 2}, {8, 2, 4}, {130, 33, 4}}) {
    GraphBuilder g({1, 3, 34, 28}, static_cast<unsigned>(channels));
    const Graph graph = excited(g, channels, hidden, stride);
    EXPECT_EQ(steps_of<cuda::SqueezeArguments>(plan_of(graph)), 1);
    EXPECT_EQ(steps_of<cuda::PoolArguments>(plan_of(graph)), 0);
    EXPECT_EQ(steps_of<cuda::ElementwiseArguments>(plan_of(graph)), 0);  // the product is part of the step
    expect_reference(graph, g.random_input());
  }
}

TEST(CudaSqueeze, AProductThatIsJoinedIsMadeWhereItBelongs) {
  GraphBuilder g({1, 3, 24, 40});
  const ValueId x = g.conv(g.input(), 16, 3);
  const ValueId gate = g.conv(g.conv(average(g, x), 4, 1), 16, 1, 1, 1, {Function::kSigmoid});
  const ValueId joined = g.concat({g.op(Binary{Binary::Kind::kMul}, {gate, x}, g.shape(x)), g.conv(x, 8, 1)});
  const Graph graph = g.finish({g.conv(joined, 8, 1)});
  EXPECT_EQ(steps_of<cuda::MoveArguments>(plan_of(graph)), 1);  // the picture's
  expect_reference(graph, g.random_input());
}

TEST(CudaSqueeze, AGateThatOthersReadIsMadeForAll) {
  GraphBuilder g({1, 3, 20, 20});
  const ValueId x = g.conv(g.input(), 16, 3), other = g.conv(g.input(), 16, 3);
  const ValueId gate = g.conv(g.conv(average(g, x), 4, 1), 16, 1, 1, 1, {Function::kSigmoid});
  const ValueId y = g.binary(Binary::Kind::kMul, x, gate), z = g.binary(Binary::Kind::kMul, other, gate);
  const Graph graph = g.finish({g.conv(y, 8, 1), g.conv(z, 8, 1)});
  EXPECT_EQ(steps_of<cuda::SqueezeArguments>(plan_of(graph)), 1);
  expect_reference(graph, g.random_input());
}

TEST(CudaSqueeze, AMeanThatOthersReadStaysAPool) {
  GraphBuilder g({1, 3, 20, 20});
  const ValueId mean = average(g, g.conv(g.input(), 16, 3));
  const ValueId layers = g.conv(g.conv(mean, 4, 1), 16, 1);
  const Graph graph = g.finish({g.binary(Binary::Kind::kMul, layers, mean)});
  EXPECT_EQ(steps_of<cuda::SqueezeArguments>(plan_of(graph)), 0);
  EXPECT_EQ(steps_of<cuda::PoolArguments>(plan_of(graph)), 1);
  expect_reference(graph, g.random_input());
}

TEST(CudaSqueeze, ConvolutionsThatF32IsAskedForAreNotSqueezed) {
  GraphBuilder g({1, 3, 20, 20});
  const Graph graph = excited(g, 16, 4, 1);
  for (const std::size_t which : {1U, 2U}) {
    cuda::PlanOptions options;
    options.f32_convolutions.assign(4, false);
    options.f32_convolutions[which] = true;
    EXPECT_EQ(steps_of<cuda::SqueezeArguments>(cuda::make_plan(graph, options, "test")), 0);
  }
}

TEST(CudaPools, AveragesOfWholeImagesEqualTheReference) {
  for (const auto& [channels, side] : {std::pair{12, 40}, {64, 8}, {3, 7}}) {
    GraphBuilder g({1, 3, side, side});
    expect_reference(g.finish({average(g, g.conv(g.input(), channels, 3))}), g.random_input());
  }
}

}  // namespace
}  // namespace camd::infer
