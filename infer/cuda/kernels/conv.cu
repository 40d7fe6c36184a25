// Dense 1x1 and 3x3 convolution as an implicit matrix product on the tensor cores.
//
// A block makes a tile of pixels (tiles.hpp) and as many output channels as its warps hold. The input's tile with its
// border lies in shared memory once. Each tap of the kernel is a product whose left matrix is that tile, moved by the
// tap. Weights arrive in pieces of up to 64 input channels of one tap, as many pieces at once as shared memory holds.
// Where it holds all of them, they arrive before the kernel in front has ended.
//
// Limited by: products from shared memory. A warp tile of 16 MT x 8 NT costs MT + NT / 2 fetches of 512 bytes for MT *
// NT products; 2 x 4 balances the two units.
#include "infer/cuda/kernels/conv.hpp"

#include "infer/cuda/kernels/activation.cuh"
#include "infer/cuda/kernels/launch.cuh"
#include "infer/cuda/kernels/tiles.hpp"

#include <array>
#include <utility>

namespace camd::infer::cuda {
namespace {

constexpr int kPieceSteps = kConvPieceSteps;

template <int kTile>
struct Tile {
  static constexpr ConvTile kShape = kConvTiles[kTile];
  static constexpr int kThreads = kShape.threads();
  static constexpr int kWm = kShape.warp_rows();
  static constexpr int kN16 = kShape.channels() / 16;
  static constexpr int kHaloY = (kShape.ty - 1) * kShape.stride + kShape.kernel;
  static constexpr int kHaloX = (kShape.tx - 1) * kShape.stride + kShape.kernel;
  static constexpr int kPieceBytes = kPieceSteps * kN16 * 512;
};

template <int kTile>
CAMD_KERNEL(Tile<kTile>::kThreads, 1)
conv_kernel(const ConvArguments p, const ConvMemory s) {
  using T = Tile<kTile>;
  constexpr int kKernel = T::kShape.kernel, kStride = T::kShape.stride, kTy = T::kShape.ty, kTx = T::kShape.tx;
  constexpr int kMt = T::kShape.mt, kNt = T::kShape.nt;
  CAMD_SHARED(memory);
  unsigned char* const halo = memory;
  auto* const weights = reinterpret_cast<uint4*>(memory + s.halo_bytes);
  const int thread = static_cast<int>(threadIdx.x);
  const int n16_total = p.n / 16;
  const int n16_first = static_cast<int>(blockIdx.y) * T::kN16;
  const int n16_here = min(T::kN16, n16_total - n16_first);

  // Pieces are counted over all taps: the packed weights lie one tap behind the other.
  const auto fetch_piece = [&](int piece, int slot) {
    const int steps = min(kPieceSteps, s.steps - piece * kPieceSteps);
    uint4* const to = weights + slot * (T::kPieceBytes / 16);
    const auto* const from = static_cast<const uint4*>(p.weights) +
                             (static_cast<std::ptrdiff_t>(piece) * kPieceSteps * n16_total + n16_first) * 32;
    for (int i = thread; i < steps * T::kN16 * 32; i += T::kThreads) {
      const int lane = i & 31;
      const int n16 = (i >> 5) % T::kN16;
      const int k = (i >> 5) / T::kN16;
      copy16_async(&to[i], from + (k * n16_total + n16) * 32 + lane, n16 < n16_here);
    }
  };
  if (s.slots == s.pieces && n16_here == n16_total && T::kN16 == n16_total) {
    // All of it, as it lies.
    for (int i = thread; i < s.steps * T::kN16 * 32; i += T::kThreads) {
      copy16_async(&weights[i], static_cast<const uint4*>(p.weights) + i, true);
    }
  } else {
    for (int piece = 0; piece < s.slots; ++piece) fetch_piece(piece, piece);
  }
  const int lane = lane_index();
  const int warp_row = warp_index() % T::kWm;
  const int warp_column = warp_index() / T::kWm;
  float4 biases[kNt / 2];
#pragma unroll
  for (int q = 0; q < kNt / 2; ++q) {
    const int n16 = n16_first + warp_column * (kNt / 2) + q;
    biases[q] =
        n16 < n16_total ? reinterpret_cast<const float4*>(p.bias)[n16 * 4 + (lane & 3)] : make_float4(0, 0, 0, 0);
  }

  wait_for_previous_kernel();
  let_next_kernel_start();

  const int tiles_x = (p.w + kTx - 1) / kTx;
  const int y0 = (static_cast<int>(blockIdx.x) / tiles_x) * kTy;
  const int x0 = (static_cast<int>(blockIdx.x) % tiles_x) * kTx;
  const int in_y0 = y0 * kStride - p.pad_top;
  const int in_x0 = x0 * kStride - p.pad_left;
  const int groups = (p.x.c + 7) / 8;
  const int words = s.k_steps * 2;  // 16-byte words of a pixel; the last may lie beyond the image's channels
  const auto* const x = static_cast<const __half*>(p.x.data);
  for (int i = thread; i < T::kHaloY * T::kHaloX * words; i += T::kThreads) {
    const int pixel = divide(i, s.by_words);
    const int group = i - pixel * words;
    const int iy = in_y0 + pixel / T::kHaloX;
    const int ix = in_x0 + pixel % T::kHaloX;
    const bool inside = iy >= 0 && iy < p.x.h && ix >= 0 && ix < p.x.w && group < groups;
    copy16_async(halo + pixel * s.pixel_bytes + group * 16,
                 x + (static_cast<std::ptrdiff_t>(iy) * p.x.w + ix) * p.x.pitch + group * 8, inside);
  }
  copy_wait_all();
  block_sync();

  float sums[kMt][kNt][4] = {};
  const unsigned char* a_rows[kMt];
#pragma unroll
  for (int m = 0; m < kMt; ++m) {
    const int pixel = (warp_row * kMt + m) * 16 + (lane & 15);
    a_rows[m] = halo + (pixel / kTx * kStride * T::kHaloX + pixel % kTx * kStride) * s.pixel_bytes + (lane >> 4) * 16;
  }
  const uint4* b_rows = weights + warp_column * (kNt / 2) * 32 + lane;
  // Where the tile stands for a step: 32 bytes on for the next 16 channels, and back for the next tap.
  int moved = 0, channel_steps = 0, tap_x = 0, step = 0;
  const int next_tap = s.pixel_bytes - s.k_steps * 32;
  const int next_row = (T::kHaloX - (kKernel - 1)) * s.pixel_bytes - s.k_steps * 32;
  const auto multiply = [&] {
    unsigned a[kMt][4];
#pragma unroll
    for (int m = 0; m < kMt; ++m) load_matrices(a[m], shared_address(a_rows[m] + moved));
#pragma unroll
    for (int q = 0; q < kNt / 2; ++q) {
      const uint4 b = b_rows[q * 32];
#pragma unroll
      for (int m = 0; m < kMt; ++m) {
        multiply_add(sums[m][2 * q], a[m], b.x, b.y);
        multiply_add(sums[m][2 * q + 1], a[m], b.z, b.w);
      }
    }
    b_rows += T::kN16 * 32;
    moved += 32;
    if (++channel_steps == s.k_steps) {
      channel_steps = 0;
      const bool row_ends = ++tap_x == kKernel;
      moved += row_ends ? next_row : next_tap;
      tap_x = row_ends ? 0 : tap_x;
    }
  };
  if (s.slots == s.pieces) {
    // Little unrolling: a first run pays for every instruction that has to be fetched.
#pragma unroll 2
    for (step = 0; step < s.steps; ++step) multiply();
  } else {
    int slot = 0;
    for (int piece = 0; piece < s.pieces; ++piece) {
      const int end = min(s.steps, step + kPieceSteps);
      for (; step < end; ++step) multiply();
      // The slot just read is filled again; its piece is needed `slots` pieces later.
      block_sync();
      if (piece + s.slots < s.pieces) fetch_piece(piece + s.slots, slot);
      copy_wait_all();
      block_sync();
      if (++slot == s.slots) {
        slot = 0;
        b_rows = weights + warp_column * (kNt / 2) * 32 + lane;
      }
    }
  }

  const auto* const add = static_cast<const __half*>(p.add.data);
#pragma unroll
  for (int q = 0; q < kNt / 2; ++q) {
    const int n = (n16_first + warp_column * (kNt / 2) + q) * 16;
    if (n >= p.n) continue;
    Sink sink = p.sinks[0];
    bool first_sink = true;
#pragma unroll
    for (int i = 1; i < kMaxSinks; ++i) {
      if (i < p.sink_count && n >= p.sinks[i].first) {
        sink = p.sinks[i];
        first_sink = false;
      }
    }
    const int channel = n - sink.first + (lane & 3) * 4;
    if (channel >= sink.stored) continue;
    const float4 bias = biases[q];
    const Bounds bounds = bounds_of(sink.activation);
#pragma unroll
    for (int m = 0; m < kMt; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int pixel = (warp_row * kMt + m) * 16 + (lane >> 2) + half * 8;
        const int oy = y0 + pixel / kTx;
        const int ox = x0 + pixel % kTx;
        if (oy >= p.h || ox >= p.w) continue;
        float v[4] = {sums[m][2 * q][half * 2] + bias.x, sums[m][2 * q][half * 2 + 1] + bias.y,
                      sums[m][2 * q + 1][half * 2] + bias.z, sums[m][2 * q + 1][half * 2 + 1] + bias.w};
        const bool early = p.activation_first || add == nullptr;
        if (early) activate_all<true>(sink.activation, bounds, v);
        if (add != nullptr && first_sink) {
          const int ay = oy * p.add.h / p.h;
          const int ax = ox * p.add.w / p.w;
          add_halfs(v, add + (static_cast<std::ptrdiff_t>(ay) * p.add.w + ax) * p.add.pitch + channel);
        }
        if (!early) activate_all<true>(sink.activation, bounds, v);
        auto* const to =
            static_cast<__half*>(sink.data) + (static_cast<std::ptrdiff_t>(oy) * p.w + ox) * sink.pitch + channel;
        *reinterpret_cast<uint2*>(to) = make_uint2(pack_halfs(v[0], v[1]), pack_halfs(v[2], v[3]));
      }
    }
  }
}

template <int kTile>
int run(const ConvArguments& p, const LaunchContext& context) {
  using T = Tile<kTile>;
  const ConvMemory memory = conv_memory(T::kShape, p.x.c, p.shared_bytes);
  const int tiles = ((p.w + T::kShape.tx - 1) / T::kShape.tx) * ((p.h + T::kShape.ty - 1) / T::kShape.ty);
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>((p.n / 16 + T::kN16 - 1) / T::kN16), 1);
  return launch(conv_kernel<kTile>, grid, T::kThreads, memory.total(), context, p, memory);
}

using Run = int (*)(const ConvArguments&, const LaunchContext&);

template <int... kTiles>
constexpr std::array<Run, sizeof...(kTiles)> table(std::integer_sequence<int, kTiles...>) {
  return {run<kTiles>...};
}

}  // namespace

int conv(const ConvArguments& p, const LaunchContext& context) {
  static constexpr auto kRuns = table(std::make_integer_sequence<int, kConvTileCount>{});
  return kRuns[static_cast<std::size_t>(p.tile)](p, context);
}

}  // namespace camd::infer::cuda
