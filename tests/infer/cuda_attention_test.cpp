// Attention as one step of a plan, and its kernel under emulation.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "infer/cuda/plan/plan.hpp"
#include "infer/graph/reference.hpp"
#include "tests/infer/cuda_emulated.hpp"
#include "tests/infer/cuda_graphs.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using cuda::Plan;
using cuda::PlanOptions;
using test::GraphBuilder;
using test::relative_error;

PlanOptions f16() {
  PlanOptions options;
  options.shared_bytes = std::size_t{227} * 1024;
  return options;
}

template <typename T>
int count(const Plan& plan) {
  return static_cast<int>(std::count_if(plan.steps.begin(), plan.steps.end(),
                                        [](const cuda::Step& s) { return std::holds_alternative<T>(s.arguments); }));
}

void expect_like_reference(GraphBuilder& g, const Graph& graph, const PlanOptions& options, float tolerance) {
  const std::vector<float> input = g.random_input();
  const std::vector<Constant> want = run_reference(graph, input);
  const auto got = test::run_emulated(cuda::make_plan(graph, options, "test"), input);
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_LE(relative_error(got[i], want[i].f32), tolerance);
}

ValueId transpose(GraphBuilder& g, ValueId x, const std::vector<int>& permutation) {
  Shape to;
  for (const int d : permutation) to.push_back(g.shape(x)[static_cast<std::size_t>(d)]);
  return g.op(Transpose{permutation}, {x}, to);
}
ValueId reshape(GraphBuilder& g, ValueId x, Shape to) { return g.op(Reshape{}, {x}, std::move(to)); }
// Elements [first, first + size) of dimension 2 of four.
ValueId part(GraphBuilder& g, ValueId x, std::int64_t first, std::int64_t size) {
  Shape to = g.shape(x);
  to[2] = size;
  return g.op(Slice{{0, 0, first, 0}, {1, 1, 1, 1}}, {x}, to);
}
ValueId scaled(GraphBuilder& g, ValueId x, float factor) {
  const ValueId number = g.constant({1});
  Graph& graph = g.graph();
  auto c = *graph.values[static_cast<std::size_t>(number)].constant;
  c.f32[0] = factor;
  graph.values[static_cast<std::size_t>(number)].constant = std::make_shared<const Constant>(c);
  return g.op(Binary{Binary::Kind::kMul}, {x, number}, g.shape(x));
}

// As YOLO11 writes it: q, k and v are channels of a picture, and the result is one again.
Graph of_a_picture(GraphBuilder& g, std::int64_t heads, std::int64_t depth, std::int64_t width,
                   bool scaled_queries = false) {
  const ValueId x = g.conv(g.input(), 16, 3, 2);
  const std::int64_t all = heads * (2 * depth + width);
  const ValueId qkv = g.conv(x, static_cast<int>(all), 1, 1, 1, {});
  const std::int64_t h = g.shape(qkv)[2], w = g.shape(qkv)[3], n = h * w;
  const ValueId rows = reshape(g, qkv, {1, heads, 2 * depth + width, n});
  const ValueId q = part(g, rows, 0, depth), k = part(g, rows, depth, depth), v = part(g, rows, 2 * depth, width);
  const ValueId queries = transpose(g, scaled_queries ? scaled(g, q, 0.3F) : q, {0, 1, 3, 2});
  const ValueId scores = g.op(MatMul{}, {queries, k}, {1, heads, n, n});
  const ValueId softmax = g.op(Softmax{3}, {scaled_queries ? scores : scaled(g, scores, 0.3F)}, {1, heads, n, n});
  const ValueId out = g.op(MatMul{}, {v, transpose(g, softmax, {0, 1, 3, 2})}, {1, heads, width, n});
  const ValueId picture = reshape(g, out, {1, heads * width, h, w});
  return g.finish({g.conv(picture, 8, 1, 1, 1, {})});
}

TEST(CudaAttention, TakesOneStepWhereQueriesKeysAndValuesAreChannelsOfAPicture) {
  GraphBuilder g({1, 3, 30, 26});  // 15 x 13 positions: 195 keys are not a multiple of 16, and more than 128
  const Graph graph = of_a_picture(g, 2, 32, 64);
  const Plan plan = cuda::make_plan(graph, f16(), "test");
  EXPECT_EQ(count<cuda::AttentionArguments>(plan), 1);
  EXPECT_EQ(count<cuda::MatMulArguments>(plan), 0);
  EXPECT_EQ(count<cuda::SoftmaxArguments>(plan), 0);
  EXPECT_EQ(count<cuda::ElementwiseArguments>(plan), 0);
  EXPECT_EQ(count<cuda::MoveArguments>(plan), 0);
  expect_like_reference(g, graph, f16(), 1e-2F);
}

TEST(CudaAttention, TakesTheFactorOfTheQueriesAlong) {
  GraphBuilder g({1, 3, 16, 16});
  const Graph graph = of_a_picture(g, 2, 16, 32, true);
  const Plan plan = cuda::make_plan(graph, f16(), "test");
  EXPECT_EQ(count<cuda::AttentionArguments>(plan), 1);
  EXPECT_EQ(count<cuda::ElementwiseArguments>(plan), 0);
  EXPECT_EQ(count<cuda::MoveArguments>(plan), 0);
  expect_like_reference(g, graph, f16(), 1e-2F);
}

TEST(CudaAttention, ItsResultIsCopiedWhereAPictureCannotBeAViewOfIt) {
  GraphBuilder g({1, 3, 30, 26});
  Graph graph = of_a_picture(g, 2, 32, 64);
  const auto picture = std::find_if(graph.ops.rbegin(), graph.ops.rend(),
                                    [](const Op& op) { return std::holds_alternative<Reshape>(op.operation); });
  graph.values[static_cast<std::size_t>(picture->output)].shape = {1, 64, 15, 26};
  graph.ops.back().operation = Unary{{Function::kRelu}};
  graph.ops.back().inputs.resize(1);
  graph.values[static_cast<std::size_t>(graph.ops.back().output)].shape = {1, 64, 15, 26};
  expect_like_reference(g, graph, f16(), 1e-2F);
}

TEST(CudaAttention, TakesDepthsThatAreNoMultipleOfEight) {
  GraphBuilder g({1, 3, 12, 10});
  const Graph graph = of_a_picture(g, 3, 5, 24);
  EXPECT_EQ(count<cuda::AttentionArguments>(cuda::make_plan(graph, f16(), "test")), 1);
  expect_like_reference(g, graph, f16(), 1e-2F);
}

TEST(CudaAttention, TakesTheWidestHeads) {
  GraphBuilder g({1, 3, 12, 12});
  const Graph graph = of_a_picture(g, 1, 128, 128);
  EXPECT_EQ(count<cuda::AttentionArguments>(cuda::make_plan(graph, f16(), "test")), 1);
  expect_like_reference(g, graph, f16(), 1e-2F);
}

// As transformers write it: probabilities times v, with a bias, and heads joined behind it.
Graph of_tokens(GraphBuilder& g, std::int64_t depth) {
  const ValueId x = g.conv(g.input(), static_cast<int>(2 * depth), 3, 2);
  const std::int64_t n = g.shape(x)[2] * g.shape(x)[3];
  const ValueId tokens = transpose(g, reshape(g, x, {1, 2, depth, n}), {0, 1, 3, 2});
  const ValueId keys = g.unary(tokens, {Function::kTanh});
  const ValueId scores = g.op(MatMul{}, {tokens, transpose(g, keys, {0, 1, 3, 2})}, {1, 2, n, n});
  const ValueId sum =
      g.op(Binary{Binary::Kind::kAdd}, {scaled(g, scores, 0.5F), g.constant({1, 2, n, n})}, {1, 2, n, n});
  const ValueId softmax = g.op(Softmax{3}, {sum}, {1, 2, n, n});
  const ValueId out = g.op(MatMul{}, {softmax, tokens}, {1, 2, n, depth});
  return g.finish({reshape(g, transpose(g, out, {0, 2, 1, 3}), {1, n, 2 * depth})});
}

// The plan's only generic convolution with groups, or null.
const cuda::GenericConvArguments* depthwise_of(const Plan& plan) {
  for (const cuda::Step& step : plan.steps) {
    const auto* conv = std::get_if<cuda::GenericConvArguments>(&step.arguments);
    if (conv != nullptr && conv->groups > 1) return conv;
  }
  return nullptr;
}

// YOLO11 adds a depthwise convolution of the values to the result.
TEST(CudaAttention, PositionsOfItsValuesAreMadeBesideItAndAddedWhereTheSumIsRead) {
  GraphBuilder g({1, 3, 20, 20});
  const ValueId x = g.conv(g.input(), 32, 3), values = g.conv(x, 32, 1), beside = g.conv(x, 32, 1);
  const ValueId positions = g.conv(values, 32, 5, 1, 32, {}, beside);
  const Graph graph = g.finish({g.conv(g.conv(positions, 48, 1), 16, 3)});
  const Plan plan = cuda::make_plan(graph, f16(), "test");
  const auto* depthwise = depthwise_of(plan);
  ASSERT_NE(depthwise, nullptr);
  EXPECT_EQ(depthwise->residual.data, nullptr);
  EXPECT_EQ(count<cuda::ElementwiseArguments>(plan), 0);
  expect_like_reference(g, graph, f16(), 2e-2F);
}

TEST(CudaAttention, AResidualThatTheConvolutionIsMadeOfStaysThere) {
  GraphBuilder g({1, 3, 20, 20});
  const ValueId x = g.conv(g.input(), 32, 3);
  const Graph graph = g.finish({g.conv(g.conv(x, 32, 5, 1, 32, {}, x), 48, 1)});
  const Plan plan = cuda::make_plan(graph, f16(), "test");
  const auto* depthwise = depthwise_of(plan);
  ASSERT_NE(depthwise, nullptr);
  EXPECT_NE(depthwise->residual.data, nullptr);
  expect_like_reference(g, graph, f16(), 2e-2F);
}

TEST(CudaAttention, TakesAsFewRoundsAsItCanWithTheWarpsThatTheseNeed) {
  const auto shares = [](int depth, int width, int keys) {
    const cuda::AttentionShape shape = cuda::attention_shape(depth, width, keys);
    return std::pair{shape.rounds, shape.warps};
  };
  EXPECT_EQ(shares(32, 64, 16), (std::pair{1, 1}));
  EXPECT_EQ(shares(32, 64, 256), (std::pair{1, 4}));
  EXPECT_EQ(shares(32, 64, 400), (std::pair{1, 7}));
  EXPECT_EQ(shares(32, 64, 520), (std::pair{2, 5}));
  EXPECT_EQ(shares(65, 64, 400), (std::pair{4, 7}));
}

TEST(CudaAttention, AddsABiasAndWritesTheHeadsSideBySide) {
  GraphBuilder g({1, 3, 14, 10});
  const Graph graph = of_tokens(g, 16);
  const Plan plan = cuda::make_plan(graph, f16(), "test");
  EXPECT_EQ(count<cuda::AttentionArguments>(plan), 1);
  EXPECT_EQ(count<cuda::MatMulArguments>(plan), 0);
  expect_like_reference(g, graph, f16(), 1e-2F);
}

TEST(CudaAttention, IsNotTakenInF32) {
  GraphBuilder g({1, 3, 14, 10});
  const Graph graph = of_tokens(g, 16);
  PlanOptions options = f16();
  options.type = DataType::kF32;
  EXPECT_EQ(count<cuda::AttentionArguments>(cuda::make_plan(graph, options, "test")), 0);
  expect_like_reference(g, graph, options, 1e-4F);
}

TEST(CudaAttention, IsNotTakenWhereTheProbabilitiesAreReadElsewhere) {
  GraphBuilder g({1, 3, 14, 10});
  Graph graph = of_tokens(g, 16);
  const auto softmax = std::find_if(graph.ops.begin(), graph.ops.end(),
                                    [](const Op& op) { return std::holds_alternative<Softmax>(op.operation); });
  graph.outputs.push_back(softmax->output);
  EXPECT_EQ(count<cuda::AttentionArguments>(cuda::make_plan(graph, f16(), "test")), 0);
  expect_like_reference(g, graph, f16(), 1e-2F);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
