// Depthwise 3x3 and 1x1 convolution as one kernel.
//
// A block makes a tile of pixels (tiles.hpp) and as many output channels as its warps hold. It fetches its weights
// while the kernel before it still runs, then the input's tile with a border of one pixel. The depthwise results,
// rounded to f16, stay in shared memory as the left matrix of the 1x1 product. Images may be of pairs
// (SeparableArguments): the differences between pixels, which some filters look for, are then not lost by rounding.
//
// The depthwise part runs on the tensor cores too (depthwise_taps.cuh).
//
// Limited by: latency. The layers of a MobileNet are small. What counts is the chain fetch -> depthwise -> product ->
// store, a few thousand cycles, and that all blocks run at once.
#include "infer/cuda/kernels/separable.hpp"

#include "infer/cuda/kernels/activation.cuh"
#include "infer/cuda/kernels/depthwise_taps.cuh"
#include "infer/cuda/kernels/launch.cuh"
#include "infer/cuda/kernels/tiles.hpp"

#include <array>
#include <utility>

namespace camd::infer::cuda {
namespace {

constexpr int kThreads = SeparableTile::kThreads;

template <int kStride, int kTile>
struct Tile {
  static constexpr SeparableTile kShape = kSeparableTiles[kTile];
  static constexpr int kPixels = kShape.ty * kShape.tx;
  static constexpr int kWarpRows = kShape.warp_rows();
  static constexpr int kChannels = kShape.channels();
  static constexpr int kHaloY = (kShape.ty - 1) * kStride + 3;
  static constexpr int kHaloX = (kShape.tx - 1) * kStride + 3;
  static constexpr int kRun = kShape.run;
  static constexpr int kDown = 16 / kShape.tx * kStride;  // rows of the input from 16 pixels to the next
};

template <int kStride, int kTile, bool kPairs, bool kSpecial>
CAMD_KERNEL(kThreads, kSeparableTiles[kTile].blocks)
separable_kernel(const SeparableArguments p, const SeparableMemory s) {
  using T = Tile<kStride, kTile>;
  constexpr int kTy = T::kShape.ty, kTx = T::kShape.tx, kNt = T::kShape.nt, kRun = T::kRun;
  CAMD_SHARED(memory);
  auto* const halo = reinterpret_cast<uint4*>(memory);                               // [pixel][group], exchanged
  unsigned char* const left = memory + s.halo_bytes;                                 // [pixel][k], padded rows
  auto* const right = reinterpret_cast<uint4*>(left + s.left_bytes);                 // [k step][n16][lane]
  auto* const taps = reinterpret_cast<uint4*>(left + s.left_bytes + s.right_bytes);  // [group][tap], biases
  const int thread = static_cast<int>(threadIdx.x);
  const int halo_groups = kPairs ? s.halo_groups : s.groups;
  const Divider by_halo_groups = kPairs ? s.by_halo_groups : s.by_groups;
  const int left_steps = kPairs ? s.left_steps : s.k_steps;
  const int left_pitch = left_steps * 32 + 16;  // bytes; an odd number of 16-byte words: no bank conflicts

  // Weights do not depend on the kernel before.
  const int n16_total = (p.y.c + 15) / 16;
  const int n16_first = static_cast<int>(blockIdx.z) * (T::kChannels / 16);
  const int n16_here = min(T::kChannels / 16, n16_total - n16_first);
  const BulkCopies copies(taps + 11 * s.groups);
  copies.copy(right, T::kChannels * 32, static_cast<const uint4*>(p.pointwise) + n16_first * 32, n16_total * 512,
              s.k_steps, n16_here * 512);
  copies.copy(taps, p.depthwise, s.groups * 9 * 16);
  copies.copy(taps + 9 * s.groups, p.depthwise_bias, s.groups * 32);
  copies.end();
  const int lane = lane_index();
  const int warp_row = warp_index() % T::kWarpRows;
  const int warp_column = warp_index() / T::kWarpRows;
  float4 point_bias[kNt / 2];
#pragma unroll
  for (int q = 0; q < kNt / 2; ++q) {
    const int n16 = n16_first + warp_column * (kNt / 2) + q;
    point_bias[q] = n16 < n16_total ? reinterpret_cast<const float4*>(p.pointwise_bias)[n16 * 4 + (lane & 3)]
                                    : make_float4(0, 0, 0, 0);
  }
  const Bounds deep_bounds = bounds_of(p.depthwise_activation);
  const Bounds bounds = bounds_of(p.activation);
  const HalfBounds deep_half_bounds = half_bounds(deep_bounds), half_bounds_of_y = half_bounds(bounds);
  // The depthwise part's left matrices: a lane reads one of 16 pixels, lanes from 16 on for the second tap of two.
  const int row_bytes = T::kHaloX * halo_groups * 16;
  const int second = lane >> 4;
  const int pixel_row = (lane & 15) / kTx * kStride, pixel_column = (lane & 15) % kTx * kStride;
  int exchange_two = s.exchange(pixel_column + second) * 16, exchange_third = s.exchange(pixel_column + 2) * 16;
  int offset_two = pixel_row * row_bytes + (pixel_column + second) * halo_groups * 16;
  int offset_third = (pixel_row + second) * row_bytes + (pixel_column + 2) * halo_groups * 16;
  compute_here(exchange_two);
  compute_here(exchange_third);
  compute_here(offset_two);
  compute_here(offset_third);

  // Where a thread's words of the input's tile come from and go to: they lie one below the other, so that only their
  // rows differ. Where a row has fewer words than the block has threads, these copy several rows at a time.
  const int y0 = static_cast<int>(blockIdx.y) * kTy;
  const int x0 = static_cast<int>(blockIdx.x) * kTx;
  const int in_y0 = y0 * kStride - p.pad_top;
  const int in_x0 = x0 * kStride - p.pad_left;
  const int across = T::kHaloX * halo_groups;  // words of a row
  const int line = p.x.w * p.x.pitch;
  const int first_row = divide(thread, s.by_across);
  const int start = first_row < s.rows_at_once ? first_row : T::kHaloY;
  const auto* const input =
      static_cast<const __half*>(p.x.data) + static_cast<std::ptrdiff_t>(in_y0 * p.x.w + in_x0) * p.x.pitch;
  struct Column {
    int from, to;  // of the word in row `start`
    int height;    // rows of the image that have it
  };
  const auto locate = [&](int word) {
    const int column = divide(word, by_halo_groups);
    const int group = word - column * halo_groups;
    return Column{start * line + column * p.x.pitch + group * 8,
                  (start * T::kHaloX + column) * halo_groups + (group ^ s.exchange(column)),
                  within(in_x0 + column, p.x.w) ? p.x.h : 0};
  };
  int word = thread - first_row * across;
  Column at = locate(word);
  compute_here(at.from);
  compute_here(at.to);
  compute_here(at.height);

  wait_for_previous_kernel();
  let_next_kernel_start();

#pragma unroll 1
  while (true) {
#pragma unroll 2
    for (int row = start; row < T::kHaloY; row += s.rows_at_once) {
      copy16_async(&halo[at.to], input + at.from, within(in_y0 + row, at.height));
      at.from += s.rows_at_once * line;
      at.to += s.rows_at_once * across;
    }
    word += kThreads;
    if (word >= across) break;
    at = locate(word);
  }
  copy_wait_all();
  block_sync();
  copies.wait();

  // Depthwise: a warp makes kRun times 16 pixels of 8 channels.
  constexpr int kParts = T::kPixels / 16 / kRun;
#pragma unroll 1
  for (int i = warp_index(); i < s.groups * kParts; i += kThreads / 32) {
    const int group = i / kParts;
    const int first = i % kParts * kRun;
    DiagonalTaps taps_of_group;
    load_taps(taps_of_group, taps + group * 9);
    const float2 bias = reinterpret_cast<const float2*>(taps + 9 * s.groups + 2 * group)[lane & 3];
    float sums[kRun][4];
#pragma unroll
    for (int m = 0; m < kRun; ++m) {
      sums[m][0] = sums[m][2] = bias.x;
      sums[m][1] = sums[m][3] = bias.y;
    }
    const SharedAddress rows = shared_address(halo) + first * T::kDown * row_bytes;
    const auto addresses_of = [&](int g) {
      return TapAddresses{rows + (offset_two + ((g * 16) ^ exchange_two)),
                          rows + (offset_third + ((g * 16) ^ exchange_third)), second * row_bytes};
    };
    add_taps<T>(sums, addresses_of(group), row_bytes, taps_of_group);
    if (kPairs && halo_groups != s.groups) add_taps<T>(sums, addresses_of(s.groups + group), row_bytes, taps_of_group);
    unsigned char* const to = left + (first * 16 + (lane >> 2)) * left_pitch + group * 16 + (lane & 3) * 4;
#pragma unroll
    for (int m = 0; m < kRun; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        unsigned char* const pixel = to + (m * 16 + half * 8) * left_pitch;
        float values[2] = {sums[m][half * 2], sums[m][half * 2 + 1]};
        if (kPairs && left_steps != s.k_steps) {
          activate_all<kSpecial>(p.depthwise_activation, deep_bounds, values);
          const SplitHalfs both = split_halfs(values[0], values[1]);
          *reinterpret_cast<unsigned*>(pixel) = both.values;
          *reinterpret_cast<unsigned*>(pixel + s.k_steps * 32) = both.rests;
        } else {
          if (kSpecial && deep_bounds.special) activate_specials(p.depthwise_activation, values);
          *reinterpret_cast<unsigned*>(pixel) = clamp_halfs(pack_halfs(values[0], values[1]), deep_half_bounds);
        }
      }
    }
  }
  if ((s.groups & 1) != 0) {  // the last product step reads 16 channels where there are 8
    for (int i = thread; i < T::kPixels; i += kThreads) {
      for (int step = s.k_steps; step <= left_steps; step += s.k_steps) {
        *reinterpret_cast<uint4*>(left + i * left_pitch + step * 32 - 16) = make_uint4(0, 0, 0, 0);
      }
    }
  }
  block_sync();

  // 1x1: each warp makes kMt times 16 pixels of kNt * 8 channels.
  constexpr int kMt = T::kShape.mt();
  float sums[kMt][kNt][4];
#pragma unroll
  for (int m = 0; m < kMt; ++m) {
#pragma unroll
    for (int q = 0; q < kNt / 2; ++q) {
      sums[m][2 * q][0] = sums[m][2 * q][2] = point_bias[q].x;
      sums[m][2 * q][1] = sums[m][2 * q][3] = point_bias[q].y;
      sums[m][2 * q + 1][0] = sums[m][2 * q + 1][2] = point_bias[q].z;
      sums[m][2 * q + 1][1] = sums[m][2 * q + 1][3] = point_bias[q].w;
    }
  }
  const SharedAddress a_row =
      shared_address(left) + ((warp_row * kMt * 16 + (lane & 15)) * left_pitch + (lane >> 4) * 16);
  const uint4* const b_row = right + warp_column * (kNt / 2) * 32 + lane;
#pragma unroll 4
  for (int k = 0; k < left_steps; ++k) {
    const int right_step = !kPairs || k < s.k_steps ? k : k - s.k_steps;
    unsigned a[kMt][4];
#pragma unroll
    for (int m = 0; m < kMt; ++m) load_matrices(a[m], a_row + (m * 16 * left_pitch + k * 32));
#pragma unroll
    for (int q = 0; q < kNt / 2; ++q) {
      const uint4 b = b_row[(right_step * (T::kChannels / 16) + q) * 32];
#pragma unroll
      for (int m = 0; m < kMt; ++m) {
        multiply_add(sums[m][2 * q], a[m], b.x, b.y);
        multiply_add(sums[m][2 * q + 1], a[m], b.z, b.w);
      }
    }
  }

  // A lane holds 4 neighbouring channels of 2 pixels for every 16 channels (packing.hpp).
  const int stored = (p.y.c + 7) / 8 * 8;
  const int channel = (n16_first + warp_column * (kNt / 2)) * 16 + (lane & 3) * 4;
  __half* const y = static_cast<__half*>(p.y.data) + static_cast<std::ptrdiff_t>(y0 * p.y.w + x0) * p.y.pitch + channel;
#pragma unroll
  for (int m = 0; m < kMt; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int pixel = (warp_row * kMt + m) * 16 + (lane >> 2) + half * 8;
      const int row = pixel / kTx, column = pixel % kTx;
      if (y0 + row >= p.y.h || x0 + column >= p.y.w) continue;
      __half* const to = y + (row * p.y.w + column) * p.y.pitch;
#pragma unroll
      for (int q = 0; q < kNt / 2; ++q) {
        if (channel + q * 16 >= stored) continue;
        float values[4] = {sums[m][2 * q][half * 2], sums[m][2 * q][half * 2 + 1], sums[m][2 * q + 1][half * 2],
                           sums[m][2 * q + 1][half * 2 + 1]};
        if (kPairs && p.y_pairs) {
          activate_all<kSpecial>(p.activation, bounds, values);
          const SplitHalfs low = split_halfs(values[0], values[1]), high = split_halfs(values[2], values[3]);
          *reinterpret_cast<uint2*>(to + q * 16) = make_uint2(low.values, high.values);
          *reinterpret_cast<uint2*>(to + stored + q * 16) = make_uint2(low.rests, high.rests);
        } else {
          if (kSpecial && bounds.special) activate_specials(p.activation, values);
          *reinterpret_cast<uint2*>(to + q * 16) = clamp_halfs(pack_halfs(values), half_bounds_of_y);
        }
      }
    }
  }
}

template <int kStride, int kTile>
int run(const SeparableArguments& p, const LaunchContext& context) {
  using T = Tile<kStride, kTile>;
  const SeparableMemory memory = separable_memory(T::kShape, kStride, p.x.c, p.x_pairs, p.y_pairs);
  const auto parts = [](int size, int part) { return static_cast<unsigned>((size + part - 1) / part); };
  const dim3 grid(parts(p.y.w, T::kShape.tx), parts(p.y.h, T::kShape.ty), parts(p.y.c, T::kChannels));
  const auto start = [&](auto kernel) { return launch(kernel, grid, kThreads, memory.total(), context, p, memory); };
  const bool special = !bounds_only(p.depthwise_activation.function) || !bounds_only(p.activation.function);
  if constexpr (T::kShape.pairs) {
    if (p.x_pairs || p.y_pairs) {
      return special ? start(separable_kernel<kStride, kTile, true, true>)
                     : start(separable_kernel<kStride, kTile, true, false>);
    }
  }
  return special ? start(separable_kernel<kStride, kTile, false, true>)
                 : start(separable_kernel<kStride, kTile, false, false>);
}

using Run = int (*)(const SeparableArguments&, const LaunchContext&);

template <int kStride, int... kTiles>
constexpr std::array<Run, sizeof...(kTiles)> table(std::integer_sequence<int, kTiles...>) {
  return {run<kStride, kTiles>...};
}

}  // namespace

int separable(const SeparableArguments& p, const LaunchContext& context) {
  using All = std::make_integer_sequence<int, kSeparableTileCount>;
  static constexpr auto kStride1 = table<1>(All{});
  static constexpr auto kStride2 = table<2>(All{});
  const auto tile = static_cast<std::size_t>(p.tile);
  return p.stride == 1 ? kStride1[tile](p, context) : kStride2[tile](p, context);
}

}  // namespace camd::infer::cuda
