// Depthwise 3x3 and 1x1 convolution as one kernel.
//
// A block makes a tile of pixels (tiles.hpp) of as many output channels as its warps hold. It fetches its weights while
// the kernel before it still runs, then the input's tile with a border of one; the depthwise results (rounded to f16)
// stay in shared memory as the left matrix of the 1x1 product, which runs on the tensor cores. Images may be of pairs:
// with what rounding to f16 took beside it, an image loses nothing on its way to a filter that sees differences.
//
// Bound: one pass over x and y through L2; the layers of a MobileNet are small, so what counts is the latency of the
// chain fetch -> depthwise -> product -> store, a few thousand cycles, and that all blocks run at once.
#include "infer/cuda/activation.cuh"
#include "infer/cuda/launch.cuh"
#include "infer/cuda/tiles.hpp"

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
};

// Of one row of the filter, for pixels side by side and 8 channels: sums += x * weights. Pixels lie `pitch` words
// apart. kInHalfs: the row's three products are summed in f16, two channels an instruction.
template <int kStride, bool kInHalfs, int kRun>
CAMD_DEVICE void add_row(float (&sums)[kRun][8], const uint4* x, int pitch, const Half8 (&weights)[3]) {
  __half2 sums_of_row[kRun][4];
#pragma unroll
  for (int j = 0; j < (kRun - 1) * kStride + 3; ++j) {
    Half8 v;
    v.bits = x[j * pitch];
#pragma unroll
    for (int kx = 0; kx < 3; ++kx) {
      const int offset = j - kx;
      if (offset < 0 || offset % kStride != 0 || offset / kStride >= kRun) continue;
      const int r = offset / kStride;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if constexpr (kInHalfs) {
          sums_of_row[r][c] = kx == 0 ? __hmul2(v.pair[c], weights[kx].pair[c])
                                      : __hfma2(v.pair[c], weights[kx].pair[c], sums_of_row[r][c]);
        } else {
          const float2 value = __half22float2(v.pair[c]);
          const float2 weight = __half22float2(weights[kx].pair[c]);
          sums[r][2 * c] += value.x * weight.x;
          sums[r][2 * c + 1] += value.y * weight.y;
        }
      }
    }
  }
  if constexpr (kInHalfs) {
#pragma unroll
    for (int r = 0; r < kRun; ++r) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const float2 both = __half22float2(sums_of_row[r][c]);
        sums[r][2 * c] += both.x;
        sums[r][2 * c + 1] += both.y;
      }
    }
  }
}

template <int kStride, int kTile, bool kPairs, bool kSpecial>
CAMD_KERNEL(kThreads, kSeparableTiles[kTile].blocks)
separable_kernel(const SeparableArguments p, const SeparableMemory s) {
  using T = Tile<kStride, kTile>;
  constexpr int kTy = T::kShape.ty, kTx = T::kShape.tx, kNt = T::kShape.nt, kRun = T::kShape.run;
  CAMD_SHARED(memory);
  auto* const halo = reinterpret_cast<uint4*>(memory);                               // [pixel][group]
  unsigned char* const left = memory + s.halo_bytes;                                 // [pixel][k], padded rows
  auto* const right = reinterpret_cast<uint4*>(left + s.left_bytes);                 // [k step][n16][lane]
  auto* const taps = reinterpret_cast<uint4*>(left + s.left_bytes + s.right_bytes);  // [tap][group]
  const int thread = static_cast<int>(threadIdx.x);
  const int halo_groups = kPairs ? s.halo_groups : s.groups;
  const Divider by_halo_groups = kPairs ? s.by_halo_groups : s.by_groups;
  const int left_steps = kPairs ? s.left_steps : s.k_steps;
  const int left_pitch = left_steps * 32 + 16;  // bytes; an odd number of 16-byte words: no bank conflicts

  // Weights do not depend on the kernel before.
  const int n16_total = (p.y.c + 15) / 16;
  const int n16_first = static_cast<int>(blockIdx.y) * (T::kChannels / 16);
  const int n16_here = min(T::kChannels / 16, n16_total - n16_first);
  for (int i = thread; i < s.k_steps * (T::kChannels / 16) * 32; i += kThreads) {
    const int lane = i & 31;
    const int n16 = (i >> 5) % (T::kChannels / 16);
    const int k = (i >> 5) / (T::kChannels / 16);
    const auto* from = static_cast<const uint4*>(p.pointwise) + (k * n16_total + n16_first + n16) * 32 + lane;
    copy16_async(&right[i], from, n16 < n16_here);
  }
  for (int i = thread; i < 9 * s.groups; i += kThreads) {
    copy16_async(&taps[i], static_cast<const uint4*>(p.depthwise) + i, true);
  }
  for (int i = thread; i < 2 * s.groups; i += kThreads) {
    copy16_async(&taps[9 * s.groups + i], reinterpret_cast<const uint4*>(p.depthwise_bias) + i, true);
  }
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

  wait_for_previous_kernel();
  let_next_kernel_start();

  const int tiles_x = (p.y.w + kTx - 1) / kTx;
  const int y0 = (static_cast<int>(blockIdx.x) / tiles_x) * kTy;
  const int x0 = (static_cast<int>(blockIdx.x) % tiles_x) * kTx;
  const int in_y0 = y0 * kStride - p.pad_top;
  const int in_x0 = x0 * kStride - p.pad_left;
  const auto* const x = static_cast<const __half*>(p.x.data);
  for (int i = thread; i < T::kHaloY * T::kHaloX * halo_groups; i += kThreads) {
    const int pixel = divide(i, by_halo_groups);
    const int group = i - pixel * halo_groups;
    const int iy = in_y0 + pixel / T::kHaloX;
    const int ix = in_x0 + pixel % T::kHaloX;
    const bool inside = iy >= 0 && iy < p.x.h && ix >= 0 && ix < p.x.w;
    copy16_async(&halo[i], x + (static_cast<std::ptrdiff_t>(iy) * p.x.w + ix) * p.x.pitch + group * 8, inside);
  }
  copy_wait_all();
  block_sync();

  // Depthwise: a thread makes kRun pixels of 8 channels.
  constexpr int kRuns = T::kPixels / kRun;
  for (int i = thread; i < kRuns * s.groups; i += kThreads) {
    const int run = divide(i, s.by_groups);
    const int group = i - run * s.groups;
    const int ty = run / (kTx / kRun);
    const int tx = run % (kTx / kRun) * kRun;
    float sums[kRun][8];
    const auto* const bias = reinterpret_cast<const float*>(taps + 9 * s.groups + 2 * group);
#pragma unroll
    for (int c = 0; c < 8; ++c) {
#pragma unroll
      for (int r = 0; r < kRun; ++r) sums[r][c] = bias[c];
    }
    // Rows are added in f32. Where a thread has many products to make for few pixels, in deep layers, those of a row
    // are summed in f16, two channels an instruction; in the first layers that would double the network's error. What
    // rounding took of a pair is so small that f16 is enough for it everywhere.
#pragma unroll
    for (int ky = 0; ky < 3; ++ky) {
      const uint4* const row = halo + ((ty * kStride + ky) * T::kHaloX + tx * kStride) * halo_groups + group;
      Half8 weights[3];
#pragma unroll
      for (int kx = 0; kx < 3; ++kx) weights[kx].bits = taps[(ky * 3 + kx) * s.groups + group];
      add_row<kStride, T::kShape.half_rows>(sums, row, halo_groups, weights);
      if (kPairs && halo_groups != s.groups) add_row<kStride, true>(sums, row + s.groups, halo_groups, weights);
    }
#pragma unroll
    for (int r = 0; r < kRun; ++r) {
      unsigned char* const to = left + (ty * kTx + tx + r) * left_pitch + group * 16;
      activate_all<kSpecial>(p.depthwise_activation, deep_bounds, sums[r]);
      *reinterpret_cast<uint4*>(to) = pack_halfs(sums[r]);
      if constexpr (kPairs) {
        if (left_steps == s.k_steps) continue;
#pragma unroll
        for (int c = 0; c < 8; ++c) sums[r][c] = rest_of_half(sums[r][c]);
        *reinterpret_cast<uint4*>(to + s.k_steps * 32) = pack_halfs(sums[r]);
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
  float sums[kMt][kNt][4] = {};
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
  auto* const y = static_cast<__half*>(p.y.data);
  const int stored = (p.y.c + 7) / 8 * 8;
#pragma unroll
  for (int m = 0; m < kMt; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int pixel = (warp_row * kMt + m) * 16 + (lane >> 2) + half * 8;
      const int oy = y0 + pixel / kTx;
      const int ox = x0 + pixel % kTx;
      if (oy >= p.y.h || ox >= p.y.w) continue;
      __half* const to = y + (static_cast<std::ptrdiff_t>(oy) * p.y.w + ox) * p.y.pitch;
#pragma unroll
      for (int q = 0; q < kNt / 2; ++q) {
        const int channel = (n16_first + warp_column * (kNt / 2) + q) * 16 + (lane & 3) * 4;
        if (channel >= stored) continue;
        const float4 bias = point_bias[q];
        float values[4] = {sums[m][2 * q][half * 2] + bias.x, sums[m][2 * q][half * 2 + 1] + bias.y,
                           sums[m][2 * q + 1][half * 2] + bias.z, sums[m][2 * q + 1][half * 2 + 1] + bias.w};
        activate_all<kSpecial>(p.activation, bounds, values);
        *reinterpret_cast<uint2*>(to + channel) = pack_halfs(values);
        if (kPairs && p.y_pairs) *reinterpret_cast<uint2*>(to + stored + channel) = pack_rests_of_halfs(values);
      }
    }
  }
}

template <int kStride, int kTile>
int run(const SeparableArguments& p, const LaunchContext& context) {
  using T = Tile<kStride, kTile>;
  const SeparableMemory memory = separable_memory(T::kShape, kStride, p.x.c, p.x_pairs, p.y_pairs);
  const int tiles = ((p.y.w + T::kShape.tx - 1) / T::kShape.tx) * ((p.y.h + T::kShape.ty - 1) / T::kShape.ty);
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>((p.y.c + T::kChannels - 1) / T::kChannels), 1);
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
