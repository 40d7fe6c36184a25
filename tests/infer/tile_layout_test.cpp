// How a group of layers is cut into tiles (infer/cuda/plan/tile_layout.hpp).
#include "infer/cuda/plan/tile_layout.hpp"

#include <gtest/gtest.h>

namespace camd::infer {
namespace CAMD_TEST_FILE {

// A 3x3 with stride 2, then a 3x3: what `lay_out` decides about a tile.
cuda::TileGroup two_layers() {
  cuda::TileGroup group;
  group.images = {{18, 30, 16, false}, {9, 15, 32, false}, {9, 15, 32, true}};
  cuda::TileLayer first, second;
  first.from = 0;
  first.to = 1;
  first.channels = 32;
  first.kernel = 3;
  first.stride = 2;
  first.pad_top = first.pad_left = 1;
  second = first;
  second.from = 1;
  second.to = 2;
  second.stride = 1;
  group.layers = {first, second};
  return group;
}

TEST(TileLayout, EarlierLayersMakeTheBorderThatLaterOnesSee) {
  const auto layout = cuda::lay_out(two_layers(), std::size_t{227} * 1024);
  ASSERT_TRUE(layout.has_value());
  const cuda::TileProgramArguments& p = layout->program;
  ASSERT_EQ(p.stage_count, 3);
  const cuda::TileStage &load = layout->stages[0], &first = layout->stages[1], &second = layout->stages[2];
  EXPECT_EQ(second.h, second.step_y);
  EXPECT_EQ(second.back_y, 0);
  EXPECT_EQ(first.h, second.h + 2);
  EXPECT_EQ(first.back_x, 1);
  EXPECT_EQ(load.h, (first.h - 1) * 2 + 3);
  EXPECT_EQ(load.back_y, 3);
  EXPECT_EQ(load.step_x, 2 * second.step_x);
  EXPECT_FALSE(load.barrier);
  EXPECT_TRUE(first.barrier && second.barrier);
  EXPECT_GE(p.tiles_y * second.step_y, 9);
  EXPECT_GE(p.tiles_x * second.step_x, 15);
}

TEST(TileLayout, NoneWhereSharedMemoryIsTooSmall) {
  EXPECT_FALSE(cuda::lay_out(two_layers(), std::size_t{8} * 1024).has_value());
}

TEST(TileLayout, TilesThatBecomeOutputsAreWholeRunsWide) {
  cuda::TileGroup group = two_layers();
  group.layers[1].planes = true;
  const auto layout = cuda::lay_out(group, std::size_t{227} * 1024);
  ASSERT_TRUE(layout.has_value());
  ASSERT_EQ(layout->stages.size(), 4U);
  const cuda::TileStage& planes = layout->stages[3];
  EXPECT_EQ(planes.kind, cuda::TileStageKind::kPlanes);
  EXPECT_EQ(planes.w % cuda::kPlaneRun, 0);
  EXPECT_EQ(planes.units, (planes.h * planes.w / cuda::kPlaneRun + 3) / 4 * 4) << "32 channels: 4 groups of 8";
}

TEST(TileLayout, LayersAreJoinedOnlyWhereAnotherBlockFindsRoomBesideThem) {
  cuda::TileGroup group = two_layers();
  group.images[0].c = 64;
  group.images[1].c = 128;
  group.layers[0].channels = 128;  // with its weights, 144 KB, a block takes more than half of a processor's memory
  group.layers[1].kernel = 1;
  group.layers[1].pad_top = group.layers[1].pad_left = 0;
  EXPECT_FALSE(cuda::lay_out(group, std::size_t{227} * 1024).has_value());
  group.layers.pop_back();
  group.images.pop_back();
  group.images[1].stored = true;
  EXPECT_TRUE(cuda::lay_out(group, std::size_t{227} * 1024).has_value());
}

// One 1x1 layer.
cuda::TileGroup one_layer(int side, int from, int to) {
  cuda::TileGroup group;
  group.images = {{side, side, from, false}, {side, side, to, true}};
  cuda::TileLayer layer;
  layer.from = 0;
  layer.to = 1;
  layer.channels = to;
  group.layers = {layer};
  return group;
}

TEST(TileLayout, ALayerAloneTakesMostOfAProcessorOnlyWhereThatSavesMuch) {
  constexpr std::size_t kAll = std::size_t{227} * 1024, kHalf = kAll / 2;
  const auto much = cuda::lay_out(one_layer(40, 704, 256), kAll), little = cuda::lay_out(one_layer(20, 128, 256), kAll);
  const auto bounded = cuda::lay_out(one_layer(40, 704, 256), kHalf);
  ASSERT_TRUE(much.has_value() && little.has_value() && bounded.has_value());
  EXPECT_GT(much->program.shared_bytes, static_cast<int>(kHalf));
  EXPECT_LT(much->cost, 0.8 * bounded->cost);
  EXPECT_LT(little->program.shared_bytes, static_cast<int>(kHalf));
}

TEST(TileLayout, AKernelThatRunsIsSpreadOverMoreBlocksThanGroupsAreChosenWith) {
  cuda::TileGroup group = one_layer(40, 64, 64);
  group.layers[0].kernel = 3;
  group.layers[0].pad_top = group.layers[0].pad_left = 1;
  const auto blocks = [&](cuda::LayoutFor purpose) {
    const auto layout = cuda::lay_out(group, std::size_t{227} * 1024, purpose);
    return layout ? layout->program.tiles_y * layout->program.tiles_x * layout->program.columns : 0;
  };
  EXPECT_EQ(blocks(cuda::LayoutFor::kGrouping), 50);
  EXPECT_EQ(blocks(cuda::LayoutFor::kRunning), 100);
}

TEST(TileLayout, NoneWhereALayerReadsAnImageOfAnotherStep) {
  cuda::TileGroup group = two_layers();
  group.layers[1].from = 0;  // the 18x30 image at stride 1 cannot make 9x15 rows that end with the others
  group.layers[1].kernel = 1;
  group.layers[1].pad_top = group.layers[1].pad_left = 0;
  group.images[1].stored = true;
  EXPECT_FALSE(cuda::lay_out(group, std::size_t{227} * 1024).has_value());
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
