// Dense 1x1 and 3x3 convolution by products of warpgroups (sm_90), which read both matrices from shared memory by
// themselves.
//
// As conv.cu it goes through the input in slices of channels, which arrive in stages of shared memory while others are
// multiplied. The left matrix is the input's tile itself. Eight channels of it lie in a plane, pixel behind pixel, 16
// bytes each: eight pixels side by side are a piece of the matrix, and a tap moves where the matrix begins. With stride
// 2 a plane has a part for each of the four combinations of even and odd rows and columns, so that here too pixels of
// the output have their input side by side.
//
// A warpgroup makes 64 pixels. They are eight runs of eight pixels each, at equal distances: rows of a tile of eight
// columns, or one long run through the input's tile. In that one some pixels lie in the border and come to nothing.
//
// Limited by: what each block does once. The first slice arrives and the results leave, while nothing is multiplied. A
// large layer spends half its time with products.
#include "infer/cuda/kernels/activation.cuh"
#include "infer/cuda/kernels/conv.hpp"
#include "infer/cuda/kernels/launch.cuh"
#include "infer/cuda/kernels/tiles.hpp"

#include <array>
#include <utility>

namespace camd::infer::cuda {
namespace {

// A thread finds its first words of the input's tile before it waits for the kernel in front.
[[maybe_unused]] constexpr int kKeptWords = 3;
struct Word {
  int from = -1;  // in words of the image, of the first slice; -1: beside it
  int to = 0;     // in bytes of a stage
  int group = 0;  // of 8 channels of the slice
};

template <int kTile>
struct Tile {
  static constexpr WarpgroupTile kShape = kWarpgroupTiles[kTile];
  static constexpr int kThreads = kShape.threads();
  static constexpr int kN16 = kShape.channels() / 16;
  // Blocks of a multiprocessor; they bound the registers.
  static constexpr int kBlocks = kThreads >= 512 ? 1 : kShape.nt >= 16 ? 2 : 4;
};

// A pixel of the output, or none.
struct Pixel {
  bool exists = false;
  std::ptrdiff_t at = 0;     // in pixels
  std::ptrdiff_t added = 0;  // the same in the image that is added
};
[[maybe_unused]] CAMD_DEVICE Pixel pixel_of(const ConvArguments& p, const WarpgroupConvMemory& s, int y0, int x0,
                                            int number) {
  const int row = divide(number, s.by_period), column = number - row * s.period;
  const int y = y0 + row, x = x0 + column;
  Pixel pixel;
  pixel.exists = row < p.shape.ty && column < p.shape.tx && y < p.h && x < p.w;
  pixel.at = static_cast<std::ptrdiff_t>(y) * p.w + x;
  if (p.add.data != nullptr) {
    const unsigned ay = p.add.h == p.h ? y : static_cast<unsigned>(y * p.add.h) / static_cast<unsigned>(p.h);
    const unsigned ax = p.add.w == p.w ? x : static_cast<unsigned>(x * p.add.w) / static_cast<unsigned>(p.w);
    pixel.added = static_cast<std::ptrdiff_t>(ay) * p.add.w + ax;
  }
  return pixel;
}

// Bias, activation, sum with another image, and the way out, from registers. `v`: the sums of a team's share of the
// channels, [group of 8 channels] as multiply_add() leaves them.
template <int kTile>
CAMD_DEVICE void finish(const ConvArguments& p, const WarpgroupConvMemory& s, int y0, int x0, int team,
                        float (&v)[Tile<kTile>::kShape.finished() * 4], const float4* biases) {
  using T = Tile<kTile>;
  constexpr int kEach = T::kShape.finished();
  const int in_team = static_cast<int>(threadIdx.x) % (T::kThreads / T::kShape.teams);
  const int lane = lane_index();
  const int warps_before = in_team / 32;
  const int column = warps_before / (T::kShape.rows * 4);
  const int first_pixel = warps_before % (T::kShape.rows * 4) * 16 + (lane >> 2);
  const Pixel pixels[2] = {pixel_of(p, s, y0, x0, first_pixel), pixel_of(p, s, y0, x0, first_pixel + 8)};
  const int first_group = column * (T::kShape.nt / 2) + (T::kShape.finishers() == 2 ? team * (kEach / 2) : 0);
  const int first_channel = (static_cast<int>(blockIdx.y) * T::kN16 + first_group) * 16 + (lane & 3) * 4;
  // What is added is on its way while the rest is computed. Where there is something to add there is one sink.
  uint2 added[kEach / 2][2] = {};
  if (p.add.data != nullptr) {
#pragma unroll
    for (int q = 0; q < kEach / 2; ++q) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int channel = first_channel + q * 16;
        if (pixels[half].exists && channel < p.sinks[0].stored) {
          added[q][half] = *reinterpret_cast<const uint2*>(static_cast<const __half*>(p.add.data) +
                                                           pixels[half].added * p.add.pitch + channel);
        }
      }
    }
  }
  // Of a pair of groups of 8, this lane has channels 4t and 4t + 1 in the first and the next two in the second.
  const auto add_other = [&] {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const unsigned bits = i % 2 == 0 ? added[i / 2][half].x : added[i / 2][half].y;
        const float2 both = __half22float2(*reinterpret_cast<const __half2*>(&bits));
        v[i * 4 + half * 2] += both.x;
        v[i * 4 + half * 2 + 1] += both.y;
      }
    }
  };
#pragma unroll
  for (int q = 0; q < kEach / 2; ++q) {
    const float4 bias = biases[(first_group + q) * 4 + (lane & 3)];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      v[q * 8 + half * 2] += bias.x;
      v[q * 8 + half * 2 + 1] += bias.y;
      v[q * 8 + half * 2 + 4] += bias.z;
      v[q * 8 + half * 2 + 5] += bias.w;
    }
  }
  const bool adds = p.add.data != nullptr;
  if (adds && !p.activation_first) add_other();
  const Activation activation = p.sinks[0].activation;
  const Bounds bounds = bounds_of(activation);
  // In parts that a compiler keeps in registers.
#pragma unroll
  for (int part = 0; part < kEach * 4; part += 16) {
    float few[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) few[i] = part + i < kEach * 4 ? v[part + i] : 0.0F;
    activate_all<true>(activation, bounds, few);
#pragma unroll
    for (int i = 0; i < 16 && part + i < kEach * 4; ++i) v[part + i] = few[i];
  }
  if (adds && p.activation_first) add_other();
#pragma unroll
  for (int q = 0; q < kEach / 2; ++q) {
    const int n = first_channel + q * 16;
    __half* to = static_cast<__half*>(p.sinks[0].data);
    int first = 0, stored = p.sinks[0].stored, pitch = p.sinks[0].pitch;
#pragma unroll
    for (int i = 1; i < kMaxSinks; ++i) {
      if (i >= p.sink_count || n < p.sinks[i].first) continue;
      to = static_cast<__half*>(p.sinks[i].data);
      first = p.sinks[i].first;
      stored = p.sinks[i].stored;
      pitch = p.sinks[i].pitch;
    }
    if (n >= p.n || n - first >= stored) continue;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!pixels[half].exists) continue;
      *reinterpret_cast<uint2*>(to + pixels[half].at * pitch + n - first) =
          make_uint2(pack_halfs(v[q * 8 + half * 2], v[q * 8 + half * 2 + 1]),
                     pack_halfs(v[q * 8 + half * 2 + 4], v[q * 8 + half * 2 + 5]));
    }
  }
}

// Called by all threads of a block. Teams hand their sums to those that finish them, through `memory`.
template <int kTile>
CAMD_DEVICE void write_results(const ConvArguments& p, const WarpgroupConvMemory& s, int y0, int x0, int team,
                               float (&sums)[Tile<kTile>::kShape.nt * 4], unsigned char* memory, const float4* biases) {
  using T = Tile<kTile>;
  constexpr int kTeams = T::kShape.teams, kEach = T::kShape.finished();
  if constexpr (kTeams == 1) {
    finish<kTile>(p, s, y0, x0, team, sums, biases);
  } else {
    static_assert(T::kShape.finishers() == 2);
    constexpr int kTeamThreads = T::kThreads / kTeams;
    const int in_team = static_cast<int>(threadIdx.x) % kTeamThreads;
    // [giver][finisher][group of 8 channels][thread of the team]
    auto* const given = reinterpret_cast<float4*>(memory);
    block_sync();  // nobody reads this memory any more
#pragma unroll
    for (int finisher = 0; finisher < 2; ++finisher) {
      if (finisher == team) continue;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const float* const mine = sums + (finisher * kEach + i) * 4;
        given[((team * 2 + finisher) * kEach + i) * kTeamThreads + in_team] =
            make_float4(mine[0], mine[1], mine[2], mine[3]);
      }
    }
    block_sync();
    if (team >= 2) return;
    float v[kEach * 4];
#pragma unroll
    for (int i = 0; i < kEach * 4; ++i) v[i] = team == 1 ? sums[kEach * 4 + i] : sums[i];
#pragma unroll 1
    for (int giver = 0; giver < kTeams; ++giver) {
      if (giver == team) continue;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const float4 part = given[((giver * 2 + team) * kEach + i) * kTeamThreads + in_team];
        v[i * 4] += part.x;
        v[i * 4 + 1] += part.y;
        v[i * 4 + 2] += part.z;
        v[i * 4 + 3] += part.w;
      }
    }
    finish<kTile>(p, s, y0, x0, team, v, biases);
  }
}

template <int kTile>
CAMD_KERNEL(Tile<kTile>::kThreads, Tile<kTile>::kBlocks)
warpgroup_conv_kernel(const CAMD_GRID_CONSTANT ConvArguments p, const CAMD_GRID_CONSTANT WarpgroupConvMemory s) {
#if !defined(CAMD_NO_WARPGROUP_PRODUCTS)
  using T = Tile<kTile>;
  CAMD_SHARED(memory);
  auto* const offsets = reinterpret_cast<int*>(memory);  // of an item's pixels in a stage
  auto* const biases = reinterpret_cast<float4*>(memory + s.table_bytes - T::kN16 * 64);
  unsigned char* const stages = memory + s.table_bytes;
  const int thread = static_cast<int>(threadIdx.x);
  const int n16_first = static_cast<int>(blockIdx.y) * T::kN16;
  const int slice_steps = p.shape.slice_steps;
  const StageCopies weights(memory + s.table_bytes - T::kN16 * 64 - StageCopies::bytes(kMostWarpgroupStages));
  const int weights_bytes = s.slice_items * T::kN16 * 512;
  const auto* next_weights =
      static_cast<const unsigned char*>(p.weights) + static_cast<std::ptrdiff_t>(blockIdx.y) * s.slices * weights_bytes;
  const auto fetch_weights = [&](int stage) {
    weights.copy(stage, stages + stage * s.stage_bytes + s.pixels_bytes, next_weights, weights_bytes);
    next_weights += weights_bytes;
  };
  // So many slices are on their way when one is multiplied.
  const int ahead = min(s.slices, p.shape.stages == 1 ? 1 : p.shape.stages - 2);
  if (thread == 0) {
    weights.begin(p.shape.stages);
#pragma unroll 1
    for (int slice = 0; slice < ahead; ++slice) fetch_weights(slice);
  }
  const int n16_here = min(T::kN16, p.n / 16 - n16_first);
  if (thread < T::kN16 * 4) {
    copy16_async(&biases[thread], reinterpret_cast<const float4*>(p.bias) + n16_first * 4 + thread,
                 thread < n16_here * 4);
  }
  const int parity = p.stride - 1;
#pragma unroll 1
  for (int item = thread; item < s.slice_items; item += T::kThreads) {
    const int tap = divide(item, s.by_steps);
    const int tap_y = p.kernel == 1 ? 0 : tap / 3, tap_x = p.kernel == 1 ? 0 : tap - tap_y * 3;
    const int part = (tap_y & parity) * 2 + (tap_x & parity);
    const int place = part * s.part_pixels + (tap_y >> parity) * s.part_x + (tap_x >> parity);
    offsets[item] = (item - tap * slice_steps) * 2 * s.plane_bytes + place * 16;
  }
  const int tile_row = divide(static_cast<int>(blockIdx.x), s.by_tiles_x);
  const int y0 = tile_row * p.shape.ty;
  const int x0 = (static_cast<int>(blockIdx.x) - tile_row * s.tiles_x) * p.shape.tx;
  const int in_y0 = y0 * p.stride - p.pad_top;
  const int in_x0 = x0 * p.stride - p.pad_left;
  const int groups = (p.x.c + 7) / 8;
  const int words = slice_steps * 2;  // 16-byte words of a pixel; the last may lie beyond the image's channels
  const int warpgroup = of_first_lane(warp_index() / 4);
  const int team = warpgroup / (T::kShape.rows * T::kShape.columns);
  const int row = warpgroup % T::kShape.rows;
  const int column = warpgroup / T::kShape.rows % T::kShape.columns;
  // Word i of a slice of the input's tile: where it comes from and where it goes.
  const auto word_at = [&](int i) {
    Word at;
    const int pixel = divide(i, s.by_words);
    const int group = i - pixel * words;
    const int in_row = divide(pixel, s.by_halo_x);
    const int in_column = pixel - in_row * s.halo_x;
    const int iy = in_y0 + in_row, ix = in_x0 + in_column;
    if (within(iy, p.x.h) && within(ix, p.x.w)) at.from = (iy * p.x.w + ix) * (p.x.pitch / 8) + group;
    const int part = (in_row & parity) * 2 + (in_column & parity);
    const int place = part * s.part_pixels + (in_row >> parity) * s.part_x + (in_column >> parity);
    at.to = group * s.plane_bytes + place * 16;
    at.group = group;
    return at;
  };
  const int word_count = s.halo_pixels * words;
  Word first_words[kKeptWords];
#pragma unroll
  for (int k = 0; k < kKeptWords; ++k) first_words[k] = word_at(thread + k * T::kThreads);
  const SharedAddress first_stage = shared_address(stages);
  float sums[T::kShape.nt * 4] = {};

  wait_for_previous_kernel();
  let_next_kernel_start();

  int stage = 0, round = 0;  // of the slice that is multiplied
  int filled = 0;            // the stage that is filled next
  // Slices below 0 only fetch.
#pragma unroll 1
  for (int slice = -ahead; slice < s.slices; ++slice) {
    if (slice >= 0) {
      if (p.shape.stages >= 5) {
        copy_wait_but<2>();
      } else if (p.shape.stages == 4) {
        copy_wait_but<1>();
      } else {
        copy_wait_but<0>();
      }
      publish_to_tensor_cores();
      // The slice is there for everybody. Everybody has waited for the products of the slice before the last one, whose
      // stage is filled next.
      block_sync();
    }
    if (const int next = slice + ahead; next < s.slices) {
      if (slice >= 0 && thread == 0) fetch_weights(filled);
      unsigned char* const to = stages + filled * s.stage_bytes;
      const auto* const x = static_cast<const uint4*>(p.x.data);
      const auto fetch = [&](const Word& at) {
        const bool inside = at.from >= 0 && next * words + at.group < groups;
        copy16_async(to + at.to, inside ? x + at.from + next * words : x, inside);
      };
#pragma unroll
      for (int k = 0; k < kKeptWords; ++k) {
        if (thread + k * T::kThreads < word_count) fetch(first_words[k]);
      }
#pragma unroll 1
      for (int i = thread + kKeptWords * T::kThreads; i < word_count; i += T::kThreads) fetch(word_at(i));
      if (++filled == p.shape.stages) filled = 0;
    }
    copy_commit();  // an empty group too: groups are counted
    if (slice < 0) continue;
    weights.wait(stage, round);
    const SharedAddress here = first_stage + stage * s.stage_bytes;
    const MatrixDescriptor left = describe_matrix(here + row * 8 * s.run_bytes, s.plane_bytes, s.run_bytes);
    const MatrixDescriptor right = describe_matrix(here + s.pixels_bytes + column * (T::kShape.nt / 2) * 512, 128, 256);
    begin_products();
    const int* next_offset = offsets + team;
    int at = *next_offset;
    MatrixDescriptor right_of_item = moved(right, team * T::kN16 * 512);
#pragma unroll 3
    for (int item = team; item < s.slice_items; item += T::kShape.teams) {
      const int now = at;
      next_offset += T::kShape.teams;
      at = *next_offset;  // of the last item: of none, and not used
      add_product(sums, moved(left, now), right_of_item);
      right_of_item = moved(right_of_item, T::kShape.teams * T::kN16 * 512);
    }
    end_products();
    wait_for_products<1>();
    if (++stage == p.shape.stages) {
      stage = 0;
      ++round;
    }
  }
  wait_for_products<0>();
  write_results<kTile>(p, s, y0, x0, team, sums, stages, biases);
#endif
}

template <int kTile>
int run(const ConvArguments& p, const LaunchContext& context) {
  using T = Tile<kTile>;
  const WarpgroupConvMemory memory = warpgroup_conv_memory(p);
  const int tiles = memory.tiles_x * ((p.h + p.shape.ty - 1) / p.shape.ty);
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>((p.n / 16 + T::kN16 - 1) / T::kN16), 1);
  return launch(warpgroup_conv_kernel<kTile>, grid, T::kThreads, memory.total(), context, p, memory);
}

using Run = int (*)(const ConvArguments&, const LaunchContext&);

template <int... kTiles>
constexpr std::array<Run, sizeof...(kTiles)> table(std::integer_sequence<int, kTiles...>) {
  return {run<kTiles>...};
}

}  // namespace

int warpgroup_conv(const ConvArguments& p, const LaunchContext& context) {
  static constexpr auto kRuns = table(std::make_integer_sequence<int, kWarpgroupTileCount>{});
  return kRuns[static_cast<std::size_t>(p.shape.tile - kConvTileCount)](p, context);
}

}  // namespace camd::infer::cuda
