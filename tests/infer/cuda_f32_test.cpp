// Convolutions in f32: on the tensor cores, and depthwise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "infer/cuda/plan/packing.hpp"
#include "infer/cuda/plan/plan.hpp"
#include "infer/graph/reference.hpp"
#include "tests/infer/cuda_emulated.hpp"
#include "tests/infer/cuda_graphs.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::GraphBuilder;
using test::relative_error;

// The largest error of the graph's first output, as a share of its largest value.
float error(const Graph& graph, const std::vector<float>& input, int products, DataType type = DataType::kF32) {
  cuda::PlanOptions options;
  options.type = type;
  options.products = products;
  const cuda::Plan plan = cuda::make_plan(graph, options, "test");
  return relative_error(test::run_emulated(plan, input)[0], run_reference(graph, input)[0].f32);
}

// Sums of 9 * 40 products; the reference adds in another order, which alone makes 1e-6.
Graph one_convolution(GraphBuilder& g) { return g.finish({g.conv(g.input(), 24, 3, 1, 1, {})}); }

TEST(F32Convolution, ThreeProductsLoseNothingThatF32Keeps) {
  GraphBuilder g({1, 40, 11, 9});
  const Graph graph = one_convolution(g);
  EXPECT_LE(error(graph, g.random_input(), 3), 2e-6F);
}

TEST(F32Convolution, OneProductRoundsToElevenDigits) {
  GraphBuilder g({1, 40, 11, 9});
  const Graph graph = one_convolution(g);
  const std::vector<float> input = g.random_input();
  EXPECT_LE(error(graph, input, 1), 1e-3F);
  EXPECT_GE(error(graph, input, 1), 10 * error(graph, input, 3)) << "or it is no TF32";
}

TEST(F32Convolution, AnyShapeEqualsTheReferenceWithAnyNumberOfProducts) {
  for (const int products : {0, 1, 3}) {
    for (const int channels : {3, 8, 20, 40}) {
      for (const auto& [kernel, stride] : {std::pair{1, 1}, std::pair{3, 2}, std::pair{5, 3}}) {
        SCOPED_TRACE(testing::Message() << products << " products, " << channels << " channels, " << kernel);
        GraphBuilder g({1, channels, 17, 13}, static_cast<unsigned>(channels));
        const ValueId a = g.conv(g.input(), 21, kernel, stride, 1, {Function::kSilu});
        const ValueId b = g.conv(a, 21, 3, 1, 1, {Function::kRelu}, a);
        const Graph graph = g.finish({g.conv(b, 70, 1, 1, 1, {}, kNoValue, true)});
        EXPECT_LE(error(graph, g.random_input(), products), products == 1 ? 4e-3F : 2e-5F);
      }
    }
  }
}

TEST(F32Convolution, LargeTilesEqualTheReference) {
  GraphBuilder g({1, 20, 90, 90});
  const Graph graph = g.finish({g.conv(g.input(), 72, 1, 1, 1, {Function::kRelu})});
  EXPECT_LE(error(graph, g.random_input(), 3), 1e-5F);
}

TEST(F32Convolution, WhatIsNotANumberStaysNone) {
  for (const int products : {1, 3}) {
    GraphBuilder g({1, 8, 5, 5});
    const Graph graph = g.finish({g.conv(g.input(), 8, 1, 1, 1, {})});
    std::vector<float> input = g.random_input();
    input[12] = std::nanf("");
    cuda::PlanOptions options;
    options.type = DataType::kF32;
    options.products = products;
    const std::vector<float> got = test::run_emulated(cuda::make_plan(graph, options, "test"), input)[0];
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::isnan(got[i]), i % 25 == 12) << i;
  }
}

TEST(F32Convolution, DepthwiseOnesOfAnySizeEqualTheReference) {
  for (const int kernel : {1, 3, 5, 7, 19}) {
    for (const int channels : {8, 44, 72}) {
      for (const DataType type : {DataType::kF16, DataType::kF32}) {
        SCOPED_TRACE(testing::Message() << "kernel " << kernel << ", " << channels << " channels");
        GraphBuilder g({1, channels, 23, 14}, static_cast<unsigned>(channels));
        const ValueId a = g.conv(g.input(), channels, kernel, 2, channels, {Function::kHardSwish});
        const Graph graph = g.finish({g.conv(a, channels, kernel, 1, channels, {Function::kRelu}, a)});
        EXPECT_LE(error(graph, g.random_input(), 3, type), type == DataType::kF16 ? 2e-2F : 1e-5F);
      }
    }
  }
}

TEST(Packing, WeightsAreRoundedToTheNearestNumberOfElevenDigits) {
  const auto first = [](float weight) {
    return cuda::pack_tf32(1, 1, 1, true, [&](int, int, int) { return weight; })[0];
  };
  EXPECT_EQ(first(1.0F + 0x1p-10F), 1.0F + 0x1p-10F);
  EXPECT_EQ(first(1.0F + 0x1p-12F), 1.0F);
  EXPECT_EQ(first(1.0F + 0x3p-12F), 1.0F + 0x1p-10F);
  EXPECT_EQ(first(-1.0F - 0x3p-12F), -1.0F - 0x1p-10F);
  EXPECT_EQ(first(std::numeric_limits<float>::max()), std::numeric_limits<float>::max());
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
