// First convolutions that read the planes of the picture, under emulation.
#include <gtest/gtest.h>

#include "infer/cuda/plan/patches.hpp"
#include "tests/infer/cuda_plans.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::expect_like_reference;
using test::GraphBuilder;
using test::options_of;
using test::steps_of;

ValueId convolved(GraphBuilder& g, int channels, int side, int pad) {
  Conv c;
  c.kernel = {side, side};
  c.stride = {2, 2};
  c.pads = {pad, pad, pad, pad};
  const Shape in = g.shape(g.input());
  const ValueId w = g.constant({channels, in[1], side, side}, 0.3F), b = g.constant({channels}, 0.2F);
  const auto size = [&](std::int64_t n) { return (n + std::int64_t{2} * pad - side) / 2 + 1; };
  return g.op(c, {g.input(), w, b, kNoValue}, {1, channels, size(in[2]), size(in[3])}, {Function::kSilu});
}

struct First {
  int channels, side, height, width;
};
class FirstLayer : public testing::TestWithParam<First> {};

TEST_P(FirstLayer, EqualsTheReferenceInF32AndBeforeF16) {
  const First f = GetParam();
  GraphBuilder g({1, 3, f.height, f.width});
  const Graph graph = g.finish({g.conv(convolved(g, f.channels, f.side, (f.side - 1) / 2), 8, 3)});
  cuda::PlanOptions options = options_of(DataType::kF32);
  EXPECT_EQ(steps_of<cuda::PlanesConvArguments>(cuda::make_plan(graph, options, "test")), 1);
  expect_like_reference(graph, g.random_input(), options);
  options.type = DataType::kF16;
  options.f32_convolutions = {true, false};
  EXPECT_EQ(steps_of<cuda::PlanesConvArguments>(cuda::make_plan(graph, options, "test")), 1);
  expect_like_reference(graph, g.random_input(), options);
  options.f32_convolutions.clear();  // 3x3 is for the stem
  EXPECT_EQ(steps_of<cuda::PlanesConvArguments>(cuda::make_plan(graph, options, "test")), f.side == 3 ? 0 : 1);
  expect_like_reference(graph, g.random_input(), options);
}

INSTANTIATE_TEST_SUITE_P(Sizes, FirstLayer,
                         testing::Values(First{16, 3, 34, 70}, First{12, 6, 40, 36}, First{40, 6, 21, 75},
                                         First{64, 3, 16, 16}));

Graph focus(GraphBuilder& g, bool chained) {
  const ValueId x = test::patches(g, g.input(), chained);
  return g.finish({g.conv(g.conv(x, 12, 3, 1, 1, {Function::kSilu}), 8, 1)});
}

TEST(FirstLayer, AConvolutionOfPatchesIsOneOfPixels) {
  for (const bool chained : {false, true}) {
    GraphBuilder g({1, 3, 26, 38});
    const Graph graph = focus(g, chained);
    const std::vector<float> input = g.random_input();
    const std::vector<Constant> want = run_reference(graph, input);
    const Graph folded = cuda::with_convolved_patches(graph);
    ASSERT_EQ(folded.ops.size(), 2U);
    EXPECT_EQ(cuda::with_convolved_patches(folded).ops.size(), 2U);
    EXPECT_LE(test::relative_error(run_reference(folded, input)[0].f32, want[0].f32), 1e-6F);
    cuda::PlanOptions options = options_of(DataType::kF16);
    options.f32_convolutions = {true, true};
    const cuda::Plan plan = cuda::make_plan(graph, options, "test");
    EXPECT_EQ(steps_of<cuda::PlanesConvArguments>(plan), 1);
    expect_like_reference(graph, input, options);
  }
}

TEST(FirstLayer, PatchesThatOthersReadStay) {
  GraphBuilder g({1, 3, 26, 38});
  Graph graph = focus(g, false);
  graph.outputs.push_back(graph.ops[4].output);  // the Concat's
  EXPECT_EQ(cuda::with_convolved_patches(graph).ops.size(), graph.ops.size());
}

TEST(FirstLayer, PartsThatAreNoPatchStay) {
  GraphBuilder g({1, 3, 26, 38});
  Graph graph = focus(g, false);
  std::get<Slice>(graph.ops[3].operation).start[3] = 0;  // one place twice, another never
  EXPECT_EQ(cuda::with_convolved_patches(graph).ops.size(), graph.ops.size());
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
