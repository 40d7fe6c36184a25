// What networks with attention have beside it: layer normalisations, products by known matrices.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "infer/cuda/plan/mixed_precision.hpp"
#include "infer/cuda/plan/products.hpp"
#include "tests/infer/cuda_plans.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::expect_reference;
using test::GraphBuilder;
using test::plan_of;
using test::steps_of;

ValueId number(GraphBuilder& g, float value) {
  const ValueId id = g.constant({1});
  auto c = *g.graph().value(id).constant;
  c.f32[0] = value;
  g.graph().values[static_cast<std::size_t>(id)].constant = std::make_shared<const Constant>(c);
  return id;
}

// The lines of a picture's channels, [1, h * w, c].
ValueId tokens(GraphBuilder& g, ValueId picture) {
  const Shape s = g.shape(picture);
  const ValueId flat = g.op(Reshape{}, {picture}, {1, s[1], s[2] * s[3]});
  return g.op(Transpose{{0, 2, 1}}, {flat}, {1, s[2] * s[3], s[1]});
}

struct NormOptions {
  int axis = 2;
  bool by_power = false;    // squares as x^2
  bool root_in_sum = true;  // the square root as the activation of what is in front of it
  bool gain = true, offset = true;
  Activation activation;
};

ValueId layer_norm(GraphBuilder& g, ValueId x, const NormOptions& o) {
  const Shape s = g.shape(x);
  Shape one = s;
  one[static_cast<std::size_t>(o.axis)] = 1;
  const ValueId mean = g.op(Reduce{Reduce::Kind::kMean, {o.axis}}, {x}, one);
  const ValueId centred = g.binary(Binary::Kind::kSub, x, mean);
  const ValueId squares = o.by_power ? g.binary(Binary::Kind::kPow, centred, number(g, 2.0F))
                                     : g.binary(Binary::Kind::kMul, centred, centred);
  const ValueId variance = g.op(Reduce{Reduce::Kind::kMean, {o.axis}}, {squares}, one);
  const Activation root{Function::kSqrt};
  ValueId deviation = g.binary(Binary::Kind::kAdd, variance, number(g, 1e-5F), o.root_in_sum ? root : Activation{});
  if (!o.root_in_sum) deviation = g.unary(deviation, root);
  const bool last = !o.gain && !o.offset;
  ValueId y = g.binary(Binary::Kind::kDiv, centred, deviation, last ? o.activation : Activation{});
  Shape along(s.size() - static_cast<std::size_t>(o.axis), 1);
  along[0] = s[static_cast<std::size_t>(o.axis)];
  if (o.gain) y = g.binary(Binary::Kind::kMul, y, g.constant(along), o.offset ? Activation{} : o.activation);
  if (o.offset) y = g.binary(Binary::Kind::kAdd, y, g.constant(along), o.activation);
  return y;
}

TEST(CudaLayerNorm, TakesOneStepHoweverItIsWritten) {
  NormOptions power, no_gain, alone, rows, function;
  power.by_power = true;
  power.root_in_sum = false;
  no_gain.gain = false;
  alone.gain = alone.offset = false;
  rows.axis = 1;
  function.activation = {Function::kGelu};
  for (const NormOptions& o : {NormOptions{}, power, no_gain, alone, rows, function}) {
    GraphBuilder g({1, 3, 12, 10});
    const Graph graph = g.finish({layer_norm(g, tokens(g, g.conv(g.input(), 24, 3, 2)), o)});
    const cuda::Plan plan = plan_of(graph);
    EXPECT_EQ(steps_of<cuda::LayerNormArguments>(plan), 1);
    EXPECT_EQ(plan.steps.size(), 2U);  // and the convolution
    expect_reference(graph, g.random_input());
  }
}

TEST(CudaLayerNorm, TakesTheSumInFrontOfItAlong) {
  GraphBuilder g({1, 3, 12, 10});
  const ValueId a = tokens(g, g.conv(g.input(), 16, 3, 2)), b = tokens(g, g.conv(g.input(), 16, 3, 2));
  const Graph graph = g.finish({layer_norm(g, g.binary(Binary::Kind::kAdd, a, b), {})});
  EXPECT_EQ(steps_of<cuda::LayerNormArguments>(plan_of(graph)), 1);
  EXPECT_EQ(steps_of<cuda::ElementwiseArguments>(plan_of(graph)), 0);
  expect_reference(graph, g.random_input());
}

// As D-FINE keeps its sums within f16.
TEST(CudaLayerNorm, TakesABoundedSumAlong) {
  GraphBuilder g({1, 3, 12, 10});
  for (const int channels : {16, 11}) {
    const ValueId a = tokens(g, g.conv(g.input(), channels, 3, 2)), b = tokens(g, g.conv(g.input(), channels, 3, 2));
    const ValueId sum = g.binary(Binary::Kind::kAdd, a, b, {Function::kClip, -0.1F, 0.2F});
    const Graph graph = g.finish({layer_norm(g, sum, {})});
    EXPECT_EQ(steps_of<cuda::ElementwiseArguments>(plan_of(graph)), 0);
    expect_reference(graph, g.random_input());
  }
}

// As D-FINE's gates: the products and their sum are one kernel.
TEST(CudaLayerNorm, LeavesASumOfTwoElementwiseResultsToTheirKernel) {
  GraphBuilder g({1, 3, 12, 10});
  const auto both = [&] {
    const ValueId a = tokens(g, g.conv(g.input(), 16, 3, 2)), b = tokens(g, g.conv(g.input(), 16, 3, 2));
    return g.binary(Binary::Kind::kMul, a, b);
  };
  const Graph graph = g.finish({layer_norm(g, g.binary(Binary::Kind::kAdd, both(), both()), {})});
  EXPECT_EQ(steps_of<cuda::LayerNormArguments>(plan_of(graph)), 1);
  EXPECT_EQ(steps_of<cuda::ElementwiseArguments>(plan_of(graph)), 1);
  expect_reference(graph, g.random_input());
}

TEST(CudaLayerNorm, LeavesASumToOthersThatReadIt) {
  GraphBuilder g({1, 3, 12, 10});
  const ValueId a = tokens(g, g.conv(g.input(), 16, 3, 2)), b = tokens(g, g.conv(g.input(), 16, 3, 2));
  const ValueId sum = g.binary(Binary::Kind::kAdd, a, b);
  const Graph graph = g.finish({g.binary(Binary::Kind::kMul, layer_norm(g, sum, {}), sum)});
  EXPECT_EQ(steps_of<cuda::LayerNormArguments>(plan_of(graph)), 1);
  EXPECT_EQ(steps_of<cuda::ElementwiseArguments>(plan_of(graph)), 2);
  expect_reference(graph, g.random_input());
}

// As LW-DETR's decoder: the sum in front of the second one is the end of the first.
TEST(CudaLayerNorm, OneBehindAnotherLeavesItsSumAlone) {
  GraphBuilder g({1, 3, 12, 10});
  const Graph graph = g.finish({layer_norm(g, layer_norm(g, tokens(g, g.conv(g.input(), 16, 3, 2)), {}), {})});
  EXPECT_EQ(steps_of<cuda::LayerNormArguments>(plan_of(graph)), 2);
  expect_reference(graph, g.random_input());
}

TEST(CudaLayerNorm, LinesOfAnyLengthEqualTheReference) {
  for (const std::int64_t length : {1, 31, 128, 129, 256, 500, 513, 900}) {
    GraphBuilder g({1, 3, 5, length});
    const ValueId x = g.op(Reshape{}, {g.input()}, {1, 15, length});
    expect_reference(g.finish({layer_norm(g, x, {})}), g.random_input());
  }
}

ValueId product(GraphBuilder& g, ValueId x, std::int64_t columns, Activation f = {}, ValueId bias = kNoValue) {
  Shape to = g.shape(x);
  const float scale = 1.0F / std::sqrt(static_cast<float>(to.back()));
  const ValueId w = g.constant({to.back(), columns}, scale);
  to.back() = columns;
  return g.op(MatMul{}, {x, w, bias}, to, f);
}

TEST(CudaProducts, AChainOfThemIsAChainOfConvolutionsWithoutCopies) {
  GraphBuilder g({1, 3, 12, 20});
  const ValueId x = tokens(g, g.conv(g.input(), 16, 3, 2));
  const ValueId wide = product(g, x, 40, {Function::kRelu}, g.constant({40}));
  const ValueId y = g.binary(Binary::Kind::kAdd, product(g, wide, 16), x);
  const Graph graph = g.finish({product(g, layer_norm(g, y, {}), 8)});
  const cuda::Plan plan = plan_of(graph);
  EXPECT_EQ(steps_of<cuda::MatMulArguments>(plan), 0);
  EXPECT_EQ(steps_of<cuda::ElementwiseArguments>(plan), 0);
  EXPECT_EQ(steps_of<cuda::LayerNormArguments>(plan), 1);
  EXPECT_EQ(steps_of<cuda::MoveArguments>(plan), 1);  // the network's output, in f32
  expect_reference(graph, g.random_input());
}

// As queries and keys, and as places and weights of deformable attention.
TEST(CudaProducts, OfOneValueWithoutFunctionsAreOneConvolution) {
  GraphBuilder g({1, 3, 12, 20});
  const ValueId x = tokens(g, g.conv(g.input(), 16, 3, 2));
  const ValueId first = product(g, x, 24, {}, g.constant({24})), second = product(g, x, 16);
  const ValueId apart = product(g, x, 16, {Function::kRelu}), odd = product(g, x, 7);
  const ValueId sum = g.binary(Binary::Kind::kMul, g.binary(Binary::Kind::kAdd, second, apart), x);
  const Graph graph = g.finish({first, sum, odd, product(g, second, 8)});
  const Graph convolved = cuda::with_convolved_products(graph);
  EXPECT_EQ(std::count_if(convolved.ops.begin(), convolved.ops.end(),
                          [](const Op& op) { return std::holds_alternative<Conv>(op.operation); }),
            5);  // the picture's own, both together, and three
  EXPECT_EQ(cuda::with_convolved_products(convolved).ops.size(), convolved.ops.size());
  expect_reference(graph, g.random_input());
}

// As queries with their places: the product's kernel adds while it loads.
TEST(CudaProducts, ASumThatTheyAloneReadTakesNoKernel) {
  for (const int channels : {16, 24}) {
    GraphBuilder g({1, 3, 12, 20});
    const ValueId x = tokens(g, g.conv(g.input(), channels, 3, 2)),
                  places = tokens(g, g.conv(g.input(), channels, 3, 2));
    const ValueId sum = g.binary(Binary::Kind::kAdd, layer_norm(g, x, {}), places);
    const ValueId y = g.binary(Binary::Kind::kMul, product(g, sum, 16), product(g, sum, 16));
    const Graph graph = g.finish({product(g, y, 8), product(g, x, 8, {Function::kRelu})});
    EXPECT_EQ(steps_of<cuda::ElementwiseArguments>(plan_of(graph)), 1);  // the product of both
    expect_reference(graph, g.random_input());
  }
}

TEST(CudaProducts, OfOneValueShareItsPicture) {
  GraphBuilder g({1, 3, 6, 8});
  const ValueId x = g.op(Reshape{}, {g.input()}, {1, 18, 8});
  const Graph graph = g.finish({product(g, x, 8), product(g, x, 24, {Function::kGelu})});
  EXPECT_EQ(steps_of<cuda::MatMulArguments>(plan_of(graph)), 0);
  expect_reference(graph, g.random_input());
  const Graph convolved = cuda::with_convolved_products(graph);
  EXPECT_EQ(cuda::with_convolved_products(convolved).ops.size(), convolved.ops.size());
}

// D-FINE's distances: probabilities weighed by one column.
TEST(CudaProducts, OfProbabilitiesAndOneColumnAreOneKernelWithTheirSoftmax) {
  GraphBuilder g({1, 3, 6, 11});
  const ValueId lines = g.op(Reshape{}, {g.input()}, {6, 33});
  const ValueId shares = g.op(Softmax{1, false}, {lines}, {6, 33});
  const ValueId weighed = g.op(MatMul{}, {shares, g.constant({33, 1})}, {6, 1});
  const ValueId moved =
      g.op(MatMul{}, {g.op(Softmax{1, false}, {lines}, {6, 33}), g.constant({33, 1}), g.constant({1})}, {6, 1});
  const Graph graph = g.finish({weighed, moved});
  EXPECT_EQ(steps_of<cuda::MatMulArguments>(plan_of(graph)), 0);
  EXPECT_EQ(steps_of<cuda::SoftmaxArguments>(plan_of(graph)), 2);
  expect_reference(graph, g.random_input());
}

TEST(CudaProducts, ThatAreNoConvolutionsStayProducts) {
  GraphBuilder g({1, 3, 6, 8});
  const ValueId few = g.op(Reshape{}, {g.input()}, {6, 24}), narrow = g.op(Reshape{}, {g.input()}, {12, 12});
  const ValueId rows = g.op(Reshape{}, {g.input()}, {18, 8});
  const Graph graph =
      g.finish({product(g, few, 8), product(g, narrow, 8), product(g, rows, 8, {}, g.constant({18, 1}))});
  EXPECT_EQ(steps_of<cuda::MatMulArguments>(plan_of(graph)), 3);
  expect_reference(graph, g.random_input());
}

// Behind a choice as well: each run of the trial goes on with the same positions.
TEST(CudaProducts, BehindTopKAreCompared) {
  GraphBuilder g({1, 3, 8, 8});
  const ValueId x = tokens(g, g.conv(g.input(), 16, 1));
  const ValueId scores = g.op(Reshape{}, {product(g, x, 1)}, {1, 64});
  const ValueId best = g.op(TopK{1, 16, true}, {scores}, {1, 16});
  const ValueId places = g.op(Reshape{}, {best}, {1, 16, 1});
  const ValueId chosen = g.op(Pick{}, {x, places}, {1, 16, 16});
  const TrialGraph trial = trial_graph(cuda::with_convolved_products(g.finish({product(g, chosen, 8)})), true);
  EXPECT_EQ(trial.unmeasured, std::vector<bool>(3, false));
  EXPECT_EQ(trial.graph.outputs.size(), 2U);  // what TopK reads too
}

struct DeformableOptions {
  std::int64_t heads = 2, depth = 32;
  std::vector<std::int64_t> points{4, 4};  // of each level
  bool stacked = false;                    // levels along a dimension of their own
  bool softmax = true;
  bool align_corners = false;
};

ValueId reshape(GraphBuilder& g, ValueId x, Shape to) { return g.op(Reshape{}, {x}, std::move(to)); }
// Part [first, first + size) along `axis`.
ValueId part(GraphBuilder& g, ValueId x, std::size_t axis, std::int64_t first, std::int64_t size) {
  Shape to = g.shape(x);
  Slice slice{std::vector<std::int64_t>(to.size(), 0), std::vector<std::int64_t>(to.size(), 1)};
  slice.start[axis] = first;
  to[axis] = size;
  return g.op(slice, {x}, to);
}

// As RT-DETR writes it; `queries` [1, count, width]. Places reach beyond the images.
ValueId deformable(GraphBuilder& g, ValueId picture, ValueId queries, const DeformableOptions& o) {
  const Shape s = g.shape(picture);
  const std::int64_t count = g.shape(queries)[1], pixels = s[2] * s[3], n = o.heads;
  const auto levels = static_cast<std::int64_t>(o.points.size());
  const std::int64_t all = std::accumulate(o.points.begin(), o.points.end(), std::int64_t{0});
  const ValueId values = product(g, tokens(g, picture), n * o.depth);
  const ValueId by_head = reshape(g, values, {1, pixels, n, o.depth});
  const ValueId planes =
      reshape(g, g.op(Transpose{{0, 2, 3, 1}}, {by_head}, {1, n, o.depth, pixels}), {n, o.depth, pixels});
  const ValueId offsets = reshape(g, product(g, queries, n * all * 2), {1, count, n, all, 2});
  const ValueId moved = g.op(Transpose{{0, 2, 1, 3, 4}}, {g.unary(offsets, {Function::kSin})}, {1, n, count, all, 2});
  const ValueId places = reshape(g, g.binary(Binary::Kind::kMul, moved, number(g, 1.3F)), {n, count, all, 2});
  std::vector<ValueId> found;
  std::int64_t first = 0, row = 0;
  for (std::int64_t l = 0; l < levels; ++l) {
    const std::int64_t p = o.points[static_cast<std::size_t>(l)];
    const std::int64_t height = l == 0 ? s[2] - 2 : 2;  // the levels lie behind each other
    const ValueId level = reshape(g, part(g, planes, 2, row * s[3], height * s[3]), {n, o.depth, height, s[3]});
    GridSample sample;
    sample.align_corners = o.align_corners;
    ValueId one = g.op(sample, {level, part(g, places, 2, first, p)}, {n, o.depth, count, p});
    if (o.stacked) one = reshape(g, one, {n, o.depth, count, 1, p});
    found.push_back(one);
    first += p;
    row += height;
  }
  ValueId together = found.size() == 1 && !o.stacked ? found[0] : g.concat(found, 3);
  if (o.stacked) together = reshape(g, together, {n, o.depth, count, all});
  const ValueId logits = reshape(g, product(g, queries, n * all), {1, count, n, all});
  const ValueId shares = o.softmax ? g.op(Softmax{3}, {logits}, {1, count, n, all}) : logits;
  const ValueId weights = reshape(g, g.op(Transpose{{0, 2, 1, 3}}, {shares}, {1, n, count, all}), {n, 1, count, all});
  const ValueId weighed = g.binary(Binary::Kind::kMul, together, weights);
  const ValueId sum = g.op(Reduce{Reduce::Kind::kSum, {3}}, {weighed}, {n, o.depth, count, 1});
  const ValueId lines = reshape(g, sum, {1, n * o.depth, count});
  return g.op(Transpose{{0, 2, 1}}, {lines}, {1, count, n * o.depth});
}

TEST(CudaDeformable, TakesOneStepHoweverItIsWritten) {
  DeformableOptions stacked, plain, corners, one, narrow, wide;
  stacked.stacked = true;
  plain.softmax = false;
  corners.align_corners = true;
  one.points = {3};
  narrow.depth = 8;
  narrow.points = {6, 2};
  wide.depth = 40;
  wide.points = {30, 10};
  for (const DeformableOptions& o : {DeformableOptions{}, stacked, plain, corners, one, narrow, wide}) {
    GraphBuilder g({1, 3, 16, 20});
    const ValueId picture = g.conv(g.input(), 16, 3, 2);
    const ValueId queries = part(g, tokens(g, g.conv(g.input(), 16, 3, 2)), 1, 0, 24);
    const Graph graph = g.finish({product(g, deformable(g, picture, queries, o), 8)});
    const cuda::Plan plan = plan_of(graph);
    EXPECT_EQ(steps_of<cuda::DeformableArguments>(plan), 1);
    EXPECT_EQ(steps_of<cuda::GridSampleArguments>(plan), 0);
    EXPECT_EQ(steps_of<cuda::SoftmaxArguments>(plan), 0);
    EXPECT_EQ(steps_of<cuda::ReduceArguments>(plan), 0);
    expect_reference(graph, g.random_input());
  }
}

TEST(CudaDeformable, SamplesThatOthersReadStay) {
  GraphBuilder g({1, 3, 16, 20});
  const ValueId picture = g.conv(g.input(), 16, 3, 2);
  const ValueId queries = part(g, tokens(g, g.conv(g.input(), 16, 3, 2)), 1, 0, 24);
  const ValueId y = deformable(g, picture, queries, {});
  const auto sample = std::find_if(g.graph().ops.begin(), g.graph().ops.end(),
                                   [](const Op& op) { return std::holds_alternative<GridSample>(op.operation); });
  const Graph graph = g.finish({y, sample->output});
  EXPECT_EQ(steps_of<cuda::GridSampleArguments>(plan_of(graph)), 2);
  expect_reference(graph, g.random_input());
}

// Large enough for eight elements a thread; a number for each line and one for all.
TEST(CudaElementwise, LargeTensorsEqualTheReference) {
  GraphBuilder g({1, 3, 512, 184});
  const ValueId x = reshape(g, g.input(), {1, 1536, 184});
  const ValueId masked = g.binary(Binary::Kind::kMul, x, g.constant({1, 1536, 1}));
  const ValueId shifted = g.binary(Binary::Kind::kSub, g.unary(masked, {Function::kGelu}), number(g, 0.25F));
  expect_reference(g.finish({g.binary(Binary::Kind::kAdd, shifted, x)}), g.random_input());
}

// What computes each element alone, and what it is reshaped to, is written where a Concat wants it.
TEST(CudaViews, ReshapedResultsAreWrittenIntoTheirConcatenation) {
  GraphBuilder g({1, 3, 6, 8});
  const ValueId x = g.unary(reshape(g, g.input(), {1, 18, 8}), {Function::kTanh});
  std::vector<ValueId> parts;
  for (const Binary::Kind kind : {Binary::Kind::kAdd, Binary::Kind::kMul}) {
    const ValueId half = reshape(g, part(g, x, 2, kind == Binary::Kind::kAdd ? 0 : 4, 1), {1, 18});
    parts.push_back(reshape(g, g.binary(kind, half, half), {1, 18, 1}));
  }
  const Graph graph = g.finish({g.concat(parts, 2)});
  EXPECT_EQ(steps_of<cuda::MoveArguments>(plan_of(graph)), 1);  // the function in front
  expect_reference(graph, g.random_input());
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
