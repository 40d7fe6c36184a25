// The tiles that separable(), bottleneck(), stem_block(), conv() and warpgroup_conv() can make in a block, how each
// uses shared memory, and which tile a layer gets. The planner uses it, which knows no CUDA, and so do the kernels,
// which are instantiated from these tables.
//
// Threads: functions of their arguments, [any].
#pragma once

#include <cstddef>

#include "infer/cuda/kernels/bottleneck.hpp"
#include "infer/cuda/kernels/conv.hpp"
#include "infer/cuda/kernels/divider.hpp"
#include "infer/cuda/kernels/separable.hpp"

namespace camd::infer::cuda {

struct SeparableTile {
  int ty, tx;  // output pixels of a block
  int nt;      // groups of 8 output channels that a warp makes
  int run;     // groups of 16 pixels for which a warp keeps its depthwise weights in registers
  int blocks;  // a multiprocessor shall hold at least so many; this bounds the registers of a thread
  bool pairs;  // also built for images of pairs (SeparableArguments), which first layers with few channels have
  static constexpr int kThreads = 256;
  // So many warps share the pixels; each makes mt() groups of 16.
  [[nodiscard]] constexpr int warp_rows() const { return ty * tx / 16 < 8 ? ty * tx / 16 : 8; }
  [[nodiscard]] constexpr int mt() const { return ty * tx / 16 / warp_rows(); }
  [[nodiscard]] constexpr int channels() const { return kThreads / 32 / warp_rows() * nt * 8; }
};
inline constexpr SeparableTile kSeparableTiles[] = {
    {16, 16, 2, 4, 4, true}, {8, 16, 4, 2, 4, true}, {8, 16, 4, 4, 4, true},
    {8, 8, 4, 2, 2, false},  {4, 8, 4, 2, 2, false}, {4, 8, 2, 2, 2, false},
};
inline constexpr int kSeparableTileCount = static_cast<int>(sizeof(kSeparableTiles) / sizeof(kSeparableTiles[0]));

// Shared memory of a block, in bytes, in the order in which its parts lie.
struct SeparableMemory {
  int groups;       // of 8 input channels
  int halo_groups;  // of 8 halfs of an input pixel: twice `groups` where the input is of pairs
  int k_steps;      // of 16 input channels
  int left_steps;   // of the depthwise results: twice `k_steps` where the output is of pairs
  int halo_bytes;   // the input tile
  int left_bytes;   // the depthwise results
  int right_bytes;  // the packed 1x1 weights
  int taps_bytes;   // the depthwise weights, then their bias, then a barrier
  Divider by_groups, by_halo_groups;
  Divider by_across;  // 16-byte words of a row of the input tile
  int rows_at_once;   // that the block's threads copy
  // Eight pixels side by side must not lie in the same banks. So the groups of a pixel are permuted: group g lies where
  // group g ^ exchange(column) would.
  int exchange_shift, exchange_mask;
  [[nodiscard]] constexpr int exchange(int column) const { return column >> exchange_shift & exchange_mask; }
  [[nodiscard]] constexpr std::size_t total() const {
    const int bytes = halo_bytes + left_bytes + right_bytes + taps_bytes;
    return static_cast<std::size_t>(bytes);
  }
};
[[nodiscard]] constexpr SeparableMemory separable_memory(const SeparableTile& tile, int stride, int c, bool x_pairs,
                                                         bool y_pairs) {
  SeparableMemory m{};
  m.groups = (c + 7) / 8;
  m.halo_groups = x_pairs ? 2 * m.groups : m.groups;
  m.k_steps = (c + 15) / 16;
  m.left_steps = y_pairs ? 2 * m.k_steps : m.k_steps;
  m.halo_bytes = ((tile.ty - 1) * stride + 3) * ((tile.tx - 1) * stride + 3) * m.halo_groups * 16;
  m.left_bytes = tile.ty * tile.tx * (m.left_steps * 32 + 16);
  m.right_bytes = m.k_steps * (tile.channels() / 16) * 512;
  m.taps_bytes = 11 * m.groups * 16 + 16;
  m.by_groups = make_divider(m.groups);
  m.by_halo_groups = make_divider(m.halo_groups);
  const int across = ((tile.tx - 1) * stride + 3) * m.halo_groups;
  m.by_across = make_divider(across);
  m.rows_at_once = across < SeparableTile::kThreads ? SeparableTile::kThreads / across : 1;
  const int together = m.halo_groups & -m.halo_groups;  // the largest power of two that divides halo_groups
  m.exchange_mask = (together < 8 ? together : 8) - 1;
  m.exchange_shift = together == 1 ? 0 : together == 2 ? 2 : together == 4 ? 1 : stride - 1;
  return m;
}

struct BottleneckTile {
  int ty, tx;  // output pixels of a block
  int nt;      // groups of 8 output channels that a warp makes
  int threads;
  [[nodiscard]] constexpr int warp_rows() const { return ty * tx / 16; }
  [[nodiscard]] constexpr int mt() const { return 1; }
  [[nodiscard]] constexpr int channels() const { return threads / 32 / warp_rows() * nt * 8; }
  // Rows of the input for so many rows of the output; columns likewise.
  [[nodiscard]] static constexpr int halo(int side, int stride) { return (side - 1) * stride + 3; }
};
inline constexpr BottleneckTile kBottleneckTiles[] = {{8, 8, 4, 256}, {4, 8, 4, 256}, {4, 8, 2, 256}, {4, 8, 2, 512}};
inline constexpr int kBottleneckTileCount = static_cast<int>(sizeof(kBottleneckTiles) / sizeof(kBottleneckTiles[0]));

// Shared memory of a block, in bytes, in the order in which its parts lie; the layer's halo comes last.
struct BottleneckMemory {
  int groups;       // of 8 channels between the convolutions
  int front_n16;    // the same in groups of 16
  int unit_n16;     // how many of them a warp makes at a time, 1 or 2
  int front_steps;  // of 16 input channels
  int k_steps;      // of 16 depthwise channels
  int in_pixel_bytes;
  int in_bytes;     // the input tile, rounded up to groups of 16 pixels
  int front_bytes;  // the first convolution's packed weights
  int left_bytes;   // the depthwise results; before, what is kept
  int right_bytes;  // the packed weights of the second 1x1
  int taps_bytes;   // the depthwise weights, then their bias, then a barrier
  int table_bytes;
  int halo_bytes;                     // the first convolution's results
  Divider by_words;                   // 16-byte words of a pixel of the input tile
  int exchange_shift, exchange_mask;  // as in SeparableMemory
  [[nodiscard]] constexpr int exchange(int column) const { return column >> exchange_shift & exchange_mask; }
  [[nodiscard]] constexpr std::size_t total() const {
    const int bytes =
        in_bytes + front_bytes + left_bytes + right_bytes + taps_bytes + front_n16 * 64 + table_bytes + halo_bytes;
    return static_cast<std::size_t>(bytes);
  }
};
[[nodiscard]] constexpr BottleneckMemory bottleneck_memory(const BottleneckTile& tile, const BottleneckArguments& a) {
  BottleneckMemory m{};
  const int halo = BottleneckTile::halo(tile.ty, a.stride) * BottleneckTile::halo(tile.tx, a.stride);
  const int pixels = tile.ty * tile.tx;
  m.groups = (a.c + 7) / 8;
  m.front_n16 = (m.groups + 1) / 2;
  m.unit_n16 = (halo + 15) / 16 * m.front_n16 > tile.threads / 32 ? 2 : 1;
  m.front_steps = (a.front_groups + 1) / 2;
  m.k_steps = (a.c + 15) / 16;
  m.in_pixel_bytes = m.front_steps * 32 + 16;  // an odd number of 16-byte words: no bank conflicts
  m.in_bytes = (halo + 15) / 16 * 16 * m.in_pixel_bytes;
  m.front_bytes = m.front_steps * m.front_n16 * 512;
  const int left = m.k_steps * 32 + 16, kept = a.kept.data != nullptr ? a.kept_groups * 16 + 16 : 0;
  m.left_bytes = pixels * (left > kept ? left : kept);
  m.right_bytes = m.k_steps * (tile.channels() / 16) * 512;
  m.taps_bytes = 11 * m.groups * 16 + 16;
  m.table_bytes = ((a.front_groups + a.kept_groups + (a.kept.c + 7) / 8 * 8) * 2 + 15) / 16 * 16;
  m.halo_bytes = halo * m.groups * 16;
  m.by_words = make_divider(m.front_steps * 2);
  const int together = m.groups & -m.groups;  // the largest power of two that divides groups
  m.exchange_mask = (together < 8 ? together : 8) - 1;
  m.exchange_shift = together == 1 ? 0 : together == 2 ? 2 : together == 4 ? 1 : a.stride - 1;
  return m;
}

// A tile of the picture in shared memory (stem_tile.cuh). Its width is odd. A row has room for a multiple of four
// pixels. stem_tile_bytes() counts the tile twice: the values, and what rounding them to f16 took away.
[[nodiscard]] constexpr int stem_tile_row_words(int columns) { return (columns + 4) / 4 * 6; }
[[nodiscard]] constexpr int stem_tile_bytes(int rows, int columns) {
  return (2 * rows * stem_tile_row_words(columns) * 4 + 15) / 16 * 16;
}
// The camera's bytes that such a tile is made of, where one chroma sample stands for four pixels. stem_picture_rows():
// rows of luma, with one in front for tiles that begin between two chroma samples; chroma has half as many rows and one
// more. stem_picture_pieces(): pieces of 16 bytes that cover a row, wherever it begins.
[[nodiscard]] constexpr int stem_picture_rows(int rows) { return (rows + 2) / 2 * 2; }
[[nodiscard]] constexpr int stem_picture_pieces(int columns) { return ((columns + 4) / 4 * 4 + 2 + 15 + 15) / 16; }
[[nodiscard]] constexpr int stem_picture_bytes(int rows, int columns) {
  return (stem_picture_rows(rows) / 2 * 3 + 1) * stem_picture_pieces(columns) * 16;
}

// In stem_block() a block makes stem_block_rows() rows of kStemBlockColumns pixels. `groups`: of 8 channels of the
// first convolution.
inline constexpr int kMostStemBlockChannels = 16;  // of the first convolution
inline constexpr int kStemBlockColumns = 32;
// The higher tile is for one group only: with two, four blocks of it would not fit a multiprocessor.
[[nodiscard]] constexpr int stem_block_rows(int groups) { return groups == 1 ? 16 : 8; }

struct StemBlockMemory {
  int n16;          // of 16 output channels
  int first_bytes;  // the picture's tile; later the depthwise results
  int halo_bytes;   // the first convolution's results
  int right_bytes;  // the packed 1x1 weights
  int taps_bytes;   // the depthwise weights, then their bias, then the bias of the 1x1
  [[nodiscard]] constexpr std::size_t total() const {
    return static_cast<std::size_t>(first_bytes) + static_cast<std::size_t>(halo_bytes) +
           static_cast<std::size_t>(right_bytes) + static_cast<std::size_t>(taps_bytes);
  }
};
// `c`: channels of the first convolution. `n`: channels of the 1x1.
[[nodiscard]] constexpr StemBlockMemory stem_block_memory(int c, int n) {
  StemBlockMemory m{};
  const int groups = (c + 7) / 8;
  const int rows = stem_block_rows(groups) + 2, columns = kStemBlockColumns + 2;  // of the first convolution
  m.n16 = (n + 15) / 16;
  const int picture_bytes = stem_tile_bytes(rows * 2 + 1, columns * 2 + 1);
  const int left_bytes = stem_block_rows(groups) * kStemBlockColumns * (groups * 32 + 16);
  m.first_bytes = left_bytes > picture_bytes ? left_bytes : picture_bytes;
  const int bytes = stem_picture_bytes(rows * 2 + 1, columns * 2 + 1);  // used up before these are written
  m.halo_bytes = rows * columns * groups * 32 > bytes ? rows * columns * groups * 32 : bytes;
  m.right_bytes = 2 * m.n16 * 512;
  m.taps_bytes = 10 * groups * 32 + m.n16 * 64;
  return m;
}

// How the warps of a block of conv() share its work. Which pixels the block makes is ConvShape's.
struct ConvTile {
  int mt;       // groups of 16 pixels that a warp makes
  int nt;       // groups of 8 output channels that a warp makes
  int rows;     // warps that share the pixels
  int columns;  // warps that share the output channels
  int teams;    // of rows * columns warps; they share the input channels and taps, and add their sums in the end
  [[nodiscard]] constexpr int pixels() const { return rows * mt * 16; }
  [[nodiscard]] constexpr int channels() const { return columns * nt * 8; }
  [[nodiscard]] constexpr int threads() const { return rows * columns * teams * 32; }
};
inline constexpr ConvTile kConvTiles[] = {
    {4, 4, 2, 2, 2}, {4, 4, 2, 1, 4}, {4, 4, 1, 2, 4}, {4, 4, 1, 1, 8},
    {7, 2, 1, 1, 8}, {2, 4, 1, 2, 4}, {2, 4, 1, 1, 8}, {2, 2, 1, 1, 8},
};
inline constexpr int kMostConvStages = 3;
inline constexpr int kConvTileCount = static_cast<int>(sizeof(kConvTiles) / sizeof(kConvTiles[0]));

struct ConvMemory {
  int taps;
  int k_steps;  // of 16 input channels
  int slices;   // of `slice_steps`; the last one may hold fewer
  int slice_items;
  int halo_x, halo_pixels;  // of the input tile
  int pixel_bytes;          // of a slice of it, padded: an odd number of 16-byte words, so without bank conflicts
  int halo_bytes;
  int stage_bytes;   // a slice of the input tile and the weights for it
  int table_bytes;   // where each item of a slice finds its pixels, then the bias
  int stages_bytes;  // of all stages, or of the sums that teams add afterwards in the same memory
  Divider by_words;  // 16-byte words of a pixel
  Divider by_halo_x, by_steps, by_tx;
  [[nodiscard]] constexpr std::size_t total() const {
    return static_cast<std::size_t>(table_bytes) + static_cast<std::size_t>(stages_bytes);
  }
};
[[nodiscard]] constexpr ConvMemory conv_memory(const ConvArguments& a) {
  const ConvTile& tile = kConvTiles[a.shape.tile];
  const ConvShape& shape = a.shape;
  ConvMemory m{};
  m.taps = a.kernel * a.kernel;
  m.k_steps = (a.x.c + 15) / 16;
  m.slices = (m.k_steps + shape.slice_steps - 1) / shape.slice_steps;
  m.slice_items = m.taps * shape.slice_steps;
  m.halo_x = (shape.tx - 1) * a.stride + a.kernel;
  m.halo_pixels = ((shape.ty - 1) * a.stride + a.kernel) * m.halo_x;
  m.pixel_bytes = shape.slice_steps * 32 + 16;
  m.halo_bytes = m.halo_pixels * m.pixel_bytes;
  m.stage_bytes = m.halo_bytes + m.slice_items * (tile.channels() / 16) * 512;
  m.table_bytes = (m.slice_items * 4 + 15) / 16 * 16 + tile.channels() * 4;
  const int sums_bytes = tile.teams * tile.pixels() * tile.channels() * 4;
  m.stages_bytes = shape.stages * m.stage_bytes > sums_bytes ? shape.stages * m.stage_bytes : sums_bytes;
  m.by_words = make_divider(shape.slice_steps * 2);
  m.by_halo_x = make_divider(m.halo_x);
  m.by_steps = make_divider(shape.slice_steps);
  m.by_tx = make_divider(shape.tx);
  return m;
}

// The same for warpgroup_conv(), in warpgroups of four warps. Their numbers in ConvShape follow those of kConvTiles.
struct WarpgroupTile {
  int nt;       // groups of 8 output channels that a warpgroup makes of its 64 pixels
  int rows;     // warpgroups that share the pixels
  int columns;  // ... the output channels
  int teams;    // ... as ConvTile's
  [[nodiscard]] constexpr int pixels() const { return rows * 64; }
  [[nodiscard]] constexpr int channels() const { return columns * nt * 8; }
  [[nodiscard]] constexpr int threads() const { return rows * columns * teams * 128; }
  // So many teams finish the results, each for so many groups of 8 channels.
  [[nodiscard]] constexpr int finishers() const { return teams < nt / 2 ? teams : nt / 2; }
  [[nodiscard]] constexpr int finished() const { return nt / finishers(); }
};
inline constexpr WarpgroupTile kWarpgroupTiles[] = {
    {16, 2, 1, 1}, {8, 2, 1, 1}, {8, 2, 1, 2}, {8, 1, 1, 2}, {4, 2, 1, 1}, {4, 1, 1, 4}, {8, 4, 1, 1}, {16, 1, 1, 2},
};
inline constexpr int kWarpgroupTileCount = static_cast<int>(sizeof(kWarpgroupTiles) / sizeof(kWarpgroupTiles[0]));
inline constexpr int kMostWarpgroupStages = 5;

struct WarpgroupConvMemory {
  int slices;  // of `slice_steps` steps of 16 input channels; the last one may hold fewer
  int slice_items;
  int halo_x, halo_pixels;  // of the input tile
  int part_x, part_pixels;  // of its part for even or odd rows and columns; of all of it with stride 1
  int plane_bytes;          // 8 channels of all parts; an odd number of 16-byte words, so without bank conflicts
  int pixels_bytes;         // of a slice of the input tile; a matrix may reach beyond its last plane
  int stage_bytes;          // and the weights for it
  int table_bytes;          // where each item of a slice finds its pixels, then barriers, then the bias
  int stages_bytes;         // of all stages, or of the sums that teams hand over afterwards in the same memory
  // Pixel i of the tile is (i / period, i % period). Runs of 8 pixels begin at multiples of run_bytes.
  int period, run_bytes;
  int tiles_x;
  Divider by_words;  // 16-byte words of a pixel
  Divider by_halo_x, by_steps, by_period, by_tiles_x;
  [[nodiscard]] constexpr std::size_t total() const {
    return static_cast<std::size_t>(table_bytes) + static_cast<std::size_t>(stages_bytes);
  }
};
[[nodiscard]] constexpr bool is_warpgroup_shape(const ConvShape& shape) { return shape.tile >= kConvTileCount; }
[[nodiscard]] constexpr const WarpgroupTile& warpgroup_tile(const ConvShape& shape) {
  return kWarpgroupTiles[shape.tile - kConvTileCount];
}
// The tile's width is 8, or its pixels are one run of (width of the input tile) * ty; either must be within pixels().
[[nodiscard]] constexpr WarpgroupConvMemory warpgroup_conv_memory(const ConvArguments& a) {
  const WarpgroupTile& tile = warpgroup_tile(a.shape);
  const ConvShape& shape = a.shape;
  WarpgroupConvMemory m{};
  m.slices = ((a.x.c + 15) / 16 + shape.slice_steps - 1) / shape.slice_steps;
  m.slice_items = a.kernel * a.kernel * shape.slice_steps;
  m.halo_x = (shape.tx - 1) * a.stride + a.kernel;
  const int halo_y = (shape.ty - 1) * a.stride + a.kernel;
  m.halo_pixels = halo_y * m.halo_x;
  m.part_x = (m.halo_x + a.stride - 1) / a.stride;
  m.part_pixels = (halo_y + a.stride - 1) / a.stride * m.part_x;
  m.plane_bytes = (m.part_pixels * a.stride * a.stride / 8 * 8 + 9) * 16;
  m.period = shape.tx == 8 ? 8 : m.part_x;
  m.run_bytes = shape.tx == 8 ? m.part_x * 16 : 128;
  // The farthest tap, of the last run, of the last plane.
  const int farthest = (a.kernel - 1) / a.stride * (m.part_x + 1) + (a.stride * a.stride - 1) * m.part_pixels;
  const int reach = (tile.pixels() / 8 - 1) * m.run_bytes + (farthest + 8) * 16;
  const int planes = shape.slice_steps * 2;
  m.pixels_bytes = (planes - 1) * m.plane_bytes + (reach > m.plane_bytes ? reach : m.plane_bytes);
  m.pixels_bytes = (m.pixels_bytes + 127) / 128 * 128;
  m.stage_bytes = m.pixels_bytes + m.slice_items * (tile.channels() / 16) * 512;
  m.table_bytes =
      ((m.slice_items * 4 + 15) / 16 * 16 + kMostWarpgroupStages * 8 + 8 + tile.channels() * 4 + 127) / 128 * 128;
  const int sums_bytes = tile.teams == 1 ? 0 : tile.teams * tile.pixels() * tile.channels() * 4;
  m.stages_bytes = shape.stages * m.stage_bytes > sums_bytes ? shape.stages * m.stage_bytes : sums_bytes;
  m.by_words = make_divider(shape.slice_steps * 2);
  m.by_halo_x = make_divider(m.halo_x);
  m.by_steps = make_divider(shape.slice_steps);
  m.by_period = make_divider(m.period);
  m.tiles_x = (a.w + shape.tx - 1) / shape.tx;
  m.by_tiles_x = make_divider(m.tiles_x);
  return m;
}

// The index of the tile for a layer, in kSeparableTiles and kBottleneckTiles, or -1 when none fits `shared_bytes`; of a
// bottleneck also where its layers had better have two kernels.
[[nodiscard]] int choose_tile(const SeparableArguments& arguments, std::size_t shared_bytes);
[[nodiscard]] int choose_tile(const BottleneckArguments& arguments, std::size_t shared_bytes);
// The shape of which the least time is estimated. Its tile is -1 when none fits `shared_bytes`. Reads kernel, stride,
// h, w, n and x.c. `warpgroups`: of warpgroup_conv() too.
[[nodiscard]] ConvShape choose_shape(const ConvArguments& arguments, std::size_t shared_bytes, bool warpgroups);
// The estimate, in cycles of an H100. Reads the shape too. One scale for both kernels.
[[nodiscard]] double conv_cycles(const ConvArguments& arguments);

}  // namespace camd::infer::cuda
