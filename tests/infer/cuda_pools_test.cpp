// Averages of whole images, alone and with two layers of them, as steps of a plan and under emulation.
#include <gtest/gtest.h>

#include "tests/infer/cuda_plans.hpp"

namespace camd::infer {
namespace {

using test::expect_reference;
using test::GraphBuilder;
using test::plan_of;
using test::steps_of;

ValueId average(GraphBuilder& g, ValueId x) {
  const Shape s = g.shape(x);
  Pool pool;
  pool.kind = Pool::Kind::kAverage;
  pool.kernel = {static_cast<int>(s[2]), static_cast<int>(s[3])};
  return g.op(pool, {x}, {1, s[1], 1, 1});
}

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
    expect_reference(graph, g.random_input());
  }
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
