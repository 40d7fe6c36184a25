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

namespace {

// What bounds a block of conv(), in cycles of an H100. Fitted to the times of some 4000 shapes of 35 layers
// (docs/experiments.md).
constexpr int kProcessors = 132;
constexpr double kProcessorBytes = std::size_t{227} * 1024;    // of shared memory
constexpr double kFragmentCycles = 8.2;                        // to read 512 bytes of shared memory
constexpr double kProductCycles = 3.3;                         // of 16 x 8 x 16 by a multiprocessor's four tensor cores
constexpr double kStepCycles = 33, kStepFragmentCycles = 3.2;  // a warp's step waits for its loads, then multiplies
constexpr double kSharedRate = 21, kAloneRate = 82;            // bytes a cycle from the L2 cache: all fetch, one does
constexpr double kSliceCycles = 980;                           // to wait for a slice and to ask for the next
constexpr double kFirstSliceCycles = 1900;                     // until it begins to arrive
constexpr double kSumCycles = 10.6;                            // a team's sums of 16 x 8, written and added
constexpr double kStart = 440;

// The smallest number of rows that covers the image with as many tiles as `most` rows do.
int even_rows(int size, int most) {
  const int tiles = (size + most - 1) / most;
  return (size + tiles - 1) / tiles;
}

// The cycles of a block of warpgroup_conv(). Fitted to 12,535 shapes of 28 layers on one H200; off by 14 % (root of the
// mean square of the logarithm). For a layer it takes a shape that is 3 % slower than the best, in the mean.
double warpgroup_conv_cycles(const ConvArguments& a) {
  constexpr double kBlockStart = 700, kTurn = 3240;  // of the kernel, and of the blocks that run at a time
  constexpr double kProduct = 4.4;                   // of 64 x 8 x 16 by a multiprocessor's four tensor cores
  constexpr double kRead = 1.67;                     // ... to read 128 bytes of its matrices
  constexpr double kAsk = 40;                        // from a warpgroup's product to its next
  constexpr double kFetchRate = 13.4;                // bytes a cycle, of the input's first slices
  constexpr double kOfAll = 66, kOfOne = 88;         // ... of all that is fetched, and by one multiprocessor
  constexpr double kSlice = 674, kWord = 244;  // what a later slice costs beside products, and 16 bytes of a thread
  constexpr double kSum = 0.0179, kResult = 0.0954;  // of a byte of the sums that teams hand over, and of the results
  constexpr int kRegisters = 65536;                  // of a multiprocessor
  const WarpgroupTile& tile = warpgroup_tile(a.shape);
  const WarpgroupConvMemory memory = warpgroup_conv_memory(a);
  const int columns = (a.n + tile.channels() - 1) / tile.channels();
  const int blocks = memory.tiles_x * ((a.h + a.shape.ty - 1) / a.shape.ty) * columns;
  const int each = (blocks + kProcessors - 1) / kProcessors;  // blocks of a multiprocessor
  const int registers = tile.nt >= 16 ? 128 : tile.nt >= 8 ? 64 : 54;
  const int by_memory = static_cast<int>(kProcessorBytes / (static_cast<double>(memory.total()) + 1024));
  const int by_registers = kRegisters / (registers * tile.threads());
  int room = by_memory < by_registers ? by_memory : by_registers;
  room = room < 1 ? 1 : room > each ? each : room;
  const int turns = (each + room - 1) / room;
  const double items = static_cast<double>(memory.slices) * memory.slice_items;
  const double reads = (16 + 2.0 * tile.nt) * kRead, multiplies = tile.nt * kProduct;
  const double pixel_bytes = static_cast<double>(memory.halo_pixels) * a.shape.slice_steps * 32;
  const double weights_bytes = static_cast<double>(memory.slice_items) * tile.channels() * 32;
  const double bytes = memory.slices * (pixel_bytes + weights_bytes);
  double work = each * items * tile.rows * tile.columns * (multiplies > reads ? multiplies : reads);
  for (const double bound :
       {turns * items / tile.teams * kAsk, blocks * bytes / kProcessors / kOfAll, each * bytes / kOfOne})
    work = work > bound ? work : bound;
  const int ahead = a.shape.stages == 1 ? 1 : a.shape.stages - 2;
  const int later = memory.slices > ahead ? memory.slices - ahead : 0;
  const double first = (memory.slices - later) * pixel_bytes * room / kFetchRate;
  const double rest = later * (kSlice + kWord * pixel_bytes / 16 / tile.threads());
  const double results = static_cast<double>(tile.pixels()) * tile.channels();
  const double sums = tile.teams == 1 ? 0 : kSum * 4 * tile.teams * results;
  return kBlockStart + work + each * rest + turns * (kTurn + first + sums + kResult * 2 * results);
}

// The estimate of conv() is a seventh too low beside that one.
constexpr double kConvIsSlower = 1.15;

}  // namespace

double conv_cycles(const ConvArguments& a) {
  if (is_warpgroup_shape(a.shape)) return warpgroup_conv_cycles(a) / kConvIsSlower;
  const ConvTile& tile = kConvTiles[a.shape.tile];
  const ConvMemory memory = conv_memory(a);
  const int columns = (a.n + tile.channels() - 1) / tile.channels();
  const int tiles = ((a.h + a.shape.ty - 1) / a.shape.ty) * ((a.w + a.shape.tx - 1) / a.shape.tx);
  const int blocks = tiles * columns;
  const int beside = static_cast<int>(kProcessorBytes / (static_cast<double>(memory.total()) + 1024));
  const int each = (blocks + kProcessors - 1) / kProcessors;  // blocks of a multiprocessor
  const int turns = beside >= 2 ? (each + 1) / 2 : each;
  const double items = static_cast<double>(memory.slices) * memory.slice_items;
  const double warps = tile.rows * tile.columns;
  // With stride 2 two pixels of a fragment lie in the same banks.
  const double fragments = tile.mt * a.stride + tile.nt / 2.0;
  const double reads = items * warps * fragments * kFragmentCycles;
  const double products = items * warps * tile.mt * tile.nt * kProductCycles;
  const double waits = items / tile.teams * (kStepCycles + kStepFragmentCycles * fragments);
  const double bytes = static_cast<double>(memory.slices) * memory.stage_bytes;
  const double fetches = each * bytes / kAloneRate;
  const double all_fetch = static_cast<double>(blocks) * bytes / kProcessors / kSharedRate;
  const double sums = kSumCycles * tile.teams * tile.pixels() * tile.channels() / 128;
  double work = each * (reads > products ? reads : products);
  for (const double bound : {turns * waits, fetches, all_fetch}) work = work > bound ? work : bound;
  const double first = kFirstSliceCycles + memory.halo_bytes / kAloneRate;
  return kStart + work + turns * (first + memory.slices * kSliceCycles / (a.shape.stages > 2 ? 2 : 1) + sums);
}

namespace {

// Calls consider(ty, tx) for tiles that cover the image in as few rows as tiles of their width can. rows_of(tx): the
// most rows of a tile of that width.
template <typename RowsOf, typename Consider>
void for_each_tile(const ConvArguments& a, RowsOf rows_of, Consider consider) {
  for (int columns = 1; columns <= a.w; ++columns) {
    const int tx = (a.w + columns - 1) / columns;
    if (columns > 1 && tx == (a.w + columns - 2) / (columns - 1)) continue;
    if (const int most = rows_of(tx); most > 0) consider(even_rows(a.h, most < a.h ? most : a.h), tx);
  }
}
// Calls consider(steps, slices) for each way to cut the input channels into slices.
template <typename Consider>
void for_each_slicing(int k_steps, Consider consider) {
  for (int slices = 1; slices <= k_steps; ++slices) {
    const int steps = (k_steps + slices - 1) / slices;
    if (slices > 1 && steps == (k_steps + slices - 2) / (slices - 1)) continue;
    consider(steps, slices);
  }
}

}  // namespace

ConvShape choose_shape(const ConvArguments& arguments, std::size_t shared_bytes, bool warpgroups) {
  ConvArguments a = arguments;
  ConvShape best;
  double least = 0;
  const int k_steps = (a.x.c + 15) / 16;
  const auto consider = [&](std::size_t bytes) {
    if (bytes > shared_bytes) return;
    const double cycles = conv_cycles(a);
    if (best.tile >= 0 && cycles >= least) return;
    best = a.shape;
    least = cycles;
  };
  for (int tile = 0; tile < kConvTileCount; ++tile) {
    const int pixels = kConvTiles[tile].pixels();
    for_each_tile(
        a, [&](int tx) { return pixels / tx; },
        [&](int ty, int tx) {
          for_each_slicing(k_steps, [&](int steps, int slices) {
            for (int stages = 1; stages <= kMostConvStages && stages <= slices; ++stages) {
              if ((stages == 1) != (slices == 1)) continue;
              a.shape = {tile, ty, tx, steps, stages};
              consider(conv_memory(a).total());
            }
          });
        });
  }
  for (int tile = 0; warpgroups && tile < kWarpgroupTileCount; ++tile) {
    const int pixels = kWarpgroupTiles[tile].pixels();
    const auto rows_of = [&](int tx) {
      const int period = tx == 8 ? 8 : ((tx - 1) * a.stride + a.kernel + a.stride - 1) / a.stride;
      return tx > pixels ? 0 : (pixels - tx) / period + 1;
    };
    for_each_tile(a, rows_of, [&](int ty, int tx) {
      for_each_slicing(k_steps, [&](int steps, int slices) {
        for (int stages = 1; stages <= kMostWarpgroupStages; stages += stages == 1 ? 2 : 1) {
          if ((stages == 1) != (slices == 1)) continue;
          a.shape = {kConvTileCount + tile, ty, tx, steps, stages};
          consider(warpgroup_conv_memory(a).total());
        }
      });
    });
  }
  return best;
}

}  // namespace camd::infer::cuda
