// 1x1, depthwise 3x3 and 1x1 convolution as one kernel.
//
// A block makes a tile of pixels (tiles.hpp) and as many output channels as its warps hold. It fetches its weights
// while the kernel before it still runs, then the input's tile with a border of one pixel. The first product makes that
// tile anew, with the channels between the convolutions; pixels outside of the image become zeros, as the depthwise
// part pads with zeros. The rest is as in separable.cu.
//
// The border is computed by neighbouring blocks as well. For images of a few thousand pixels that costs less than
// another kernel.
//
// Limited by: latency, as separable().
#include "infer/cuda/kernels/bottleneck.hpp"

#include "infer/cuda/kernels/activation.cuh"
#include "infer/cuda/kernels/depthwise_taps.cuh"
#include "infer/cuda/kernels/launch.cuh"
#include "infer/cuda/kernels/tiles.hpp"

#include <array>
#include <utility>

namespace camd::infer::cuda {
namespace {

template <int kStride, int kTile>
struct Tile {
  static constexpr BottleneckTile kShape = kBottleneckTiles[kTile];
  static constexpr int kThreads = kShape.threads;
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kPixels = kShape.ty * kShape.tx;
  static constexpr int kWarpRows = kShape.warp_rows();
  static constexpr int kChannels = kShape.channels();
  static constexpr int kHaloY = kShape.halo(kShape.ty, kStride);
  static constexpr int kHaloX = kShape.halo(kShape.tx, kStride);
  static constexpr int kHaloPixels = kHaloY * kHaloX;
  static constexpr int kHaloTiles = (kHaloPixels + 15) / 16;
  static constexpr int kRun = 2;
  static constexpr int kDown = 16 / kShape.tx * kStride;  // rows of the input from 16 pixels to the next
};

// A block's shared memory.
struct Parts {
  unsigned char* in;    // [halo pixel][front group], padded rows
  uint4* front;         // [step][n16][lane]
  unsigned char* left;  // [pixel][k], padded rows; before: what is kept, [pixel][kept group], padded rows
  uint4* right;         // [k step][n16][lane]
  uint4* taps;          // [group][tap], biases, the barrier
  float* front_bias;
  std::uint16_t* table;
  uint4* halo;  // [pixel][group], exchanged
};
CAMD_DEVICE Parts parts_of(unsigned char* memory, const BottleneckMemory& s) {
  Parts parts;
  parts.in = memory;
  parts.front = reinterpret_cast<uint4*>(parts.in + s.in_bytes);
  parts.left = parts.in + s.in_bytes + s.front_bytes;
  parts.right = reinterpret_cast<uint4*>(parts.left + s.left_bytes);
  unsigned char* const behind = parts.left + s.left_bytes + s.right_bytes;
  parts.taps = reinterpret_cast<uint4*>(behind);
  parts.front_bias = reinterpret_cast<float*>(behind + s.taps_bytes);
  parts.table = reinterpret_cast<std::uint16_t*>(behind + s.taps_bytes + s.front_n16 * 64);
  parts.halo = reinterpret_cast<uint4*>(behind + s.taps_bytes + s.front_n16 * 64 + s.table_bytes);
  return parts;
}

// What one step of the first product reads: 16 pixels, and up to 32 channels.
struct Fragments {
  unsigned left[4];
  uint4 right[2];
};
CAMD_DEVICE void fetch(Fragments& f, SharedAddress left, const uint4* right, bool two) {
  load_matrices(f.left, left);
  f.right[0] = right[0];
  if (two) f.right[1] = right[32];
}
CAMD_DEVICE void add_products(float (&sums)[4][4], const Fragments& f, bool two) {
  multiply_add(sums[0], f.left, f.right[0].x, f.right[0].y);
  multiply_add(sums[1], f.left, f.right[0].z, f.right[0].w);
  if (!two) return;
  multiply_add(sums[2], f.left, f.right[1].x, f.right[1].y);
  multiply_add(sums[3], f.left, f.right[1].z, f.right[1].w);
}

// The first product, for all pixels of the tile and its border. A warp makes 16 pixels of 16 or 32 channels at a time.
template <typename T, bool kSpecial>
CAMD_DEVICE void make_halo(const BottleneckArguments& p, const BottleneckMemory& s, const Parts& parts, int in_y0,
                           int in_x0) {
  const int lane = lane_index();
  const int columns = s.unit_n16 == 2 ? (s.front_n16 + 1) / 2 : s.front_n16;
  const int steps = s.front_steps, step_vectors = s.front_n16 * 32;
  const Bounds bounds = bounds_of(p.front_activation);
  const HalfBounds halfs = half_bounds(bounds);
#pragma unroll 1
  for (int unit = warp_index(); unit < T::kHaloTiles * columns; unit += T::kWarps) {
    const int first = unit % T::kHaloTiles * 16, n16 = unit / T::kHaloTiles * s.unit_n16;
    const bool two = s.unit_n16 == 2 && n16 + 1 < s.front_n16;
    const SharedAddress a_row =
        shared_address(parts.in) + ((first + (lane & 15)) * s.in_pixel_bytes + (lane >> 4) * 16);
    const uint4* const b_row = parts.front + n16 * 32 + lane;
    float sums[4][4] = {};
    // A step's fragments are fetched while the step before multiplies. Behind the last one nothing is used.
    Fragments fragments[2];
    fetch(fragments[0], a_row, b_row, two);
#pragma unroll 1
    for (int k = 0; k < steps; k += 2) {
      const int next = min(k + 1, steps - 1), after = min(k + 2, steps - 1);
      fetch(fragments[1], a_row + next * 32, b_row + next * step_vectors, two);
      add_products(sums, fragments[0], two);
      fetch(fragments[0], a_row + after * 32, b_row + after * step_vectors, two);
      if (k + 1 < steps) add_products(sums, fragments[1], two);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int pixel = first + (lane >> 2) + half * 8;
      const int row = pixel / T::kHaloX, column = pixel % T::kHaloX;
      if (pixel >= T::kHaloPixels) continue;
      const bool inside = within(in_y0 + row, p.x.h) && within(in_x0 + column, p.x.w);
#pragma unroll
      for (int q = 0; q < 2; ++q) {
        const int channel = (n16 + q) * 16 + (lane & 3) * 4;
        if ((q == 1 && !two) || channel >= s.groups * 8) continue;
        const float4 bias = *reinterpret_cast<const float4*>(parts.front_bias + channel);
        float values[4] = {sums[2 * q][half * 2] + bias.x, sums[2 * q][half * 2 + 1] + bias.y,
                           sums[2 * q + 1][half * 2] + bias.z, sums[2 * q + 1][half * 2 + 1] + bias.w};
        if (kSpecial && bounds.special) activate_specials(p.front_activation, values);
        uint2 packed = clamp_halfs(pack_halfs(values), halfs);
        if (!inside) packed = make_uint2(0, 0);
        auto* const to = reinterpret_cast<uint2*>(parts.halo + (pixel * s.groups + (channel / 8 ^ s.exchange(column))));
        to[lane & 1] = packed;
      }
    }
  }
}

// Copies the kept channels of the block's pixels from shared memory to their image.
template <typename T>
CAMD_DEVICE void write_kept(const BottleneckArguments& p, const BottleneckMemory& s, const Parts& parts, int y0,
                            int x0) {
  const std::uint16_t* const places = parts.table + p.front_groups + p.kept_groups;
  const int eights = (p.kept.c + 7) / 8;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < T::kPixels * eights; i += T::kThreads) {
    const int pixel = i % T::kPixels, eight = i / T::kPixels;
    const int y = y0 + pixel / T::kShape.tx, x = x0 + pixel % T::kShape.tx;
    if (y >= p.kept.h || x >= p.kept.w) continue;
    const auto* const from = reinterpret_cast<const __half*>(parts.left + pixel * (p.kept_groups * 16 + 16));
    Half8 values;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      values.pair[c] = __halves2half2(from[places[eight * 8 + c * 2]], from[places[eight * 8 + c * 2 + 1]]);
    }
    auto* const to = static_cast<__half*>(p.kept.data) + (static_cast<std::ptrdiff_t>(y) * p.kept.w + x) * p.kept.pitch;
    *reinterpret_cast<uint4*>(to + eight * 8) = values.bits;
  }
}

template <int kStride, int kTile, bool kSpecial>
CAMD_KERNEL(kBottleneckTiles[kTile].threads, 2)
bottleneck_kernel(const BottleneckArguments p, const BottleneckMemory s) {
  using T = Tile<kStride, kTile>;
  constexpr int kTy = T::kShape.ty, kTx = T::kShape.tx, kNt = T::kShape.nt, kRun = T::kRun;
  CAMD_SHARED(memory);
  const Parts parts = parts_of(memory, s);
  const int thread = static_cast<int>(threadIdx.x);
  const int left_pitch = s.k_steps * 32 + 16;  // bytes; an odd number of 16-byte words: no bank conflicts

  // Weights do not depend on the kernel before.
  const int n16_total = (p.y.c + 15) / 16;
  const int n16_first = static_cast<int>(blockIdx.z) * (T::kChannels / 16);
  const int n16_here = min(T::kChannels / 16, n16_total - n16_first);
  const BulkCopies copies(parts.taps + 11 * s.groups);
  copies.copy(parts.front, p.front, s.front_bytes);
  copies.copy(parts.right, T::kChannels * 32, static_cast<const uint4*>(p.pointwise) + n16_first * 32, n16_total * 512,
              s.k_steps, n16_here * 512);
  copies.copy(parts.taps, p.depthwise, s.groups * 9 * 16);
  copies.copy(parts.taps + 9 * s.groups, p.depthwise_bias, s.groups * 32);
  copies.copy(parts.front_bias, p.front_bias, s.front_n16 * 64);
  copies.end();
  const bool keeps = p.kept.data != nullptr && blockIdx.z == 0;
  const int entries = p.front_groups + p.kept_groups + (p.kept.c + 7) / 8 * 8;
  for (int i = thread; i < entries; i += T::kThreads) parts.table[i] = p.table[i];
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
  const Bounds deep_bounds = bounds_of(p.depthwise_activation), bounds = bounds_of(p.activation);
  const HalfBounds deep_half_bounds = half_bounds(deep_bounds);
  const int y0 = static_cast<int>(blockIdx.y) * kTy, x0 = static_cast<int>(blockIdx.x) * kTx;
  const int in_y0 = y0 * kStride - p.pad_top, in_x0 = x0 * kStride - p.pad_left;
  block_sync();  // the table

  wait_for_previous_kernel();
  let_next_kernel_start();

  const auto* const x = static_cast<const __half*>(p.x.data);
  const int words = s.front_steps * 2;
  for (int i = thread; i < T::kHaloPixels * words; i += T::kThreads) {
    const int pixel = divide(i, s.by_words), word = i - pixel * words;
    const int iy = in_y0 + pixel / T::kHaloX, ix = in_x0 + pixel % T::kHaloX;
    const bool inside = within(iy, p.x.h) && within(ix, p.x.w) && word < p.front_groups;
    const int from = inside ? (iy * p.x.w + ix) * p.x.pitch + parts.table[word] * 8 : 0;
    copy16_async(parts.in + pixel * s.in_pixel_bytes + word * 16, x + from, inside);
  }
  if (keeps) {
    for (int i = thread; i < T::kPixels * p.kept_groups; i += T::kThreads) {
      const int pixel = i % T::kPixels, group = i / T::kPixels;
      const int iy = y0 + pixel / kTx, ix = x0 + pixel % kTx;
      const bool inside = iy < p.x.h && ix < p.x.w;
      const int from = inside ? (iy * p.x.w + ix) * p.x.pitch + parts.table[p.front_groups + group] * 8 : 0;
      copy16_async(parts.left + pixel * (p.kept_groups * 16 + 16) + group * 16, x + from, inside);
    }
  }
  copy_wait_all();
  block_sync();
  copies.wait();

  make_halo<T, kSpecial>(p, s, parts, in_y0, in_x0);
  if (keeps) write_kept<T>(p, s, parts, y0, x0);
  block_sync();

  // Depthwise: a warp makes kRun times 16 pixels of 8 channels.
  constexpr int kPartCount = T::kPixels / 16 / kRun;
  const int row_bytes = T::kHaloX * s.groups * 16;
  const int second = lane >> 4;
  const int pixel_row = (lane & 15) / kTx * kStride, pixel_column = (lane & 15) % kTx * kStride;
  const int exchange_two = s.exchange(pixel_column + second) * 16, exchange_third = s.exchange(pixel_column + 2) * 16;
  const int offset_two = pixel_row * row_bytes + (pixel_column + second) * s.groups * 16;
  const int offset_third = (pixel_row + second) * row_bytes + (pixel_column + 2) * s.groups * 16;
#pragma unroll 1
  for (int i = warp_index(); i < s.groups * kPartCount; i += T::kWarps) {
    const int group = i / kPartCount, first = i % kPartCount * kRun;
    DiagonalTaps taps_of_group;
    load_taps(taps_of_group, parts.taps + group * 9);
    const float2 bias = reinterpret_cast<const float2*>(parts.taps + 9 * s.groups + 2 * group)[lane & 3];
    float sums[kRun][4];
#pragma unroll
    for (int m = 0; m < kRun; ++m) {
      sums[m][0] = sums[m][2] = bias.x;
      sums[m][1] = sums[m][3] = bias.y;
    }
    const SharedAddress rows = shared_address(parts.halo) + first * T::kDown * row_bytes;
    const TapAddresses from{rows + (offset_two + ((group * 16) ^ exchange_two)),
                            rows + (offset_third + ((group * 16) ^ exchange_third)), second * row_bytes};
    add_taps<T>(sums, from, row_bytes, taps_of_group);
    unsigned char* const to = parts.left + (first * 16 + (lane >> 2)) * left_pitch + group * 16 + (lane & 3) * 4;
#pragma unroll
    for (int m = 0; m < kRun; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float values[2] = {sums[m][half * 2], sums[m][half * 2 + 1]};
        if (kSpecial && deep_bounds.special) activate_specials(p.depthwise_activation, values);
        *reinterpret_cast<unsigned*>(to + (m * 16 + half * 8) * left_pitch) =
            clamp_halfs(pack_halfs(values[0], values[1]), deep_half_bounds);
      }
    }
  }
  if ((s.groups & 1) != 0) {  // the last product step reads 16 channels where there are 8
    for (int i = thread; i < T::kPixels; i += T::kThreads)
      *reinterpret_cast<uint4*>(parts.left + i * left_pitch + s.k_steps * 32 - 16) = make_uint4(0, 0, 0, 0);
  }
  block_sync();

  // 1x1: each warp makes kMt times 16 pixels of kNt * 8 channels.
  constexpr int kMt = T::kShape.mt();
  float sums[kMt][kNt][4] = {};
  const SharedAddress a_row =
      shared_address(parts.left) + ((warp_row * kMt * 16 + (lane & 15)) * left_pitch + (lane >> 4) * 16);
  const uint4* const b_row = parts.right + warp_column * (kNt / 2) * 32 + lane;
#pragma unroll 4
  for (int k = 0; k < s.k_steps; ++k) {
    unsigned a[kMt][4];
#pragma unroll
    for (int m = 0; m < kMt; ++m) load_matrices(a[m], a_row + (m * 16 * left_pitch + k * 32));
#pragma unroll
    for (int q = 0; q < kNt / 2; ++q) {
      const uint4 b = b_row[(k * (T::kChannels / 16) + q) * 32];
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
  const bool early = p.activation_first || !p.adds_x;
#pragma unroll
  for (int m = 0; m < kMt; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int pixel = (warp_row * kMt + m) * 16 + (lane >> 2) + half * 8;
      const int row = pixel / kTx, column = pixel % kTx;
      const int y = y0 + row, xx = x0 + column;
      if (y >= p.y.h || xx >= p.y.w) continue;
      __half* const to =
          static_cast<__half*>(p.y.data) + (static_cast<std::ptrdiff_t>(y) * p.y.w + xx) * p.y.pitch + channel;
      const unsigned char* const added =
          parts.in + ((row + p.pad_top) * T::kHaloX + column + p.pad_left) * s.in_pixel_bytes + channel * 2;
#pragma unroll
      for (int q = 0; q < kNt / 2; ++q) {
        if (channel + q * 16 >= stored) continue;
        const float4 bias = point_bias[q];
        float values[4] = {sums[m][2 * q][half * 2] + bias.x, sums[m][2 * q][half * 2 + 1] + bias.y,
                           sums[m][2 * q + 1][half * 2] + bias.z, sums[m][2 * q + 1][half * 2 + 1] + bias.w};
        if (early) activate_all<kSpecial>(p.activation, bounds, values);
        if (p.adds_x) add_halfs(values, added + q * 32);
        if (!early) activate_all<kSpecial>(p.activation, bounds, values);
        *reinterpret_cast<uint2*>(to + q * 16) = pack_halfs(values);
      }
    }
  }
}

template <int kStride, int kTile>
int run(const BottleneckArguments& p, const LaunchContext& context) {
  using T = Tile<kStride, kTile>;
  const BottleneckMemory memory = bottleneck_memory(T::kShape, p);
  const auto blocks = [](int size, int part) { return static_cast<unsigned>((size + part - 1) / part); };
  const dim3 grid(blocks(p.y.w, T::kShape.tx), blocks(p.y.h, T::kShape.ty), blocks(p.y.c, T::kChannels));
  const auto start = [&](auto kernel) { return launch(kernel, grid, T::kThreads, memory.total(), context, p, memory); };
  const bool special = !bounds_only(p.front_activation.function) || !bounds_only(p.depthwise_activation.function) ||
                       !bounds_only(p.activation.function);
  return special ? start(bottleneck_kernel<kStride, kTile, true>) : start(bottleneck_kernel<kStride, kTile, false>);
}

using Run = int (*)(const BottleneckArguments&, const LaunchContext&);

template <int kStride, int... kTiles>
constexpr std::array<Run, sizeof...(kTiles)> table(std::integer_sequence<int, kTiles...>) {
  return {run<kStride, kTiles>...};
}

}  // namespace

int bottleneck(const BottleneckArguments& p, const LaunchContext& context) {
  using All = std::make_integer_sequence<int, kBottleneckTileCount>;
  static constexpr auto kStride1 = table<1>(All{});
  static constexpr auto kStride2 = table<2>(All{});
  const auto tile = static_cast<std::size_t>(p.tile);
  return p.stride == 1 ? kStride1[tile](p, context) : kStride2[tile](p, context);
}

}  // namespace camd::infer::cuda
