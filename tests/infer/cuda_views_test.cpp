// Values that lie inside of others: views, parts of concatenations, and the kernels that read them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "infer/cuda/plan/form.hpp"
#include "infer/cuda/plan/plan.hpp"
#include "tests/infer/cuda_graphs.hpp"
#include "tests/infer/cuda_plans.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using cuda::Form;
using cuda::Plan;
using test::expect_reference;
using test::GraphBuilder;
using test::plan_of;
using test::relative_error;
using test::steps_of;
using testing::ElementsAre;

ValueId channels(GraphBuilder& g, ValueId x, std::int64_t first, std::int64_t count) {
  Shape shape = g.shape(x);
  shape[1] = count;
  return g.op(Slice{{0, first, 0, 0}, {1, 1, 1, 1}}, {x}, shape);
}

TEST(View, AReshapeJoinsAndCutsDimensionsThatLieBehindEachOther) {
  const Form image = cuda::image_form(3, DataType::kF16, {1, 64, 20, 30}, 96);
  const auto flat = cuda::reshape_view(image, {1, 64, 20, 30}, {1, 4, 16, 600});
  ASSERT_TRUE(flat.has_value());
  EXPECT_THAT(flat->strides, ElementsAre(testing::_, 16, 1, 96));
  EXPECT_FALSE(flat->plain);
  EXPECT_FALSE(flat->image);
}

TEST(View, AReshapeAcrossDimensionsThatLieApartIsNone) {
  const Form image = cuda::image_form(3, DataType::kF16, {1, 64, 20, 30}, 64);
  EXPECT_FALSE(cuda::reshape_view(image, {1, 64, 20, 30}, {1, 38400}).has_value());
  EXPECT_FALSE(cuda::reshape_view(image, {1, 64, 20, 30}, {1, 128, 300}).has_value());
}

TEST(View, WholeGroupsOfEightChannelsOfAnImageAreAnImage) {
  const Form image = cuda::image_form(3, DataType::kF16, {1, 64, 20, 30}, 64);
  const Form part = cuda::slice_view(image, Slice{{0, 16, 0, 0}, {1, 1, 1, 1}}, {1, 24, 20, 30});
  EXPECT_TRUE(part.image);
  EXPECT_EQ(part.pitch, 64);
  EXPECT_EQ(part.offset_bytes, 32U);
  EXPECT_FALSE(cuda::slice_view(image, Slice{{0, 12, 0, 0}, {1, 1, 1, 1}}, {1, 24, 20, 30}).image);
  EXPECT_FALSE(cuda::slice_view(image, Slice{{0, 16, 0, 0}, {1, 1, 1, 1}}, {1, 20, 20, 30}).image);
  EXPECT_FALSE(cuda::slice_view(image, Slice{{0, 0, 0, 0}, {1, 2, 1, 1}}, {1, 32, 20, 30}).image);
}

TEST(View, ASliceBackwardsBeginsAtItsFirstElement) {
  const Form row = cuda::row_major_form(3, DataType::kF32, {5, 7});
  const Form back = cuda::slice_view(row, Slice{{4, 6}, {-2, -3}}, {3, 3});
  EXPECT_EQ(back.offset_bytes, (4U * 7 + 6) * 4);
  EXPECT_THAT(back.strides, ElementsAre(-14, -3));
}

TEST(View, ATensorOfImagesOrderIsAnImageOnceItsDimensionsAreTurned) {
  const Form rows = cuda::row_major_form(3, DataType::kF16, {1, 20, 30, 16});
  const Form image = cuda::transpose_view(rows, Transpose{{0, 3, 1, 2}}, {1, 16, 20, 30});
  EXPECT_TRUE(image.image);
  EXPECT_EQ(image.pitch, 16);
}

TEST(View, ThreadsCountThroughAnImageChannelByChannel) {
  const std::int64_t strides[] = {9600, 1, 480, 16}, shape[] = {1, 16, 20, 30};
  EXPECT_THAT(cuda::memory_order(strides, shape, 4), ElementsAre(0, 2, 3, 1));
}

TEST(CudaViews, ASplitWhosePartsAreJoinedAgainTakesNoKernel) {
  GraphBuilder g({1, 3, 40, 56});
  const ValueId both = g.conv(g.conv(g.input(), 16, 3, 2), 64, 1);
  const ValueId a = channels(g, both, 0, 32), b = channels(g, both, 32, 32);
  const ValueId deep = g.conv(g.conv(b, 32, 3), 32, 3, 1, 1, {Function::kSilu}, b);
  const Graph graph = g.finish({g.conv(g.concat({a, b, deep}), 8, 1, 1, 1, {})});
  EXPECT_EQ(steps_of<cuda::MoveArguments>(plan_of(graph, DataType::kF16)), 0);
  expect_reference(graph, g.random_input());
}

TEST(CudaViews, PartsThatAreJoinedInAnotherOrderAreCopied) {
  GraphBuilder g({1, 3, 24, 32});
  const ValueId both = g.conv(g.input(), 32, 3);
  const ValueId a = channels(g, both, 0, 16), b = channels(g, both, 16, 16);
  expect_reference(g.finish({g.conv(g.concat({b, a}), 8, 1), g.conv(g.concat({a, g.conv(b, 16, 1)}), 8, 1)}),
                   g.random_input());
}

TEST(CudaViews, PartsOfOddWidthEqualTheReference) {
  GraphBuilder g({1, 3, 24, 32});
  const ValueId both = g.conv(g.input(), 30, 3);
  const ValueId a = channels(g, both, 0, 12), b = channels(g, both, 12, 18);
  expect_reference(g.finish({g.conv(g.concat({a, b, g.conv(b, 7, 3)}), 9, 1), g.conv(a, 8, 3, 1, 4), b}),
                   g.random_input());
}

TEST(CudaViews, LevelsThatAreFlattenedAndJoinedAreWrittenWhereTheyBelong) {
  GraphBuilder g({1, 3, 32, 48});
  const ValueId x = g.conv(g.input(), 16, 3, 2), y = g.conv(x, 16, 3, 2);
  std::vector<ValueId> levels;
  for (const ValueId from : {x, y}) {
    const ValueId head = g.conv(from, 20, 1, 1, 1, {});
    const std::int64_t cells = g.shape(head)[2] * g.shape(head)[3];
    levels.push_back(g.op(Reshape{}, {head}, {1, 20, cells}));
  }
  const ValueId all = g.concat(levels, 2);
  const std::int64_t cells = g.shape(all)[2];
  const ValueId boxes = g.op(Slice{{0, 0, 0}, {1, 1, 1}}, {all}, {1, 16, cells});
  const ValueId scores = g.op(Slice{{0, 16, 0}, {1, 1, 1}}, {all}, {1, 4, cells});
  const ValueId bins = g.op(Reshape{}, {boxes}, {1, 2, 8, cells});
  const ValueId turned = g.op(Transpose{{0, 2, 1, 3}}, {bins}, {1, 8, 2, cells});
  const ValueId mean = g.conv(g.op(Softmax{1, false}, {turned}, {1, 8, 2, cells}), 1, 1, 1, 1, {});
  const ValueId distances = g.op(Reshape{}, {mean}, {1, 2, cells});
  const ValueId sum = g.binary(Binary::Kind::kAdd, distances, g.constant({1, 2, cells}));
  const ValueId difference = g.binary(Binary::Kind::kSub, distances, g.constant({1, 2, cells}));
  const ValueId box = g.concat({sum, difference}, 1);
  const Graph graph = g.finish({g.concat({box, g.unary(scores, {Function::kSigmoid})}, 1)});
  const Plan plan = plan_of(graph, DataType::kF16);
  // Only the function: the heads write their levels into one tensor. The mean is one kernel with its Softmax.
  EXPECT_EQ(steps_of<cuda::MoveArguments>(plan), 1);
  EXPECT_EQ(steps_of<cuda::SoftmaxArguments>(plan), 1);
  EXPECT_EQ(steps_of<cuda::ElementwisesArguments>(plan), 1);
  expect_reference(graph, g.random_input());
}

// Widths and places that are no multiples of 8, and channels that are not either.
TEST(CudaViews, FlattenedLevelsOfAnySizeEqualTheReference) {
  for (const auto& [h, w] : {std::pair{32, 48}, {30, 44}, {26, 34}}) {
    GraphBuilder g({1, 3, h, w});
    const ValueId x = g.conv(g.input(), 16, 3, 2), y = g.conv(x, 16, 3, 2), z = g.conv(y, 16, 3, 2);
    std::vector<ValueId> levels;
    for (const ValueId from : {x, y, z}) {
      levels.push_back(g.flat(g.conv(from, 11, 1, 1, 1, {Function::kSigmoid})));
    }
    const Graph graph = g.finish({g.concat(levels, 2)});
    EXPECT_EQ(steps_of<cuda::MoveArguments>(plan_of(graph, DataType::kF16)), 0);
    expect_reference(graph, g.random_input());
  }
}

// As YOLOv6 ends: the levels' rows are channels, then cells, and are turned round behind the join.
TEST(CudaViews, FlattenedLevelsThatAreTransposedBehindTheirJoinEqualTheReference) {
  for (const bool joined_again : {true, false}) {
    GraphBuilder g({1, 3, 32, 48});
    const ValueId x = g.conv(g.input(), 16, 3, 2), y = g.conv(x, 16, 3, 2);
    const auto rows_of = [&](int channels) {
      std::vector<ValueId> levels;
      for (const ValueId from : {x, y}) levels.push_back(g.flat(g.conv(from, channels, 1, 1, 1, {})));
      const ValueId all = g.concat(levels, 2);
      return g.op(Transpose{{0, 2, 1}}, {all}, {1, g.shape(all)[2], channels});
    };
    const ValueId boxes = rows_of(4), scores = rows_of(20);
    const Graph graph = joined_again ? g.finish({g.concat({boxes, scores}, 2)}) : g.finish({boxes, scores});
    expect_reference(graph, g.random_input());
  }
}

// As PP-YOLOE's scores: a program computes such a convolution, but it writes an image.
TEST(CudaViews, FlattenedLevelsOfThreeByThreeConvolutionsEqualTheReference) {
  GraphBuilder g({1, 3, 32, 48});
  const ValueId x = g.conv(g.input(), 16, 3, 2), y = g.conv(x, 16, 3, 2);
  std::vector<ValueId> levels;
  for (const ValueId from : {x, y}) {
    levels.push_back(g.flat(g.conv(from, 20, 3, 1, 1, {})));
  }
  expect_reference(g.finish({g.concat(levels, 2)}), g.random_input());
}

// As YOLO's necks: what is enlarged and a finer level joined, and one convolution reads them.
TEST(CudaViews, AnEnlargedPartOfAConcatenationIsReadSmall) {
  for (const int n : {32, 40}) {  // 40: behind the first part a program cannot put the second
    GraphBuilder g({1, 3, 48, 64});
    const ValueId fine = g.conv(g.conv(g.input(), 16, 3, 2), 48, 3, 2);
    const ValueId coarse = g.conv(fine, n, 3, 2);
    const ValueId joined = g.concat({g.enlarge(coarse, 12, 16), fine});
    const ValueId neck = g.conv(joined, 32, 1);
    const Graph graph = g.finish({g.conv(neck, 8, 3, 1, 1, {}), g.conv(coarse, 8, 1, 1, 1, {})});
    EXPECT_EQ(steps_of<cuda::ResizeArguments>(plan_of(graph, DataType::kF16)), n % 16 == 0 ? 0 : 1);
    expect_reference(graph, g.random_input());
  }
}

// Nothing reads the output that could load the small image instead.
TEST(CudaViews, AnEnlargedPartOfAnOutputEqualsTheReference) {
  GraphBuilder g({1, 3, 48, 64});
  const ValueId fine = g.conv(g.conv(g.input(), 16, 3, 2), 48, 3, 2);
  const ValueId coarse = g.conv(fine, 32, 3, 2);
  const Graph graph = g.finish({g.concat({g.enlarge(coarse, 12, 16), fine})});
  expect_reference(graph, g.random_input());
}

// As pyramids that add levels after their convolutions.
TEST(CudaViews, ASumWithAResizedImageIsOneKernel) {
  for (const int channels : {16, 20}) {
    GraphBuilder g({1, 3, 48, 64});
    const ValueId fine = g.conv(g.input(), channels, 3, 2), coarse = g.conv(fine, channels, 3, 2);
    const ValueId sum = g.binary(Binary::Kind::kAdd, fine, g.enlarge(coarse, 24, 32));
    const ValueId other = g.binary(Binary::Kind::kAdd, g.enlarge(sum, 36, 40), g.enlarge(coarse, 36, 40));
    const Graph graph = g.finish({g.conv(sum, 8, 3, 1, 1, {}), g.conv(other, 8, 1, 1, 1, {})});
    for (const DataType type : {DataType::kF16, DataType::kF32}) {
      const Plan plan = plan_of(graph, type);
      EXPECT_EQ(steps_of<cuda::ResizeArguments>(plan), 3);
      EXPECT_EQ(steps_of<cuda::ElementwiseArguments>(plan), 0);
    }
    expect_reference(graph, g.random_input());
  }
}

TEST(CudaViews, SoftmaxesOfLongAndShortLinesEqualTheReference) {
  for (const int axis : {1, 2, 3}) {
    GraphBuilder g({1, 3, 50, 70});
    const ValueId x = g.conv(g.input(), 5, 1, 1, 1, {});
    expect_reference(
        g.finish({g.op(Softmax{axis, false}, {x}, g.shape(x)), g.op(Softmax{axis, true}, {x}, g.shape(x))}),
        g.random_input());
  }
}

TEST(CudaViews, AttentionEqualsTheReference) {
  GraphBuilder g({1, 3, 12, 20});
  const ValueId x = g.conv(g.input(), 48, 1, 1, 1, {});
  const ValueId heads = g.op(Reshape{}, {x}, {1, 2, 24, 240});
  const auto part = [&](std::int64_t first, std::int64_t count) {
    return g.op(Slice{{0, 0, first, 0}, {1, 1, 1, 1}}, {heads}, {1, 2, count, 240});
  };
  const ValueId query = g.op(Transpose{{0, 1, 3, 2}}, {part(0, 8)}, {1, 2, 240, 8});
  const ValueId scores = g.op(MatMul{}, {query, part(8, 8)}, {1, 2, 240, 240});
  const ValueId shares = g.op(Softmax{3, false}, {scores}, {1, 2, 240, 240});
  const ValueId turned = g.op(Transpose{{0, 1, 3, 2}}, {shares}, {1, 2, 240, 240});
  const ValueId mixed = g.op(MatMul{}, {part(16, 8), turned}, {1, 2, 8, 240});
  const ValueId back = g.op(Reshape{}, {mixed}, {1, 16, 12, 20});
  expect_reference(g.finish({g.conv(back, 8, 1, 1, 1, {})}), g.random_input());
}

// Tiles of 32 that the sizes do not fill, factors that lie either way, and sums of a few and of many products.
TEST(CudaViews, ProductsOfMatricesOfOddSizesEqualTheReference) {
  for (const auto& [rows, inner] : {std::pair<std::int64_t, std::int64_t>{37, 41}, {70, 8}, {8, 100}, {9, 7}}) {
    GraphBuilder g({1, 2, rows, inner});
    const ValueId x = g.input();
    const ValueId turned = g.op(Transpose{{0, 1, 3, 2}}, {x}, {1, 2, inner, rows});
    const ValueId square = g.op(MatMul{}, {x, turned}, {1, 2, rows, rows});
    const ValueId bias = g.constant({inner});
    const ValueId back = g.op(MatMul{}, {square, x, bias}, {1, 2, rows, inner}, {Function::kSigmoid});
    const ValueId by_columns = g.op(MatMul{}, {turned, x}, {1, 2, inner, inner});
    const Graph graph = g.finish({square, back, by_columns});
    const std::vector<float> input = g.random_input();
    const std::vector<Constant> want = run_reference(graph, input);
    const auto got = test::run_emulated(plan_of(graph, DataType::kF32), input);
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_LE(relative_error(got[i], want[i].f32), 1e-6F) << rows << "x" << inner << ", output " << i;
    }
  }
}

// Lines longer than those in which each element counts.
class LongTopK : public testing::TestWithParam<std::pair<std::int64_t, bool>> {};

TEST_P(LongTopK, ChoosesAndOrdersAsTheReference) {
  const auto& [count, largest] = GetParam();
  GraphBuilder g({1, 3, 40, 20});
  const ValueId line = g.op(Reshape{}, {g.input()}, {2, 1200});
  const ValueId places = g.op(TopK{1, count, largest}, {line}, {2, count});
  const Graph graph = g.finish({places});
  std::vector<float> input = g.random_input();
  for (std::size_t i = 0; i < input.size(); ++i) {
    if (i % 3 == 0) input[i] = static_cast<float>(i % 5) * (i % 2 == 0 ? 0.25F : -0.25F);  // many alike, and both zeros
  }
  input[7] = std::numeric_limits<float>::quiet_NaN();
  input[8] = std::numeric_limits<float>::infinity();
  input[9] = -std::numeric_limits<float>::infinity();
  const auto got = test::run_emulated(plan_of(graph, DataType::kF32), input);
  EXPECT_EQ(got[0], run_reference(graph, input)[0].f32);
}

// More than the threads of a block keep in registers in either of two ways, and than they keep at all.
TEST(LongestTopK, ChoosesAndOrdersAsTheReference) {
  for (const std::int64_t width : {30, 50, 90}) {
    GraphBuilder g({1, 3, 100, width});
    const ValueId line = g.op(Reshape{}, {g.input()}, {1, 300 * width});
    const Graph graph = g.finish({g.op(TopK{1, 300, true}, {line}, {1, 300})});
    const std::vector<float> input = g.random_input();
    EXPECT_EQ(test::run_emulated(plan_of(graph, DataType::kF32), input)[0], run_reference(graph, input)[0].f32);
  }
}

// Scores of f16: many are the same number, and of those the first go first.
TEST(LongestTopK, KeepsTheOrderOfEqualScores) {
  for (const int numbers : {1, 2, 40, 700}) {
    GraphBuilder g({1, 3, 50, 40});
    const ValueId line = g.op(Reshape{}, {g.input()}, {1, 6000});
    const Graph graph = g.finish({g.op(TopK{1, 300, true}, {line}, {1, 300})});
    std::vector<float> input(6000);
    for (std::size_t i = 0; i < input.size(); ++i)
      input[i] = 0.01F + static_cast<float>(i * 7919 % static_cast<std::size_t>(numbers)) / 65536;
    EXPECT_EQ(test::run_emulated(plan_of(graph, DataType::kF32), input)[0], run_reference(graph, input)[0].f32);
  }
}

INSTANTIATE_TEST_SUITE_P(Counts, LongTopK,
                         testing::Values(std::pair{std::int64_t{1}, true}, std::pair{std::int64_t{300}, true},
                                         std::pair{std::int64_t{1199}, false}, std::pair{std::int64_t{1200}, true}));

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
