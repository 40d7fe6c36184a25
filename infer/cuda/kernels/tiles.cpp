// Which tile a layer gets.
#include "infer/cuda/kernels/tiles.hpp"

namespace camd::infer::cuda {

// Small images get small tiles, so that every multiprocessor has a block. Many output channels get tiles of many
// channels, so that the depthwise part is not computed twice.
int choose_tile(const SeparableArguments& a, std::size_t shared_bytes) {
  const int pixels = a.y.h * a.y.w;
  int tile = 5;
  if (a.y.c <= 16)
    tile = pixels >= 65536 ? 0 : 1;
  else if (a.y.c <= 32)
    tile = a.x.c <= 16 ? 1 : 2;
  else if (pixels >= 8192)
    tile = 3;
  else if (pixels >= 2048)
    tile = 4;
  // Where a tile does not fit, a smaller one may.
  for (; tile < kSeparableTileCount; ++tile) {
    if ((a.x_pairs || a.y_pairs) && !kSeparableTiles[tile].pairs) return -1;
    if (separable_memory(kSeparableTiles[tile], a.stride, a.x.c, a.x_pairs, a.y_pairs).total() <= shared_bytes)
      return tile;
  }
  return -1;
}

// One kernel less saves some 3500 cycles. It costs the first product at the border, which neighbours make as well, and
// for each block that shares the output channels.
int choose_tile(const BottleneckArguments& a, std::size_t shared_bytes) {
  constexpr int kProcessors = 132;
  constexpr int kStep = 40, kMostCycles = 2400;  // of a warp, for 16 pixels, 32 channels and 16 input channels
  constexpr std::size_t kRoomForTwo = std::size_t{112} * 1024;
  const int tile = a.y.h * a.y.w >= 8192 ? 0 : a.c > 64 ? 3 : a.y.c > 64 ? 1 : 2;
  const BottleneckTile& shape = kBottleneckTiles[tile];
  const BottleneckMemory memory = bottleneck_memory(shape, a);
  if (memory.total() > shared_bytes || memory.total() > kRoomForTwo) return -1;
  const int halo = BottleneckTile::halo(shape.ty, a.stride) * BottleneckTile::halo(shape.tx, a.stride);
  const int units = (halo + 15) / 16 * ((memory.front_n16 + memory.unit_n16 - 1) / memory.unit_n16);
  const int warps = shape.threads / 32, rounds = (units + warps - 1) / warps;
  const int blocks = ((a.y.h + shape.ty - 1) / shape.ty) * ((a.y.w + shape.tx - 1) / shape.tx) *
                     ((a.y.c + shape.channels() - 1) / shape.channels());
  const int waves = (blocks + 2 * kProcessors - 1) / (2 * kProcessors);
  return waves * rounds * memory.front_steps * kStep <= kMostCycles ? tile : -1;
}

// Chooses the tile that computes the fewest channels in vain; among equals, the largest that still gives most
// multiprocessors a block.
int choose_tile(const ConvArguments& a, std::size_t shared_bytes) {
  constexpr int kWantedBlocks = 120;
  int best = -1;
  int best_waste = 0, best_blocks = 0;
  for (int i = 0; i < kConvTileCount; ++i) {
    const ConvTile& tile = kConvTiles[i];
    if (tile.kernel != a.kernel || tile.stride != a.stride) continue;
    if (conv_memory(tile, a.x.c, shared_bytes).slots < 1) continue;
    const int columns = (a.n + tile.channels() - 1) / tile.channels();
    const int waste = columns * tile.channels() - a.n;
    const int blocks = ((a.h + tile.ty - 1) / tile.ty) * ((a.w + tile.tx - 1) / tile.tx) * columns;
    bool better = best < 0 || waste < best_waste;
    if (best >= 0 && waste == best_waste) {
      const bool enough = blocks >= kWantedBlocks, best_enough = best_blocks >= kWantedBlocks;
      better = enough != best_enough ? enough : enough ? blocks < best_blocks : blocks > best_blocks;
    }
    if (better) {
      best = i;
      best_waste = waste;
      best_blocks = blocks;
    }
  }
  return best;
}

}  // namespace camd::infer::cuda
