// Dense 1x1 and 3x3 convolution as an implicit matrix product on the tensor cores.
//
// A block makes a tile of pixels and some output channels (tiles.hpp). It goes through the input in slices of channels.
// A stage of shared memory holds a slice: of the input's tile with its border, and of the weights of all taps. While
// one stage is multiplied, the next ones arrive. The first weights arrive before the kernel in front has ended. An item
// is one tap and 16 channels of a slice: a product whose left matrix is the tile, moved by the tap. Teams of warps
// share the items, so that a small image with many channels keeps a whole multiprocessor busy, and add their sums in
// the end.
//
// Limited by: products from shared memory. A warp tile of 16 MT x 8 NT costs MT + NT / 2 fetches of 512 bytes for MT *
// NT products; 4 x 4 balances the two units. Small images: the L2 cache, from which each block fetches its weights.
#include "infer/cuda/kernels/conv.hpp"

#include "infer/cuda/kernels/activation.cuh"
#include "infer/cuda/kernels/launch.cuh"
#include "infer/cuda/kernels/tiles.hpp"

#include <array>
#include <utility>

namespace camd::infer::cuda {
namespace {

template <int kTile>
struct Tile {
  static constexpr ConvTile kShape = kConvTiles[kTile];
  static constexpr int kThreads = kShape.threads();
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kTeamWarps = kShape.rows * kShape.columns;
  static constexpr int kN16 = kShape.channels() / 16;
};

// What the 4 channels of a lane have in common, of all its pixels. `n`: the first channel of its group of 16.
struct WayOut {
  __half* to = nullptr;  // of the first pixel; null: nobody wants these channels
  int pitch = 0;
  const __half* add = nullptr;
  Activation activation;
  Bounds bounds;
};
CAMD_DEVICE WayOut way_out(const ConvArguments& p, int n) {
  Sink sink = p.sinks[0];
  bool first_sink = true;
#pragma unroll
  for (int i = 1; i < kMaxSinks; ++i) {
    if (i < p.sink_count && n >= p.sinks[i].first) {
      sink = p.sinks[i];
      first_sink = false;
    }
  }
  WayOut out;
  const int channel = n - sink.first + (lane_index() & 3) * 4;
  if (n < p.n && channel < sink.stored) out.to = static_cast<__half*>(sink.data) + channel;
  out.pitch = sink.pitch;
  if (p.add.data != nullptr && first_sink) out.add = static_cast<const __half*>(p.add.data) + channel;
  out.activation = sink.activation;
  out.bounds = bounds_of(sink.activation);
  return out;
}
// Sum, activation and the way out of a pixel that exists.
CAMD_DEVICE void finish(const ConvArguments& p, const WayOut& out, int pixel_y, int pixel_x, float (&v)[4]) {
  const bool early = p.activation_first || p.add.data == nullptr;
  if (early) activate_all<true>(out.activation, out.bounds, v);
  if (out.add != nullptr) {
    const int ay = p.add.h == p.h ? pixel_y : pixel_y * p.add.h / p.h;
    const int ax = p.add.w == p.w ? pixel_x : pixel_x * p.add.w / p.w;
    add_halfs(v, out.add + (static_cast<std::ptrdiff_t>(ay) * p.add.w + ax) * p.add.pitch);
  }
  if (!early) activate_all<true>(out.activation, out.bounds, v);
  auto* const to = out.to + (static_cast<std::ptrdiff_t>(pixel_y) * p.w + pixel_x) * out.pitch;
  *reinterpret_cast<uint2*>(to) = make_uint2(pack_halfs(v[0], v[1]), pack_halfs(v[2], v[3]));
}

template <int kTile>
CAMD_KERNEL(Tile<kTile>::kThreads, 2)
conv_kernel(const ConvArguments p, const ConvMemory s) {
  using T = Tile<kTile>;
  constexpr int kMt = T::kShape.mt, kNt = T::kShape.nt;
  constexpr int kTeams = T::kShape.teams;
  CAMD_SHARED(memory);
  auto* const offsets = reinterpret_cast<int*>(memory);  // of an item's pixels in a stage
  auto* const biases = reinterpret_cast<float4*>(memory + s.table_bytes - T::kN16 * 64);
  unsigned char* const stages = memory + s.table_bytes;
  const int thread = static_cast<int>(threadIdx.x);
  const int n16_total = p.n / 16;
  const int n16_first = static_cast<int>(blockIdx.y) * T::kN16;
  const int n16_here = min(T::kN16, n16_total - n16_first);
  const int slice_steps = p.shape.slice_steps;

  const auto fetch_weights = [&](int slice, int stage) {
    auto* const to = reinterpret_cast<uint4*>(stages + stage * s.stage_bytes + s.halo_bytes);
    const auto* const from = static_cast<const uint4*>(p.weights) + n16_first * 32;
    for (int i = thread; i < s.slice_items * T::kN16 * 32; i += T::kThreads) {
      const int n16 = (i >> 5) % T::kN16;
      const int item = (i >> 5) / T::kN16;
      const int tap = divide(item, s.by_steps);
      const int step = slice * slice_steps + item - tap * slice_steps;
      copy16_async(&to[i], from + ((tap * s.k_steps + step) * n16_total + n16) * 32 + (i & 31),
                   n16 < n16_here && step < s.k_steps);
    }
  };
  const int tiles_x = (p.w + p.shape.tx - 1) / p.shape.tx;
  const int y0 = (static_cast<int>(blockIdx.x) / tiles_x) * p.shape.ty;
  const int x0 = (static_cast<int>(blockIdx.x) % tiles_x) * p.shape.tx;
  const int in_y0 = y0 * p.stride - p.pad_top;
  const int in_x0 = x0 * p.stride - p.pad_left;
  const int groups = (p.x.c + 7) / 8;
  const int words = slice_steps * 2;  // 16-byte words of a pixel; the last may lie beyond the image's channels
  const auto fetch_pixels = [&](int slice, int stage) {
    unsigned char* const to = stages + stage * s.stage_bytes;
    const auto* const x = static_cast<const __half*>(p.x.data);
    for (int i = thread; i < s.halo_pixels * words; i += T::kThreads) {
      const int pixel = divide(i, s.by_words);
      const int word = i - pixel * words;
      const int row = divide(pixel, s.by_halo_x);
      const int iy = in_y0 + row;
      const int ix = in_x0 + pixel - row * s.halo_x;
      const int group = slice * words + word;
      const bool inside = within(iy, p.x.h) && within(ix, p.x.w) && group < groups;
      copy16_async(to + pixel * s.pixel_bytes + word * 16,
                   x + (static_cast<std::ptrdiff_t>(iy) * p.x.w + ix) * p.x.pitch + group * 8, inside);
    }
  };

  const int first_slices = min(s.slices, p.shape.stages == 1 ? 1 : p.shape.stages - 1);
  for (int slice = 0; slice < first_slices; ++slice) fetch_weights(slice, slice);
  for (int i = thread; i < T::kN16 * 4; i += T::kThreads) {
    copy16_async(&biases[i], reinterpret_cast<const float4*>(p.bias) + n16_first * 4 + i, i < n16_here * 4);
  }
  for (int item = thread; item < s.slice_items; item += T::kThreads) {
    const int tap = divide(item, s.by_steps);
    const int tap_y = tap / p.kernel;
    offsets[item] = (tap_y * s.halo_x + tap - tap_y * p.kernel) * s.pixel_bytes + (item - tap * slice_steps) * 32;
  }
  const int lane = lane_index();
  const int team = warp_index() / T::kTeamWarps;
  const int warp_row = warp_index() % T::kTeamWarps % T::kShape.rows;
  const int warp_column = warp_index() % T::kTeamWarps / T::kShape.rows;
  int rows[kMt];  // where the warp's pixels begin in a stage
#pragma unroll
  for (int m = 0; m < kMt; ++m) {
    int pixel = (warp_row * kMt + m) * 16 + (lane & 15);
    if (pixel >= p.shape.ty * p.shape.tx) pixel = 0;
    const int y = divide(pixel, s.by_tx);
    rows[m] = (y * s.halo_x + pixel - y * p.shape.tx) * p.stride * s.pixel_bytes + (lane >> 4) * 16;
  }

  wait_for_previous_kernel();
  let_next_kernel_start();

  for (int slice = 0; slice < first_slices; ++slice) {
    fetch_pixels(slice, slice);
    copy_commit();
  }
  float sums[kMt][kNt][4] = {};
  int stage = 0;
  for (int slice = 0; slice < s.slices; ++slice) {
    if (p.shape.stages > 2) {
      copy_wait_but<1>();
    } else {
      copy_wait_but<0>();
    }
    block_sync();  // the slice is there for everybody, and everybody has left the stage that is filled next
    if (const int next = slice + p.shape.stages - 1; p.shape.stages > 1) {
      const int free = stage == 0 ? p.shape.stages - 1 : stage - 1;
      if (next < s.slices) {
        fetch_weights(next, free);
        fetch_pixels(next, free);
      }
      copy_commit();  // an empty group too: groups are counted
    }
    const SharedAddress pixels = shared_address(stages + stage * s.stage_bytes);
    const auto* const weights = reinterpret_cast<const uint4*>(stages + stage * s.stage_bytes + s.halo_bytes) +
                                warp_column * (kNt / 2) * 32 + lane;
#pragma unroll 2
    for (int item = team; item < s.slice_items; item += kTeams) {
      const int moved = offsets[item];
      unsigned left[kMt][4];
#pragma unroll
      for (int m = 0; m < kMt; ++m) load_matrices(left[m], pixels + rows[m] + moved);
#pragma unroll
      for (int q = 0; q < kNt / 2; ++q) {
        const uint4 right = weights[(item * T::kN16 + q) * 32];
#pragma unroll
        for (int m = 0; m < kMt; ++m) {
          multiply_add(sums[m][2 * q], left[m], right.x, right.y);
          multiply_add(sums[m][2 * q + 1], left[m], right.z, right.w);
        }
      }
    }
    if (++stage == p.shape.stages) stage = 0;
  }

  // A unit is 8 pixels of 16 channels: a lane has 4 channels of one pixel.
  constexpr int kWarpUnits = kMt * kNt;
  auto* const added = reinterpret_cast<float4*>(stages);  // [team][warp of the team][unit][lane]
  block_sync();                                           // nobody reads the stages any more
#pragma unroll
  for (int unit = 0; unit < kWarpUnits; ++unit) {
    const float(&low)[4] = sums[unit / kNt][unit / 2 % (kNt / 2) * 2];
    const float(&high)[4] = sums[unit / kNt][unit / 2 % (kNt / 2) * 2 + 1];
    const int half = unit % 2 * 2;
    added[(warp_index() * kWarpUnits + unit) * 32 + lane] =
        make_float4(low[half], low[half + 1], high[half], high[half + 1]);
  }
  // From here on a warp has the same channels of all its pixels.
  constexpr int kOctets = T::kShape.pixels() / 8, kTogether = T::kWarps / T::kN16;
  static_assert(T::kWarps % T::kN16 == 0);
  const int n16 = warp_index() % T::kN16;
  const WayOut out = way_out(p, (n16_first + n16) * 16);
  block_sync();
  if (out.to == nullptr) return;
  const float4 bias = biases[n16 * 4 + (lane & 3)];
  const int column = n16 / (kNt / 2), q = n16 % (kNt / 2);
  const float4* const of_column = added + (column * T::kShape.rows * kWarpUnits + q * 2) * 32 + lane;
#pragma unroll 2
  for (int octet = warp_index() / T::kN16; octet < kOctets; octet += kTogether) {
    const int pixel = octet * 8 + (lane >> 2);
    const int row = divide(pixel, s.by_tx), y = y0 + row, x = x0 + pixel - row * p.shape.tx;
    if (pixel >= p.shape.ty * p.shape.tx || y >= p.h || x >= p.w) continue;
    const float4* const parts = of_column + (octet / 2 * kNt + octet % 2) * 32;
    float v[4] = {bias.x, bias.y, bias.z, bias.w};
#pragma unroll
    for (int from = 0; from < kTeams; ++from) {
      const float4 part = parts[from * T::kTeamWarps * kWarpUnits * 32];
      v[0] += part.x;
      v[1] += part.y;
      v[2] += part.z;
      v[3] += part.w;
    }
    finish(p, out, y, x, v);
  }
}

template <int kTile>
int run(const ConvArguments& p, const LaunchContext& context) {
  using T = Tile<kTile>;
  const ConvMemory memory = conv_memory(p);
  const int tiles = ((p.w + p.shape.tx - 1) / p.shape.tx) * ((p.h + p.shape.ty - 1) / p.shape.ty);
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
  if (is_warpgroup_shape(p.shape)) return warpgroup_conv(p, context);
  static constexpr auto kRuns = table(std::make_integer_sequence<int, kConvTileCount>{});
  return kRuns[static_cast<std::size_t>(p.shape.tile)](p, context);
}

}  // namespace camd::infer::cuda
