// conv() in every shape that a block may have, under emulation. Which one a layer gets is an estimate.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "infer/cuda/kernels/tiles.hpp"
#include "infer/cuda/plan/fusion.hpp"
#include "infer/cuda/plan/handles.hpp"
#include "infer/cuda/plan/packing.hpp"
#include "infer/cuda/plan/windows.hpp"
#include "tests/infer/cuda_plans.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::GraphBuilder;

constexpr std::size_t kShared = std::size_t{227} * 1024;

struct Layer {
  int kernel, stride, channels, outputs, height, width;
};
constexpr std::size_t kTooLittleForPrograms = std::size_t{64} * 1024;  // to keep the weights of the layers below

cuda::PlanOptions options_with(bool warpgroups) {
  cuda::PlanOptions options = test::options_of(DataType::kF16, kTooLittleForPrograms);
  options.warpgroup_products = warpgroups;
  return options;
}
cuda::ConvArguments& dense_step(cuda::Plan& plan) {
  for (cuda::Step& step : plan.steps) {
    if (auto* found = std::get_if<cuda::ConvArguments>(&step.arguments)) return *found;
  }
  throw std::logic_error("the plan has no dense convolution");
}
std::string words(const cuda::ConvShape& shape) {
  return "tile " + std::to_string(shape.tile) + ", " + std::to_string(shape.ty) + " x " + std::to_string(shape.tx) +
         " pixels, slices of " + std::to_string(shape.slice_steps) + " steps, " + std::to_string(shape.stages) +
         " stages";
}

class DenseConvolution : public testing::TestWithParam<Layer> {
 protected:
  DenseConvolution() {
    const Layer& l = GetParam();
    graph_ = builder_.finish({builder_.conv(builder_.input(), l.outputs, l.kernel, l.stride)});
    plan_ = cuda::make_plan(graph_, options_with(false), "test");
  }
  // With all pixels that the tile has and with fewer, with slices that come out even and others.
  [[nodiscard]] std::vector<cuda::ConvShape> shapes() {
    std::vector<cuda::ConvShape> all;
    cuda::ConvArguments a = dense_step(plan_);
    const int k_steps = (a.x.c + 15) / 16;
    for (int tile = 0; tile < cuda::kConvTileCount; ++tile) {
      const int pixels = cuda::kConvTiles[tile].pixels();
      for (const auto& [ty, tx] : {std::pair{5, pixels / 7}, {4, pixels / 4}}) {
        for (const int steps : {k_steps, 5}) {
          const int slices = (k_steps + steps - 1) / steps;
          for (const int stages : {1, 2, 3}) {
            a.shape = {tile, ty, tx, steps, stages};
            if ((stages == 1) == (slices == 1) && stages <= slices && cuda::conv_memory(a).total() <= kShared) {
              all.push_back(a.shape);
            }
          }
        }
      }
    }
    return all;
  }

  GraphBuilder builder_{{1, GetParam().channels, GetParam().height, GetParam().width}};
  Graph graph_;
  cuda::Plan plan_;
};

TEST_P(DenseConvolution, ComputesTheSameInEveryShape) {
  const std::vector<float> input = builder_.random_input();
  const std::vector<Constant> want = run_reference(graph_, input);
  const std::vector<cuda::ConvShape> all = shapes();
  EXPECT_GE(all.size(), 16U);
  for (const cuda::ConvShape& shape : all) {
    dense_step(plan_).shape = shape;
    EXPECT_LE(test::relative_error(test::run_emulated(plan_, input)[0], want[0].f32), test::kF16Tolerance)
        << words(shape);
  }
}

const auto kLayers = testing::Values(Layer{3, 1, 248, 72, 5, 7}, Layer{3, 2, 248, 40, 11, 9},
                                     Layer{1, 1, 504, 104, 5, 6}, Layer{1, 2, 504, 104, 9, 9});
INSTANTIATE_TEST_SUITE_P(Layers, DenseConvolution, kLayers);

// ---- Products of warpgroups

// Gives the plan's dense step this shape and weights that are packed for it. `convolutions`: the graph's ops that the
// step computes.
void take_shape(cuda::Plan& plan, const Graph& graph, const std::vector<int>& convolutions,
                const cuda::ConvShape& shape) {
  cuda::ConvArguments& step = dense_step(plan);
  const int c = step.x.c, taps = step.kernel * step.kernel;
  const auto weight = [&](int n, int tap, int channel) {
    std::size_t which = convolutions.size() - 1;
    while (n < step.sinks[which].first) --which;
    n -= step.sinks[which].first;
    const Op& op = graph.ops[static_cast<std::size_t>(convolutions[which])];
    const int at = (n * c + channel) * taps + tap;
    const std::vector<float>& all = graph.value(op.inputs[1]).constant->f32;
    return n < graph.shape(op.output)[1] ? all[static_cast<std::size_t>(at)] : 0.0F;
  };
  const auto packed = cuda::pack_warpgroup_taps(step.n, c, taps, cuda::warpgroup_tile(shape).channels() / 16,
                                                shape.slice_steps, weight);
  const std::size_t at = plan.constants.size();
  plan.constants.resize(at + cuda::aligned(packed.size() * sizeof(cuda::Half)));
  std::memcpy(plan.constants.data() + at, packed.data(), packed.size() * sizeof(cuda::Half));
  step.shape = shape;
  step.weights = cuda::make_handle(cuda::kConstantsBuffer, at);
}
// Each tile with eight columns and with a run through the input's tile; with few slices and with many.
std::vector<cuda::ConvShape> warpgroup_shapes(cuda::ConvArguments a) {
  std::vector<cuda::ConvShape> all;
  const int k_steps = (a.x.c + 15) / 16;
  for (int tile = 0; tile < cuda::kWarpgroupTileCount; ++tile) {
    const int many = 3 + tile % 3;  // stages
    for (const auto& [ty, tx, steps, stages] :
         {std::tuple{4, 8, 2, many}, {3, 5, 5, 3}, {5, 7, k_steps, 1}, {7, 8, 1, many}}) {
      a.shape = {cuda::kConvTileCount + tile, ty, tx, steps, stages};
      if (cuda::warpgroup_conv_memory(a).total() <= kShared) all.push_back(a.shape);
    }
  }
  return all;
}

class WarpgroupConvolution : public testing::TestWithParam<Layer> {};
TEST_P(WarpgroupConvolution, ComputesTheSameInEveryShape) {
  const Layer& l = GetParam();
  GraphBuilder builder({1, l.channels, l.height, l.width});
  const Graph graph = builder.finish({builder.conv(builder.input(), l.outputs, l.kernel, l.stride)});
  cuda::Plan plan = cuda::make_plan(graph, options_with(true), "test");
  const std::vector<float> input = builder.random_input();
  const std::vector<Constant> want = run_reference(graph, input);
  const std::vector<cuda::ConvShape> all = warpgroup_shapes(dense_step(plan));
  EXPECT_GE(all.size(), 12U);
  for (const cuda::ConvShape& shape : all) {
    take_shape(plan, graph, {0}, shape);
    EXPECT_LE(test::relative_error(test::run_emulated(plan, input)[0], want[0].f32), test::kF16Tolerance)
        << words(shape);
  }
}
INSTANTIATE_TEST_SUITE_P(Layers, WarpgroupConvolution, kLayers);

// The other image is the result of op 0, as large or half as large; the dense convolution is the last op.
class WarpgroupSum : public testing::TestWithParam<std::tuple<bool, bool>> {};
TEST_P(WarpgroupSum, AddsAnotherImageBeforeOrBehindTheActivation) {
  const auto [half, activation_first] = GetParam();
  GraphBuilder builder({1, 248, 6, 8});
  ValueId other = builder.conv(builder.input(), 72, 1, half ? 2 : 1);
  if (half) other = builder.enlarge(other, 6, 8);
  const Graph graph = builder.finish(
      {builder.conv(builder.input(), 72, 3, 1, 1, Activation{Function::kSilu}, other, activation_first)});
  cuda::Plan plan = cuda::make_plan(graph, options_with(true), "test");
  const std::vector<float> input = builder.random_input();
  const std::vector<Constant> want = run_reference(graph, input);
  cuda::ConvArguments* sum = nullptr;
  for (cuda::Step& step : plan.steps) {
    auto* const found = std::get_if<cuda::ConvArguments>(&step.arguments);
    if (found != nullptr && found->add.data != nullptr) sum = found;
  }
  ASSERT_NE(sum, nullptr);
  ASSERT_EQ(sum, &dense_step(plan));
  for (const cuda::ConvShape& shape : warpgroup_shapes(*sum)) {
    take_shape(plan, graph, {static_cast<int>(graph.ops.size()) - 1}, shape);
    EXPECT_LE(test::relative_error(test::run_emulated(plan, input)[0], want[0].f32), test::kF16Tolerance)
        << words(shape);
  }
}
INSTANTIATE_TEST_SUITE_P(Images, WarpgroupSum, testing::Combine(testing::Bool(), testing::Bool()));

TEST(WarpgroupLayers, WritesSeveralLayersOfOneImageWithTheSameActivation) {
  GraphBuilder builder({1, 248, 6, 8});
  const Activation leaky{Function::kLeakyRelu, 0.1F};
  const Graph graph = builder.finish(
      {builder.conv(builder.input(), 24, 3, 1, 1, leaky), builder.conv(builder.input(), 72, 3, 1, 1, leaky)});
  cuda::Plan plan = cuda::make_plan(graph, options_with(true), "test");
  ASSERT_EQ(dense_step(plan).sink_count, 2);
  const std::vector<float> input = builder.random_input();
  const std::vector<Constant> want = run_reference(graph, input);
  for (const cuda::ConvShape& shape : warpgroup_shapes(dense_step(plan))) {
    take_shape(plan, graph, {0, 1}, shape);
    const auto got = test::run_emulated(plan, input);
    EXPECT_LE(test::relative_error(got[0], want[0].f32), test::kF16Tolerance) << words(shape);
    EXPECT_LE(test::relative_error(got[1], want[1].f32), test::kF16Tolerance) << words(shape);
  }
}

// The sizes and the shape that two layers of a large image get together.
cuda::ConvArguments two_large_layers(Function first, Function second) {
  GraphBuilder builder({1, 256, 80, 80});
  const Graph graph = builder.finish({builder.conv(builder.input(), 128, 3, 1, 1, Activation{first}),
                                      builder.conv(builder.input(), 128, 3, 1, 1, Activation{second})});
  cuda::PlanOptions options = options_with(true);
  options.shared_bytes = kShared;
  return cuda::conv_sizes(graph, {0, 1}, options);
}
TEST(WarpgroupLayers, IsNotTakenForLayersOfSeveralActivations) {
  EXPECT_TRUE(cuda::is_warpgroup_shape(two_large_layers(Function::kSilu, Function::kSilu).shape));
  const cuda::ConvArguments mixed = two_large_layers(Function::kSilu, Function::kRelu);
  EXPECT_GE(mixed.shape.tile, 0);
  EXPECT_FALSE(cuda::is_warpgroup_shape(mixed.shape));
}

cuda::ConvArguments small_image_of_many_channels() {
  cuda::ConvArguments a;
  a.x.c = 512;
  a.n = 512;
  a.h = a.w = 20;
  a.kernel = 3;
  a.stride = 1;
  return a;
}

TEST(ConvShape, IsFoundForEveryLayerThatFitsAndForNoOther) {
  cuda::ConvArguments a = small_image_of_many_channels();
  for (const std::size_t shared : {std::size_t{48} * 1024, std::size_t{99} * 1024, kShared}) {
    a.shape = cuda::choose_shape(a, shared, false);
    ASSERT_GE(a.shape.tile, 0);
    EXPECT_LE(cuda::conv_memory(a).total(), shared);
    EXPECT_LE(a.shape.ty * a.shape.tx, cuda::kConvTiles[a.shape.tile].pixels());
  }
  EXPECT_EQ(cuda::choose_shape(a, 4096, false).tile, -1);
}

TEST(ConvShape, OfASmallImageWithManyChannelsGivesMostMultiprocessorsABlock) {
  cuda::ConvArguments a = small_image_of_many_channels();
  a.shape = cuda::choose_shape(a, kShared, false);
  const int tiles = ((a.h + a.shape.ty - 1) / a.shape.ty) * ((a.w + a.shape.tx - 1) / a.shape.tx);
  const int channels = cuda::kConvTiles[a.shape.tile].channels();
  EXPECT_GE(tiles * ((a.n + channels - 1) / channels), 100);
  EXPECT_GT(cuda::kConvTiles[a.shape.tile].teams, 1);
}

TEST(ConvShape, IsOfWarpgroupsForALargeImageWithManyChannelsWhereTheGpuHasThem) {
  cuda::ConvArguments a = small_image_of_many_channels();
  a.h = a.w = 80;
  a.x.c = a.n = 256;
  EXPECT_TRUE(cuda::is_warpgroup_shape(cuda::choose_shape(a, kShared, true)));
  EXPECT_FALSE(cuda::is_warpgroup_shape(cuda::choose_shape(a, kShared, false)));
}

TEST(ConvShape, OfWarpgroupsIsNeverWiderThanItsTile) {
  for (const Layer& l : {Layer{1, 1, 256, 768, 84, 100}, Layer{3, 1, 32, 64, 320, 320}, Layer{1, 1, 192, 192, 80, 80},
                         Layer{1, 2, 64, 64, 30, 400}, Layer{3, 2, 96, 160, 9, 150}}) {
    cuda::ConvArguments a;
    a.x.c = l.channels;
    a.n = l.outputs;
    a.h = l.height;
    a.w = l.width;
    a.kernel = l.kernel;
    a.stride = l.stride;
    a.shape = cuda::choose_shape(a, kShared, true);
    if (!cuda::is_warpgroup_shape(a.shape)) continue;
    const int last = (a.shape.ty - 1) * cuda::warpgroup_conv_memory(a).period + a.shape.tx;
    EXPECT_LE(last, cuda::warpgroup_tile(a.shape).pixels()) << words(a.shape) << " of " << l.width;
  }
}

TEST(ConvShape, KeepsAllWeightsOfASmallLayerSoThatTheyArriveBeforeItsInput) {
  cuda::ConvArguments a = small_image_of_many_channels();
  a.x.c = a.n = 128;
  EXPECT_EQ(cuda::choose_shape(a, kShared, false).stages, 1);
}

struct Window {
  int height, width, stride;
  Pads pads;
};
class SmallWindow : public testing::TestWithParam<Window> {};

TEST_P(SmallWindow, BecomesOneThatTheTensorCoresKnow) {
  const Window& window = GetParam();
  GraphBuilder g({1, 3, 20, 26});
  const ValueId x = g.conv(g.input(), 16, 3, 2, 1, {Function::kRelu});
  Conv conv;
  conv.kernel = {window.height, window.width};
  conv.stride = {window.stride, window.stride};
  conv.pads = window.pads;
  const auto size = [&](std::int64_t n, int padded, int kernel) { return (n + padded - kernel) / window.stride + 1; };
  const Shape out{1, 24, size(10, window.pads.top + window.pads.bottom, window.height),
                  size(13, window.pads.left + window.pads.right, window.width)};
  const ValueId weights = g.constant({24, 16, window.height, window.width}, 0.3F), bias = g.constant({24}, 0.2F);
  const ValueId y = g.op(conv, {x, weights, bias, kNoValue}, out, {Function::kRelu});
  const Graph graph = g.finish({g.conv(y, 8, 1)});
  EXPECT_EQ(
      test::steps_of<cuda::GenericConvArguments>(cuda::make_plan(graph, test::options_of(DataType::kF16), "test")), 0);
  test::expect_like_reference(graph, g.random_input(), test::options_of(DataType::kF16));
  const Graph whole = cuda::with_whole_windows(graph);
  EXPECT_EQ(std::get<Conv>(cuda::with_whole_windows(whole).ops[1].operation).kernel, (Pair2{3, 3}));
  const std::vector<float> input = g.random_input();
  EXPECT_EQ(run_reference(whole, input)[0].f32, run_reference(graph, input)[0].f32);
}

INSTANTIATE_TEST_SUITE_P(Sizes, SmallWindow,
                         testing::Values(Window{2, 2, 1, {0, 0, 1, 1}}, Window{2, 2, 2, {}},
                                         Window{1, 3, 1, {0, 1, 0, 1}}, Window{3, 1, 1, {1, 0, 1, 0}},
                                         Window{2, 3, 1, {1, 2, 1, 0}}));

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
