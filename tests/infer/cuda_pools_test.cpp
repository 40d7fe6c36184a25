// Averages of whole images, alone and with two layers of them, as steps of a plan and under emulation.
#include <gtest/gtest.h>

#include "tests/infer/cuda_plans.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

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

// How many squeezes of the plan read sums that depthwise convolutions made.
int squeezes_of_sums(const cuda::Plan& plan) {
  int count = 0;
  for (const cuda::Step& step : plan.steps) {
    const auto* squeeze = std::get_if<cuda::SqueezeArguments>(&step.arguments);
    count += squeeze != nullptr && squeeze->sums != nullptr ? 1 : 0;
  }
  return count;
}

// Squeeze and excitation of `image`, and a convolution of the result.
Graph excited_image(GraphBuilder& g, ValueId image, int hidden) {
  const auto channels = static_cast<int>(g.shape(image)[1]);
  const ValueId gate = g.conv(g.conv(average(g, image), hidden, 1), channels, 1, 1, 1, {Function::kSigmoid});
  return g.finish({g.conv(g.binary(Binary::Kind::kMul, image, gate), 8, 1)});
}

TEST(CudaSqueeze, ADepthwiseConvolutionAddsThePixelsThatItMakes) {
  for (const auto& [channels, side, stride] : {std::tuple{48, 3, 1}, {44, 5, 2}, {130, 7, 1}, {8, 3, 4}}) {
    GraphBuilder g({1, 3, 34, 28}, static_cast<unsigned>(channels));
    const ValueId x = g.conv(g.input(), channels, 3);
    const Graph graph = excited_image(g, g.conv(x, channels, side, stride, channels), channels / 4);
    EXPECT_EQ(squeezes_of_sums(plan_of(graph)), 1);
    expect_reference(graph, g.random_input());
  }
}

TEST(CudaSqueeze, ADepthwiseConvolutionAddsThePixelsThatItReadsWhereTheyAreJoined) {
  for (const int channels : {24, 60}) {
    for (const bool made_first : {false, true}) {
      GraphBuilder g({1, 3, 26, 20});
      const ValueId x = g.conv(g.input(), channels, 3), y = g.conv(x, channels, 5, 1, channels);
      const Graph graph = excited_image(g, made_first ? g.concat({y, x}) : g.concat({x, y}), 12);
      EXPECT_EQ(squeezes_of_sums(plan_of(graph)), 1);
      expect_reference(graph, g.random_input());
    }
  }
}

TEST(CudaSqueeze, PixelsThatNoDepthwiseConvolutionSeesAreAddedByTheSqueeze) {
  GraphBuilder g({1, 3, 26, 20});
  const ValueId x = g.conv(g.input(), 16, 3), other = g.conv(g.input(), 8, 3, 2);
  const Graph graph = excited_image(g, g.concat({g.conv(x, 16, 3, 2, 16), other}), 12);
  EXPECT_EQ(steps_of<cuda::SqueezeArguments>(plan_of(graph)), 1);
  EXPECT_EQ(squeezes_of_sums(plan_of(graph)), 0);
  expect_reference(graph, g.random_input());
}

TEST(CudaPools, AveragesOfWholeImagesEqualTheReference) {
  for (const auto& [channels, side] : {std::pair{12, 40}, {64, 8}, {3, 7}}) {
    GraphBuilder g({1, 3, side, side});
    expect_reference(g.finish({average(g, g.conv(g.input(), channels, 3))}), g.random_input());
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
