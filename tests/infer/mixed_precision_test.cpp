// Which convolutions the engine `cuda` computes in f32, and that such plans compute what the reference does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "infer/cuda/plan/mixed_precision.hpp"
#include "infer/cuda/plan/plan.hpp"
#include "infer/graph/reference.hpp"
#include "infer/half.hpp"
#include "tests/infer/cuda_emulated.hpp"
#include "tests/infer/cuda_graphs.hpp"
#include "tests/infer/cuda_plans.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using cuda::Plan;
using cuda::PlanOptions;
using cuda::Step;
using test::expect_like_reference;
using test::GraphBuilder;
using test::kF16Tolerance;
using test::kF32Tolerance;
using test::options_of;
using test::relative_error;
using test::steps_of;

// Takes from the filters of the depthwise convolution that makes `output` their sums, and their biases: they see edges.
void let_it_see_edges(Graph& graph, ValueId output) {
  for (Op& op : graph.ops) {
    if (op.output != output) continue;
    Constant filters = *graph.values[static_cast<std::size_t>(op.inputs[1])].constant;
    const std::size_t count = filters.f32.size() / 9;
    for (std::size_t f = 0; f < count; ++f) {
      float mean = 0;
      for (std::size_t i = 0; i < 9; ++i) mean += filters.f32[f * 9 + i] / 9;
      for (std::size_t i = 0; i < 9; ++i) filters.f32[f * 9 + i] -= mean;
    }
    graph.values[static_cast<std::size_t>(op.inputs[1])].constant = std::make_shared<const Constant>(filters);
    const auto channels = static_cast<std::int64_t>(count);
    graph.values[static_cast<std::size_t>(op.inputs[2])].constant =
        std::make_shared<const Constant>(Constant{DataType::kF32, {channels}, std::vector<float>(count, 0.0F), {}});
  }
}

// The largest error in f16 of the only output, in shares of its largest value, on a bright smooth picture. Away from
// the border, where zero padding is an edge larger than all others.
double error_on_a_smooth_picture(const Graph& graph, std::size_t border,
                                 const std::vector<bool>& f32_convolutions = {}) {
  const Shape& in = graph.shape(graph.input);
  const auto width = static_cast<std::size_t>(in[3]);
  std::vector<float> input(static_cast<std::size_t>(element_count(in)));
  for (std::size_t i = 0; i < input.size(); ++i) {
    const std::size_t row = i / width;
    const auto x = static_cast<float>(i % width), y = static_cast<float>(row);
    input[i] = 0.75F + 0.2F * std::sin(x * 0.05F) * std::cos(y * 0.04F);
  }
  const std::vector<Constant> want = run_reference(graph, input);
  PlanOptions options = options_of(DataType::kF16);
  options.f32_convolutions = f32_convolutions;
  const std::vector<float> got = test::run_emulated(cuda::make_plan(graph, options, "test"), input)[0];
  const Shape& out = graph.shape(graph.outputs[0]);
  const auto c = static_cast<std::size_t>(out[1]), h = static_cast<std::size_t>(out[2]),
             w = static_cast<std::size_t>(out[3]);
  double largest = 0, worst = 0;
  for (std::size_t channel = 0; channel < c; ++channel) {
    for (std::size_t y = border; y < h - border; ++y) {
      for (std::size_t x = border; x < w - border; ++x) {
        const std::size_t i = (channel * h + y) * w + x;
        largest = std::max(largest, static_cast<double>(std::abs(want[0].f32[i])));
        worst = std::max(worst, static_cast<double>(std::abs(want[0].f32[i] - got[i])));
      }
    }
  }
  return worst / largest;
}

// What f16 rounds off the picture, or off filters that cancel, is large beside what is left. Rounded tap by tap, and
// summed in f16, the error was 3.5e-3.
TEST(CudaEmulated, FirstLayersThatSeeDifferencesKeepThem) {
  GraphBuilder g({1, 3, 50, 140});
  const ValueId first = g.conv(g.input(), 8, 3, 2, 1, {});
  const ValueId edges = g.conv(first, 8, 3, 1, 8, {});
  const ValueId block = g.conv(edges, 16, 1, 1, 1, {});
  Graph graph = g.finish({g.conv(block, 16, 3, 1, 1, {})});
  let_it_see_edges(graph, edges);
  EXPECT_LE(error_on_a_smooth_picture(graph, 3), 1e-3);
}

// The second block's results are 16 and a little, which f16 keeps in steps of 1/64: with those alone the error was
// 0.04.
TEST(CudaEmulated, AThirdBlockThatSeesDifferencesGetsThemWhole) {
  GraphBuilder g({1, 3, 50, 140});
  const ValueId first = g.conv(g.conv(g.conv(g.input(), 8, 3, 2, 1, {}), 8, 3, 1, 8, {}), 16, 1, 1, 1, {});
  const ValueId second = g.conv(g.conv(first, 16, 3, 1, 16, {}), 24, 1, 1, 1, {});
  const ValueId edges = g.conv(second, 24, 3, 1, 24, {});
  Graph graph = g.finish({g.conv(g.conv(edges, 24, 1, 1, 1, {}), 16, 3, 1, 1, {})});
  let_it_see_edges(graph, edges);
  for (Op& op : graph.ops) {
    if (op.output != second) continue;
    graph.values[static_cast<std::size_t>(op.inputs[2])].constant =
        std::make_shared<const Constant>(Constant{DataType::kF32, {24}, std::vector<float>(24, 16.0F), {}});
  }
  const Plan plan = cuda::make_plan(graph, options_of(DataType::kF16), "test");
  ASSERT_EQ(steps_of<cuda::SeparableArguments>(plan), 2);
  EXPECT_LE(error_on_a_smooth_picture(graph, 5), 4e-3);
}

// Where the borders between the two types lie must not matter: before a block, within one, between what is joined,
// added or enlarged.
TEST(CudaEmulated, DetectorsWithAnyOfTheirConvolutionsInF32EqualTheReference) {
  GraphBuilder g({1, 3, 33, 70}, 70);
  const Graph graph = test::small_detector(g, 4);
  const std::vector<float> input = g.random_input();
  const auto convolutions = static_cast<std::size_t>(std::count_if(
      graph.ops.begin(), graph.ops.end(), [](const Op& op) { return std::holds_alternative<Conv>(op.operation); }));
  PlanOptions options = options_of(DataType::kF16);
  const auto expect_right = [&](const std::vector<bool>& in_f32) {
    options.f32_convolutions = in_f32;
    const Plan plan = cuda::make_plan(graph, options, "test");
    const auto wanted = static_cast<int>(std::count(in_f32.begin(), in_f32.end(), true));
    EXPECT_EQ(plan.f32_convolutions, wanted);
    int of_f32 = 0;
    for (const Step& step : plan.steps) {
      const auto* conv = std::get_if<cuda::GenericConvArguments>(&step.arguments);
      if (conv != nullptr && conv->type == DataType::kF32) ++of_f32;
      const auto* planes = std::get_if<cuda::PlanesConvArguments>(&step.arguments);
      if (planes != nullptr && planes->type == DataType::kF32) ++of_f32;
    }
    EXPECT_EQ(of_f32, wanted);
    expect_like_reference(graph, input, options);
  };
  for (std::size_t i = 0; i < convolutions; i += 2) {
    SCOPED_TRACE(i);
    std::vector<bool> one(convolutions, false), others(convolutions, true), first(convolutions, false);
    one[i] = true;
    others[i] = false;
    std::fill_n(first.begin(), i, true);
    expect_right(one);
    expect_right(others);
    expect_right(first);
  }
}

TEST(CudaEmulated, ConvolutionsInF32TakeNothingFromWhatTheyHandOn) {
  GraphBuilder g({1, 3, 50, 140});
  const ValueId edges = g.conv(g.conv(g.input(), 8, 3, 1, 1, {}), 8, 3, 1, 8, {});
  Graph graph = g.finish({g.conv(g.conv(edges, 16, 1, 1, 1, {}), 16, 3, 1, 1, {})});
  let_it_see_edges(graph, edges);
  const double alone = error_on_a_smooth_picture(graph, 3);
  EXPECT_GE(alone, 2e-3) << "no stem of stride 2 that would help";
  EXPECT_LE(error_on_a_smooth_picture(graph, 3, {true, true}), alone / 4);
}

std::vector<bool> chosen(std::size_t count, const std::set<std::size_t>& which) {
  std::vector<bool> in_f32(count, false);
  for (const std::size_t i : which) in_f32[i] = true;
  return in_f32;
}

TEST(MixedPrecision, TakesTheConvolutionsThatDoTheMostHarmAloneWhereverTheyStand) {
  int asked = 0;
  const auto distance_of = [&](const std::vector<bool>&) {
    ++asked;
    return kWantedDistance;
  };
  std::vector<float> alone(20, 0.001F);
  alone[11] = 0.2F;
  EXPECT_EQ(choose_f32_convolutions(alone, chosen(20, {}), distance_of), chosen(20, {11}));
  alone[3] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(choose_f32_convolutions(alone, chosen(20, {}), distance_of), chosen(20, {3, 11}));
  EXPECT_EQ(choose_f32_convolutions(alone, chosen(20, {5, 11}), distance_of), chosen(20, {3, 5, 11}));
  EXPECT_EQ(asked, 3) << "the first choice each time";
}

TEST(MixedPrecision, TakesMoreUntilTheNetworkComesClose) {
  std::vector<std::ptrdiff_t> asked;
  const auto distance_of = [&](const std::vector<bool>& in_f32) {
    asked.push_back(std::count(in_f32.begin(), in_f32.end(), true));
    return asked.back() < 12 ? 0.1F : kWantedDistance;
  };
  std::vector<float> alone(50, 0.0F);
  std::fill_n(alone.begin(), 8, 0.1F);
  EXPECT_EQ(choose_f32_convolutions(alone, chosen(50, {}), distance_of),
            chosen(50, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(asked, (std::vector<std::ptrdiff_t>{8, 10, 12}));
}

TEST(MixedPrecision, TakesTwiceAsManyWhereAnOutputIsBeyondTheLargestNumber) {
  std::vector<std::ptrdiff_t> tried;
  const auto distance_of = [&](const std::vector<bool>& in_f32) {
    tried.push_back(std::count(in_f32.begin(), in_f32.end(), true));
    return tried.back() < 6 ? INFINITY : 0.0F;
  };
  const auto in_f32 =
      choose_f32_convolutions(std::vector<float>(20, 0.001F), std::vector<bool>(20, false), distance_of);
  EXPECT_EQ(tried, (std::vector<std::ptrdiff_t>{1, 2, 4, 8}));
  EXPECT_EQ(std::count(in_f32.begin(), in_f32.end(), true), 8);
}

TEST(MixedPrecision, TakesTheCheapOnesFirstWhereItIsToldTheirCosts) {
  int asked = 0;
  const auto distance_of = [&](const std::vector<bool>&) {
    ++asked;
    return kWantedOfClassScores;
  };
  F32Choice choice;
  choice.wanted = kWantedOfClassScores;
  choice.costs = {100, 1, 1, 100};
  // Added as squares they are off by 0.1, and by 0.06 without the two in the middle; half of that is known to come
  // about.
  choice.together = 0.05F;
  EXPECT_EQ(choose_f32_convolutions({0.045F, 0.057F, 0.057F, 0.04F}, chosen(4, {}), distance_of, choice),
            chosen(4, {0, 1, 2}));
  EXPECT_EQ(asked, 1);
}

TEST(MixedPrecision, TakesAllConvolutionsWhereNoFewerDo) {
  int asked = 0;
  const auto distance_of = [&](const std::vector<bool>&) {
    ++asked;
    return 1.0F;
  };
  EXPECT_EQ(choose_f32_convolutions(std::vector<float>(90, 1.0F), chosen(90, {}), distance_of),
            std::vector<bool>(90, true));
  EXPECT_EQ(asked, 0) << "what is left of any of them is too much";
  EXPECT_EQ(choose_f32_convolutions(std::vector<float>(90, 0.0F), chosen(90, {}), distance_of),
            std::vector<bool>(90, true));
  EXPECT_EQ(asked, kMostTries);
}

TEST(MixedPrecision, ValuesThatAChoiceReadsStandForWhatItMakes) {
  GraphBuilder g({1, 3, 8, 8});
  const ValueId scores = g.conv(g.input(), 4, 1);
  const ValueId places = g.op(TopK{3, 2, true}, {scores}, {1, 4, 8, 2});
  const ValueId boxes = g.conv(g.input(), 4, 1);
  const ValueId behind = g.conv(places, 4, 1, 1, 1, {}, boxes);
  const ValueId beside = g.conv(g.input(), 8, 1);
  const TrialGraph trial = trial_graph(g.finish({behind, beside}), true);
  EXPECT_EQ(trial.graph.outputs, (std::vector<ValueId>{behind, beside, scores}));
  EXPECT_EQ(trial.unmeasured, chosen(4, {}));
  EXPECT_EQ(trial_graph(g.finish({beside}), true).graph.outputs, (std::vector<ValueId>{beside}));
}

TEST(MixedPrecision, WhatIsBehindAChoiceThatIsNotRepeatedIsNotCompared) {
  GraphBuilder g({1, 3, 8, 8});
  const ValueId scores = g.conv(g.input(), 4, 1);
  const ValueId places = g.unary(scores, {Function::kFloor});
  const ValueId boxes = g.conv(g.input(), 4, 1);
  const ValueId behind = g.conv(places, 4, 1, 1, 1, {}, boxes);
  const ValueId beside = g.conv(g.input(), 8, 1);
  const TrialGraph trial = trial_graph(g.finish({behind, beside}), true);
  EXPECT_EQ(trial.graph.outputs, (std::vector<ValueId>{beside, scores, boxes}));
  EXPECT_EQ(trial.unmeasured, chosen(4, {2}));
}

TEST(MixedPrecision, ConvolutionsShareRunsWhereThereIsMuchToComputeOrToCompare) {
  GraphBuilder g({1, 3, 1000, 1000});
  const ValueId x = g.conv(g.input(), 5, 1);  // 15 million products, 5 million values
  const Graph graph = g.finish({x});
  EXPECT_EQ(convolutions_of_a_run(graph, 49, 1'000'000'000), 1U);
  EXPECT_EQ(convolutions_of_a_run(graph, 49, 147'000'000), 6U);
  EXPECT_EQ(convolutions_of_a_run(graph, 50, 1'000'000'000), 2U);
  EXPECT_EQ(convolutions_of_a_run(graph, 149, 10'000'000'000), 3U);
}

TEST(MixedPrecision, ErrorsOfConvolutionsThatShareARunAddUpAsSquares) {
  EXPECT_EQ(off_by_each(0.5F, 1), 0.5F);
  EXPECT_EQ(off_by_each(0.5F, 4), 0.25F);
}

TEST(MixedPrecision, ConvolutionsThatOthersOfF32SurroundComeAlong) {
  GraphBuilder g({1, 3, 32, 32});
  const ValueId x = g.conv(g.conv(g.input(), 8, 3), 8, 3);              // 0, 1
  const ValueId joined = g.concat({g.conv(x, 8, 1), g.conv(x, 8, 1)});  // 2, 3
  const ValueId y = g.conv(g.conv(g.conv(joined, 8, 3), 8, 3), 8, 3);   // 4, 5, 6
  const Graph graph = g.finish({g.conv(y, 8, 1)});                      // 7
  EXPECT_EQ(cuda::with_fewer_conversions(graph, chosen(8, {1, 2, 4, 6})), chosen(8, {1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(cuda::with_fewer_conversions(graph, chosen(8, {4})), chosen(8, {4}));
  EXPECT_EQ(cuda::with_fewer_conversions(graph, chosen(8, {})), chosen(8, {}));
}

TEST(MixedPrecision, LargeConvolutionsDoNotComeAlong) {
  GraphBuilder g({1, 3, 160, 160});
  const ValueId x = g.conv(g.conv(g.conv(g.input(), 8, 3), 16, 3), 16, 3);
  const Graph graph = g.finish({g.conv(g.conv(x, 16, 3), 8, 1)});
  EXPECT_EQ(cuda::with_fewer_conversions(graph, chosen(5, {1, 3})), chosen(5, {1, 3}));
}

TEST(MixedPrecision, ScoresOfAnEmptyPictureCountAsScores) {
  GraphBuilder g({1, 3, 8, 8});
  const ValueId score = g.conv(g.input(), 2, 1, 1, 1, {Function::kSigmoid});
  const ValueId best =
      g.op(Reduce{Reduce::Kind::kMax, {1}}, {g.binary(Binary::Kind::kMul, score, score)}, {1, 1, 8, 8});
  const ValueId box = g.conv(g.input(), 4, 1, 1, 1, {});
  EXPECT_EQ(output_kinds(g.finish({score, best, box})),
            (std::vector{OutputKind::kProbabilities, OutputKind::kProbabilities, OutputKind::kValues}));
  EXPECT_EQ(distance({{0.0F, 0.01F}}, {{0.0F, 0.02F}}, {{2}}, {OutputKind::kProbabilities}), 0.01F / kLeastProbability);
  EXPECT_EQ(distance({{0.0F, 0.01F}}, {{0.0F, 0.02F}}, {{2}}, {OutputKind::kValues}), 0.5F);
}

// A network that ends in [1, 64, columns] for each of `columns`; a sigmoid makes those that are negative here.
Graph with_rows(const std::vector<int>& columns) {
  GraphBuilder g({1, 3, 8, 8});
  std::vector<ValueId> outputs;
  for (const int c : columns) {
    const Activation last{c < 0 ? Function::kSigmoid : Function::kNone};
    const ValueId picture = g.conv(g.input(), std::abs(c), 1, 1, 1, last);
    const ValueId rows = g.op(Reshape{}, {picture}, {1, std::abs(c), 64});
    outputs.push_back(g.op(Transpose{{0, 2, 1}}, {rows}, {1, 64, std::abs(c)}));
  }
  return g.finish(outputs);
}

TEST(MixedPrecision, WhatStandsBesideBoxesAloneAreClassScores) {
  constexpr OutputKind kValues = OutputKind::kValues, kProbabilities = OutputKind::kProbabilities;
  EXPECT_EQ(output_kinds(with_rows({80, -4})), (std::vector{OutputKind::kClassScores, kProbabilities}));
  EXPECT_EQ(output_kinds(with_rows({4, 3})), (std::vector{kValues, OutputKind::kClassScores}));
  EXPECT_EQ(output_kinds(with_rows({4, -3})), (std::vector{kValues, kProbabilities}));
  EXPECT_EQ(output_kinds(with_rows({4, -2, 10})), (std::vector{kValues, kProbabilities, kValues})) << "landmarks";
  EXPECT_EQ(output_kinds(with_rows({4, 4})), (std::vector{kValues, kValues}));
  EXPECT_EQ(output_kinds(with_rows({80})), (std::vector{kValues}));
}

TEST(MixedPrecision, NetworksWithClassScoresGetAChoiceByCosts) {
  const Graph graph = with_rows({80, -4});
  const F32Choice choice = f32_choice(graph, output_kinds(graph), 0.05F);
  EXPECT_EQ(choice.wanted, kWantedOfClassScores);
  EXPECT_EQ(choice.costs, (std::vector<double>{40e6 + 80 * 3 * 64, 40e6 + 4 * 3 * 64}));
  EXPECT_EQ(f32_choice(graph, {}, 0.05F).wanted, kWantedDistance);
}

TEST(MixedPrecision, ConvolutionsAroundAttentionCostWhatItsProductsTakeInF32) {
  GraphBuilder g({1, 3, 8, 8});
  const ValueId x = g.conv(g.input(), 16, 1);  // not beside them
  const auto rows = [&](ValueId picture) { return g.op(Reshape{}, {picture}, {16, 64}); };
  const ValueId queries = rows(g.conv(x, 16, 1)), keys = rows(g.conv(x, 16, 1)), values = rows(g.conv(x, 16, 1));
  const ValueId by_key = g.op(Transpose{{1, 0}}, {queries}, {64, 16});
  const ValueId scores = g.op(MatMul{}, {by_key, keys}, {64, 64});
  const ValueId shares = g.op(Softmax{}, {scores}, {64, 64});
  const ValueId found = g.op(MatMul{}, {values, shares}, {16, 64});
  const ValueId end = g.conv(g.op(Reshape{}, {found}, {1, 16, 8, 8}), 80, 1);
  const ValueId box = g.conv(x, 4, 1);
  const auto detections = [&](ValueId picture, int columns) {
    return g.op(Transpose{{0, 2, 1}}, {g.op(Reshape{}, {picture}, {1, columns, 64})}, {1, 64, columns});
  };
  const Graph graph = g.finish({detections(end, 80), detections(box, 4)});
  constexpr double kScores = 17.0 * 64 * 64 * 16, kFound = 17.0 * 16 * 64 * 64, kOwn = 40e6 + 16 * 16 * 64;
  EXPECT_EQ(f32_choice(graph, output_kinds(graph), 0.05F).costs,
            (std::vector<double>{40e6 + 16 * 3 * 64, kOwn + kScores + kFound, kOwn + kScores + kFound, kOwn + kFound,
                                 40e6 + 80 * 16 * 64 + kScores + kFound, 40e6 + 4 * 16 * 64}));
}

TEST(MixedPrecision, ClassScoresAreComparedAsWhatASigmoidOrASoftmaxMakesOfThem) {
  const auto off = [](const std::vector<float>& got, const std::vector<float>& want) {
    return distance({got}, {want}, {{1, 1, 2}}, {OutputKind::kClassScores});
  };
  EXPECT_EQ(off({-90, -95}, {-90, -95}), 0.0F);
  const float low = 1 / (1 + std::exp(1.0F));
  // The class that loses most counts for what it reached, or for kLeastProbability.
  EXPECT_NEAR(off({-90, -90}, {-90, -91}), (0.5F - low) / low, 1e-5F) << "the sigmoids are 0 in both";
  EXPECT_NEAR(off({0, 0}, {-1, -1}), (0.5F - low) / low, 1e-5F) << "the Softmax is 1/2 in both";
  EXPECT_EQ(off({-90, std::numeric_limits<float>::infinity()}, {-90, 90}), std::numeric_limits<float>::infinity());
}

TEST(MixedPrecision, OneRowOfClassScoresInAHundredMayBeOff) {
  const std::vector<float> want(200, -90.0F);
  std::vector<float> got = want;
  const auto off = [&] { return distance({got}, {want}, {{1, 100, 2}}, {OutputKind::kClassScores}); };
  got[7] = 90;
  EXPECT_EQ(off(), 0.0F);
  got[8] = 90;
  EXPECT_EQ(off(), 1 / kLeastProbability);
}

TEST(MixedPrecision, AChannelOfScoresCountsBesideOneOfPixels) {
  EXPECT_EQ(distance({{500, 640, 1, 0.5F, 0, 0}}, {{500, 640, 1, 0.75F, 0, 0}}, {{1, 2, 3}}), 0.25F);
  EXPECT_EQ(distance({{640, 0.5F, 500, 0, 1, 0}}, {{640, 0.75F, 500, 0, 1, 0}}, {{1, 3, 2}}), 0.25F);
}

TEST(MixedPrecision, DistanceIsOfTheWorstElementInSharesOfItsOutputsLargestValue) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  const float nan = std::nanf("");
  EXPECT_EQ(distance({{1.0F, 8.0F}, {0.5F, 0.25F}}, {{2.0F, -8.0F}, {0.5F, 0.5F}}, {{1, 1, 2}, {1, 1, 1, 2}}), 2.0F);
  EXPECT_EQ(distance({{8.0F}, {0.5F, 0.25F}}, {{8.0F}, {0.5F, 0.5F}}, {{1}, {1, 1, 1, 2}}), 0.5F);
  EXPECT_EQ(distance({{nan}}, {{1.0F}}, {{1}}), kInfinite);
  EXPECT_EQ(distance({{kInfinite}}, {{1.0F}}, {{1}}), kInfinite);
  EXPECT_EQ(distance({{-kInfinite, nan, 1.0F}}, {{-kInfinite, nan, 1.0F}}, {{1, 1, 1, 3}}), 0.0F)
      << "no numbers in either";
}

TEST(MixedPrecision, ItsPictureIsHalfTextureAndQuartersOfGreyAndBlack) {
  const std::vector<std::byte> picture = trial_picture(40, 20);
  ASSERT_EQ(picture.size(), 40U * 20 * 3);
  EXPECT_EQ(picture, trial_picture(40, 20));
  std::set<std::byte> above;
  for (std::size_t i = 0; i < picture.size(); ++i) {
    const std::size_t y = i / 120, x = i % 120 / 3;
    if (y < 10)
      above.insert(picture[i]);
    else
      ASSERT_EQ(picture[i], x < 20 ? std::byte{114} : std::byte{0}) << x << ", " << y;
  }
  EXPECT_GE(above.size(), 64U);
  EXPECT_EQ(trial_picture(1, 1).size(), 3U);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
