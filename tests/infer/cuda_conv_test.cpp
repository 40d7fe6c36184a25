// conv() in every shape that a block may have, under emulation. Which one a layer gets is an estimate.
#include <gtest/gtest.h>

#include <cstddef>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include "infer/cuda/kernels/tiles.hpp"
#include "infer/cuda/plan/windows.hpp"
#include "tests/infer/cuda_plans.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::GraphBuilder;

constexpr std::size_t kShared = std::size_t{227} * 1024;

struct Layer {
  int kernel, stride, channels, outputs, height, width;
};
class DenseConvolution : public testing::TestWithParam<Layer> {
 protected:
  // The layer alone; a block of 64 KiB is too small for a program of tiles to keep its weights.
  DenseConvolution() {
    const Layer& l = GetParam();
    graph_ = builder_.finish({builder_.conv(builder_.input(), l.outputs, l.kernel, l.stride)});
    plan_ = cuda::make_plan(graph_, test::options_of(DataType::kF16, std::size_t{64} * 1024), "test");
  }
  [[nodiscard]] cuda::ConvArguments& step() {
    for (cuda::Step& step : plan_.steps) {
      if (auto* found = std::get_if<cuda::ConvArguments>(&step.arguments)) return *found;
    }
    throw std::logic_error("the plan has no dense convolution");
  }
  // With all pixels that the tile has and with fewer, with slices that come out even and others.
  [[nodiscard]] std::vector<cuda::ConvShape> shapes() {
    std::vector<cuda::ConvShape> all;
    cuda::ConvArguments a = step();
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
    step().shape = shape;
    EXPECT_LE(test::relative_error(test::run_emulated(plan_, input)[0], want[0].f32), test::kF16Tolerance)
        << "tile " << shape.tile << ", " << shape.ty << " x " << shape.tx << " pixels, slices of " << shape.slice_steps
        << " steps, " << shape.stages << " stages";
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, DenseConvolution,
                         testing::Values(Layer{3, 1, 248, 72, 5, 7}, Layer{3, 2, 248, 40, 11, 9},
                                         Layer{1, 1, 504, 104, 5, 6}, Layer{1, 2, 504, 104, 9, 9}));

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
    a.shape = cuda::choose_shape(a, shared);
    ASSERT_GE(a.shape.tile, 0);
    EXPECT_LE(cuda::conv_memory(a).total(), shared);
    EXPECT_LE(a.shape.ty * a.shape.tx, cuda::kConvTiles[a.shape.tile].pixels());
  }
  EXPECT_EQ(cuda::choose_shape(a, 4096).tile, -1);
}

TEST(ConvShape, OfASmallImageWithManyChannelsGivesMostMultiprocessorsABlock) {
  cuda::ConvArguments a = small_image_of_many_channels();
  a.shape = cuda::choose_shape(a, kShared);
  const int tiles = ((a.h + a.shape.ty - 1) / a.shape.ty) * ((a.w + a.shape.tx - 1) / a.shape.tx);
  const int channels = cuda::kConvTiles[a.shape.tile].channels();
  EXPECT_GE(tiles * ((a.n + channels - 1) / channels), 100);
  EXPECT_GT(cuda::kConvTiles[a.shape.tile].teams, 1);
}

TEST(ConvShape, KeepsAllWeightsOfASmallLayerSoThatTheyArriveBeforeItsInput) {
  cuda::ConvArguments a = small_image_of_many_channels();
  a.x.c = a.n = 128;
  EXPECT_EQ(cuda::choose_shape(a, kShared).stages, 1);
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
