// The first convolution and the first depthwise block of a network, from the camera's picture, as one kernel.
//
// A block makes a tile of 16 x 32 or 8 x 32 pixels (tiles.hpp). The first convolution's results, with a border of one
// pixel, stay in shared memory as f32. The depthwise part has weights and sums in f32: later layers amplify what is
// rounded here (docs/adr/0014-precise-first-layers.md). Its results and the weights of the 1x1 are pairs of f16, the
// value and what rounding took from it. The results lie side by side as the left matrix, the weights as two right
// matrices, so each step of the product is made twice.
#include "infer/cuda/kernels/stem_block.hpp"

#include "infer/cuda/kernels/activation.cuh"
#include "infer/cuda/kernels/stem_tile.cuh"

namespace camd::infer::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTx = kStemBlockColumns;
constexpr int kHaloX = kTx + 2;

// Whether a result of the first convolution lies inside of the image. Outside, the depthwise part reads zeros.
CAMD_DEVICE bool inside(const StemArguments& p, int y, int x) { return y >= 0 && y < p.y.h && x >= 0 && x < p.y.w; }

// kGroups: groups of 8 channels of the first convolution.
template <Source kSource, int kGroups, bool kSpecial>
CAMD_KERNEL(kThreads, 4)
stem_block_kernel(const StemArguments p, const BiplanarColors colors, const StemBlockMemory s) {
  constexpr int kTy = stem_block_rows(kGroups);
  constexpr int kHaloY = kTy + 2;
  constexpr int kHalo = kHaloY * kHaloX;
  using Tile = StemTile<kHaloY * 2 + 1, kHaloX * 2 + 1>;
  CAMD_SHARED(memory);
  unsigned char* const left = memory;  // [pixel][k], padded rows; where the picture's tile was
  auto* const halo = reinterpret_cast<float4*>(memory + s.first_bytes);                 // [4 channels][pixel]
  auto* const right = reinterpret_cast<uint4*>(memory + s.first_bytes + s.halo_bytes);  // [part][n16][lane]
  auto* const taps = reinterpret_cast<float4*>(memory + s.first_bytes + s.halo_bytes +
                                               s.right_bytes);  // [tap][4 channels], then biases
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = lane_index();
  constexpr int kLeftPitch = kGroups * 32 + 16;  // bytes; an odd number of 16-byte words: no bank conflicts

  // Weights do not depend on the kernel before.
#pragma unroll 1
  for (int i = thread; i < 2 * s.n16 * 32; i += kThreads) {
    copy16_async(&right[i], static_cast<const uint4*>(p.block.pointwise) + i, true);
  }
#pragma unroll 1
  for (int i = thread; i < 9 * 2 * kGroups; i += kThreads) {
    copy16_async(&taps[i], reinterpret_cast<const float4*>(p.block.depthwise) + i, true);
  }
#pragma unroll 1
  for (int i = thread; i < 2 * kGroups; i += kThreads) {
    copy16_async(&taps[9 * 2 * kGroups + i], reinterpret_cast<const float4*>(p.block.depthwise_bias) + i, true);
  }
#pragma unroll 1
  for (int i = thread; i < s.n16 * 4; i += kThreads) {
    copy16_async(&taps[10 * 2 * kGroups + i], reinterpret_cast<const float4*>(p.block.pointwise_bias) + i, true);
  }
  StemWeights first[kGroups];
#pragma unroll
  for (int n8 = 0; n8 < kGroups; ++n8) load_weights(p, n8, first[n8]);
  wait_for_previous_kernel();
  let_next_kernel_start();

  const int y0 = static_cast<int>(blockIdx.y) * kTy;
  const int x0 = static_cast<int>(blockIdx.x) * kTx;
  Tile::template fetch<kSource>(p, colors, (y0 - 1) * 2 - p.pad_top, (x0 - 1) * 2 - p.pad_left, memory, halo, thread,
                                kThreads);
  copy_wait_all();
  block_sync();

  // The first convolution: a warp makes 16 pixels of the border's tile at a time, and in the next round those that lie
  // kRound pixels behind them.
  constexpr int kRound = kThreads / 32 * 16;
  constexpr int kNextRow = 2 * Tile::kRowWords;  // words from a pixel's window to that of the one below
  constexpr int kBreak = kNextRow - 3 * kHaloX;  // ... more to the next one, where a row ends
  constexpr int kLast = (kHaloY - 1) * kNextRow + (kHaloX - 1) * 3;  // where the last window begins
  const bool whole = inside(p, y0 - 1, x0 - 1) && inside(p, y0 + kTy, x0 + kTx);
  const Bounds bounds = bounds_of(p.activation);
  int pixel = warp_index() * 16 + (lane >> 2);  // the first one of this lane; the second one is 8 behind it
  int column = pixel % kHaloX;
  int word = pixel / kHaloX * kNextRow + column * 3;
  auto* const results = reinterpret_cast<float2*>(halo) + ((lane & 3) >> 1) * (kHalo * 2) + (lane & 1);
  for (int m = warp_index(); m * 16 < kHalo; m += kThreads / 32) {
    StemWindows windows;
    // Behind the last pixel the last one is read again, and its results are not written.
    load_windows<Tile>(windows, memory, min(word, kLast),
                       min(word + 8 * 3 + (column + 8 >= kHaloX ? kBreak : 0), kLast));
#pragma unroll
    for (int n8 = 0; n8 < kGroups; ++n8) {
      float sums[4];
      stem_product(first[n8], windows, sums);
      activate_all<kSpecial>(p.activation, bounds, sums);
      float2* const to = results + n8 * (kHalo * 4) + pixel * 2;
      if (pixel < kHalo) to[0] = make_float2(sums[0], sums[1]);
      if (pixel + 8 < kHalo) to[8 * 2] = make_float2(sums[2], sums[3]);
    }
    pixel += kRound;
    column += kRound % kHaloX;
    word += kRound / kHaloX * kNextRow + kRound % kHaloX * 3;
    if (column >= kHaloX) {
      column -= kHaloX;
      word += kBreak;
    }
  }
  block_sync();
  if (!whole) {
#pragma unroll 1
    for (int i = thread; i < kHalo; i += kThreads) {
      if (inside(p, y0 - 1 + i / kHaloX, x0 - 1 + i % kHaloX)) continue;
      for (int quad = 0; quad < 2 * kGroups; ++quad) halo[quad * kHalo + i] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    }
    block_sync();
  }

  // Depthwise: a thread makes 4 channels of four pixels, one below the other: their windows share rows. Neighbouring
  // threads make the two halves of 8 channels, which then lie side by side.
  static_assert(kTy / 4 * kTx * 2 * kGroups == kThreads);
  {
    const Bounds deep_bounds = bounds_of(p.block.depthwise_activation);
    const int quad = (thread & 1) + thread / (kThreads / kGroups) * 2;  // of channels
    const int tx = thread / 2 % kTx, ty = thread / (2 * kTx) % (kTy / 4) * 4;
    const float4* const window = halo + quad * kHalo + ty * kHaloX + tx;
    const float4* const weights = taps + quad;
    float4 sums[4];
    sums[0] = sums[1] = sums[2] = sums[3] = weights[9 * 2 * kGroups];
#pragma unroll
    for (int kx = 0; kx < 3; ++kx) {
      float4 w[3];
#pragma unroll
      for (int ky = 0; ky < 3; ++ky) w[ky] = weights[(ky * 3 + kx) * 2 * kGroups];
#pragma unroll
      for (int row = 0; row < 6; ++row) {
        const float4 x = window[row * kHaloX + kx];
#pragma unroll
        for (int u = 0; u < 4; ++u) {
          const int ky = row - u;
          if (ky < 0 || ky > 2) continue;
          sums[u].x += x.x * w[ky].x;
          sums[u].y += x.y * w[ky].y;
          sums[u].z += x.z * w[ky].z;
          sums[u].w += x.w * w[ky].w;
        }
      }
    }
    unsigned char* const to = left + (ty * kTx + tx) * kLeftPitch + quad * 8;
#pragma unroll
    for (int u = 0; u < 4; ++u) {
      float values[4] = {sums[u].x, sums[u].y, sums[u].z, sums[u].w};
      activate_all<kSpecial>(p.block.depthwise_activation, deep_bounds, values);
      const SplitHalfs low = split_halfs(values[0], values[1]), high = split_halfs(values[2], values[3]);
      auto* const pixel_of_left = to + u * kTx * kLeftPitch;
      *reinterpret_cast<uint2*>(pixel_of_left) = make_uint2(low.values, high.values);
      *reinterpret_cast<uint2*>(pixel_of_left + kGroups * 16) = make_uint2(low.rests, high.rests);
    }
  }
  block_sync();

  // 1x1: a warp makes 16 channels of a row of 32 pixels, as two left matrices of 16.
  const Bounds point_bounds = bounds_of(p.block.activation);
  const HalfBounds point_half_bounds = half_bounds(point_bounds);
  const int stored = (p.y.c + 7) / 8 * 8;
  const int eight = 8 * p.y.pitch;                         // pixels of the output, in elements
  const int columns_from_here = p.y.w - x0 - (lane >> 2);  // and how many there are
#pragma unroll 1
  for (int i = warp_index(); i < kTy * s.n16; i += kThreads / 32) {
    const int row = i % kTy;
    const int q = i / kTy;
    const int oy = y0 + row;
    if (oy >= p.y.h) continue;
    const SharedAddress a_row = shared_address(left) + ((row * kTx + (lane & 15)) * kLeftPitch + (lane >> 4) * 16);
    const float4 bias = taps[10 * 2 * kGroups + q * 4 + (lane & 3)];
    const uint4 weights[2] = {right[q * 32 + lane], right[(s.n16 + q) * 32 + lane]};
    float sums[2][2][4];
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      sums[m][0][0] = sums[m][0][2] = bias.x;
      sums[m][0][1] = sums[m][0][3] = bias.y;
      sums[m][1][0] = sums[m][1][2] = bias.z;
      sums[m][1][1] = sums[m][1][3] = bias.w;
    }
#pragma unroll
    for (int k = 0; k < kGroups; ++k) {
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        unsigned a[4];
        load_matrices(a, a_row + (m * 16 * kLeftPitch + k * 32));
#pragma unroll
        for (int part = 0; part < 2; ++part) {  // the weights, then what rounding took of them
          multiply_add(sums[m][0], a, weights[part].x, weights[part].y);
          multiply_add(sums[m][1], a, weights[part].z, weights[part].w);
        }
      }
    }
    // A lane holds 4 neighbouring channels of 2 pixels for every 16 channels (packing.hpp).
    const int channel = q * 16 + (lane & 3) * 4;
    if (channel >= stored) continue;
    __half* to = static_cast<__half*>(p.y.data) +
                 static_cast<std::ptrdiff_t>(oy * p.y.w + x0 + (lane >> 2)) * p.y.pitch + channel;
#pragma unroll
    for (int i = 0; i < 4; ++i, to += eight) {
      if (i * 8 >= columns_from_here) break;
      const float(&low)[4] = sums[i / 2][0], (&high)[4] = sums[i / 2][1];
      float values[4] = {low[i % 2 * 2], low[i % 2 * 2 + 1], high[i % 2 * 2], high[i % 2 * 2 + 1]};
      if (kSpecial && point_bounds.special) activate_specials(p.block.activation, values);
      *reinterpret_cast<uint2*>(to) = clamp_halfs(pack_halfs(values), point_half_bounds);
    }
  }
}

template <int kGroups, bool kSpecial>
int run(const StemArguments& p, const LaunchContext& context) {
  const auto parts = [](int size, int part) { return static_cast<unsigned>((size + part - 1) / part); };
  const dim3 grid(parts(p.y.w, kTx), parts(p.y.h, stem_block_rows(kGroups)), 1);
  const StemBlockMemory memory = stem_block_memory(p.block.c, p.y.c);
  if (context.prepare) {
    for (const int error : {allow_shared(stem_block_kernel<Source::kPlanes, kGroups, kSpecial>, memory.total()),
                            allow_shared(stem_block_kernel<Source::kPacked, kGroups, kSpecial>, memory.total()),
                            allow_shared(stem_block_kernel<Source::kBiplanar, kGroups, kSpecial>, memory.total()),
                            allow_shared(stem_block_kernel<Source::kAny, kGroups, kSpecial>, memory.total())}) {
      if (error != 0) return error;
    }
  }
  return with_source(p, [&]<Source kSource>() {
    return launch(stem_block_kernel<kSource, kGroups, kSpecial>, grid, kThreads, memory.total(), context, p,
                  biplanar_colors(p.plan), memory);
  });
}

template <int kGroups>
int run(const StemArguments& p, const LaunchContext& context) {
  const bool special = !bounds_only(p.activation.function) || !bounds_only(p.block.depthwise_activation.function) ||
                       !bounds_only(p.block.activation.function);
  return special ? run<kGroups, true>(p, context) : run<kGroups, false>(p, context);
}

}  // namespace

int stem_block(const StemArguments& p, const LaunchContext& context) {
  static_assert(kMostStemBlockChannels == 16);
  return p.block.c <= 8 ? run<1>(p, context) : run<2>(p, context);
}

}  // namespace camd::infer::cuda
