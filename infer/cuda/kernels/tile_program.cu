// The kernel that runs a tile program (tile_program.hpp).
//
// Each layer is a product on the tensor cores for every tap, whose left matrix is the tile of its source, moved by the
// tap.
//
// Limited by: latency. Layers are small for the chip. A block waits for the chain load -> layer -> layer -> store; all
// weights arrive before it begins. One kernel for all layers keeps its instructions in their cache.
#include "infer/cuda/kernels/tile_program.hpp"

#include "infer/cuda/kernels/activation.cuh"
#include "infer/cuda/kernels/launch.cuh"

#include <type_traits>

namespace camd::infer::cuda {
namespace {

// A block's shared memory, its position in the grid of tiles, and a thread's number in it. Stages are read from shared
// memory: from the arguments' constant memory the compiler would read each number again wherever it is used, and wait
// for it.
struct BlockPosition {
  unsigned char* memory;
  int by, bx;  // of the tile
  int warp, warps;
  int thread, threads;
};

// First row and column of the block's region of a stage.
CAMD_DEVICE int first_row(const TileStage& s, const BlockPosition& at) { return at.by * s.step_y - s.back_y; }
CAMD_DEVICE int first_column(const TileStage& s, const BlockPosition& at) { return at.bx * s.step_x - s.back_x; }

CAMD_DEVICE void copy_words(const BlockPosition& at, unsigned char* to, const void* from, int words) {
#pragma unroll 4
  for (int i = at.thread; i < words; i += at.threads) {
    copy16_async(to + i * 16, static_cast<const uint4*>(from) + i, true);
  }
}

// The source row or column of row or column `at` of an image, where `from` of them are enlarged to `to`.
CAMD_DEVICE int enlarged_from(int at, int from, int to) {
  return to == from ? at : to == 2 * from ? at >> 1 : at * from / to;
}

// Before a block's first fetch from an image.
CAMD_DEVICE void wait_if(bool first) {
  if (!first) return;
  wait_for_previous_kernel();
  let_next_kernel_start();
}
// Where a phase begins: what the block has fetched and made so far is there.
CAMD_DEVICE void begin_phase() {
  copy_wait_all();
  block_sync();
}

// `first`: of the block. Then it waits for the kernel in front, but finds its first words before.
CAMD_DEVICE void load(const TileStage& s, const void* read, const BlockPosition& at, bool first) {
  const int depth = s.depth, groups = s.channels / 8, width = s.w;
  const Divider by_depth = s.by_depth, by_w = s.by_w;
  const int total = s.h * width * depth;
  const int y0 = first_row(s, at), x0 = first_column(s, at);
  const int image_h = s.image_h, image_w = s.image_w, pitch = s.pitch, to_pixel = s.to_pixel, to_row = s.to_row;
  const int source_h = s.source_h, source_w = s.source_w;
  const auto* const image = static_cast<const __half*>(read);
  unsigned char* const to = at.memory + s.to;
  constexpr int kAtOnce = 4;
  for (int begin = at.thread; begin < total || first; begin += kAtOnce * at.threads) {
    int target[kAtOnce], source[kAtOnce];  // offsets; a source of -1 is outside of the image
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      const int i = begin + u * at.threads;
      const int index = divide(i, by_depth);
      const int group = i - index * depth;
      const int row = divide(index, by_w), left_of = index - row * width;
      const int y = y0 + row, x = x0 + left_of;
      const bool inside = within(y, image_h) && within(x, image_w) && group < groups;
      const int from = enlarged_from(y, source_h, image_h) * source_w + enlarged_from(x, source_w, image_w);
      target[u] = row * to_row + left_of * to_pixel + group * 16;
      source[u] = inside ? from * pitch + group * 8 : -1;
      compute_here(target[u]);
      compute_here(source[u]);
    }
    wait_if(first);
    first = false;
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      if (begin + u * at.threads >= total) break;
      copy16_async(to + target[u], image + max(source[u], 0), source[u] >= 0);
    }
  }
}

CAMD_DEVICE void load_sum(const TileStage& s, const void* read, const void* also_read, const BlockPosition& at,
                          bool waits) {
  const int depth = s.depth, groups = s.channels / 8, width = s.w;
  const Divider by_depth = s.by_depth, by_w = s.by_w;
  const int total = s.h * width * depth;
  const int y0 = first_row(s, at), x0 = first_column(s, at);
  const int image_h = s.image_h, image_w = s.image_w, pitch = s.pitch, to_pixel = s.to_pixel, to_row = s.to_row;
  const int added_h = s.added_h, added_w = s.added_w, added_pitch = s.added_pitch;
  const auto* const image = static_cast<const __half*>(read);
  const auto* const added = static_cast<const __half*>(also_read);
  unsigned char* const to = at.memory + s.to;
  wait_if(waits);
  constexpr int kAtOnce = 4;  // that are on their way together
  for (int first = at.thread; first < total; first += kAtOnce * at.threads) {
    Half8 own[kAtOnce], other[kAtOnce];
    int target[kAtOnce];  // offset behind `to`; -1: none
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      const int i = first + u * at.threads;
      const int index = divide(i, by_depth);
      const int group = i - index * depth;
      const int row = divide(index, by_w), left_of = index - row * width;
      const int y = y0 + row, x = x0 + left_of;
      const bool inside = i < total && within(y, image_h) && within(x, image_w) && group < groups;
      const int from = enlarged_from(y, added_h, image_h) * added_w + enlarged_from(x, added_w, image_w);
      target[u] = i < total ? row * to_row + left_of * to_pixel + group * 16 : -1;
      own[u].bits = other[u].bits = make_uint4(0, 0, 0, 0);
      if (inside) {
        own[u].bits = *reinterpret_cast<const uint4*>(image + (y * image_w + x) * pitch + group * 8);
        other[u].bits = *reinterpret_cast<const uint4*>(added + from * added_pitch + group * 8);
      }
    }
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      if (target[u] < 0) break;
#pragma unroll
      for (int c = 0; c < 4; ++c) own[u].pair[c] = __hadd2(own[u].pair[c], other[u].pair[c]);
      *reinterpret_cast<uint4*>(to + target[u]) = own[u].bits;
    }
  }
}

// A channel of the outputs: where it goes, and its activation.
struct alignas(16) Plane {
  void* data;
  HalfBounds bounds;
  Activation activation;
};
static_assert(sizeof(Plane) <= kPlaneBytes);
CAMD_DEVICE void list_planes(const TileProgramArguments& p, const TileStage& s, const BlockPosition& at) {
  const std::ptrdiff_t element = p.plane_type == DataType::kF32 ? 4 : 2;
  auto* const planes = reinterpret_cast<Plane*>(at.memory + s.planes_at);
#pragma unroll 1
  for (int channel = at.thread; channel < s.channels; channel += at.threads) {
    int found = 0;
    for (int k = 1; k < p.sink_count; ++k) {
      if (channel >= p.sinks[k].first) found = k;
    }
    const PlaneSink& sink = p.sinks[found];
    planes[channel] = {static_cast<unsigned char*>(sink.data) + (channel - sink.first) * sink.pitch * element,
                       half_bounds(bounds_of(sink.activation)), sink.activation};
  }
}

CAMD_DEVICE void to_floats(float (&to)[8], const unsigned (&halfs)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 two = __half22float2(*reinterpret_cast<const __half2*>(&halfs[i]));
    to[2 * i] = two.x;
    to[2 * i + 1] = two.y;
  }
}

static_assert(kPlaneRun == 8);
// Four lanes hold 32 pixels of one channel, in two parts of four pixels each. Which four of the 32 a lane holds in a
// part.
CAMD_DEVICE int four_of(int lane, int part, bool wide) { return wide ? lane + part * 4 : lane * 2 + part; }

// A warp takes 8 channels of four runs of eight pixels and reads them so that a lane holds two times four pixels of one
// channel. What four lanes write at a time lies together: 64 bytes where tiles are wide enough. Outputs may lie in host
// memory; the bus takes pieces of that length at nearly its full rate, and shorter ones at half of it or less.
CAMD_DEVICE void write_planes(const TileProgramArguments& p, const TileStage& s, const BlockPosition& at) {
  const int lane = lane_index();
  const int row_runs = s.w / 8, runs = s.h * row_runs, channels = s.channels, groups = s.depth;
  const int y0 = first_row(s, at), x0 = first_column(s, at);
  const int image_h = s.image_h, image_w = s.image_w, from_pixel = s.from_pixel, from_row = s.from_row;
  const Divider by_row_runs = s.by_w, by_groups = s.by_depth;
  const SharedAddress source = shared_address(at.memory + s.from);
  const auto* const planes = reinterpret_cast<const Plane*>(at.memory + s.planes_at);
  const bool wide = p.plane_type == DataType::kF32;
  const bool aligned = (image_w & 7) == 0 && p.planes_aligned;  // tiles begin at multiples of 8 pixels
  begin_phase();
  for (int unit = at.warp; unit < s.units; unit += at.warps) {
    const int chunk = divide(unit, by_groups);
    const int group = unit - chunk * groups;
    // Lane (g, t) receives channel g of two times four of 32 pixels, two rows of a matrix at a time. For f16 the eight
    // lie side by side; for f32 the first four of all four lanes do, which is 64 bytes.
    const int matrix = lane >> 3, pair = (lane & 7) >> 1;
    const int four = four_of(pair, matrix >> 1, wide);
    const int read = min(chunk * 4 + four / 2, runs - 1);
    const int read_row = divide(read, by_row_runs);
    const int read_column = (read - read_row * row_runs) * 8 + four % 2 * 4 + (matrix & 1) * 2 + (lane & 1);
    unsigned halfs[4];
    load_matrices_transposed(halfs, source + (read_row * from_row + read_column * from_pixel + group * 16));
    const int channel = group * 8 + (lane >> 2);
    if (channel >= channels) continue;
    const Plane& plane = planes[channel];
    float values[8];
    if (!bounds_only(plane.activation.function)) {
      to_floats(values, halfs);
      activate_specials(plane.activation, values);
      if (!wide) {
        const uint4 packed = pack_halfs(values);
        halfs[0] = packed.x, halfs[1] = packed.y, halfs[2] = packed.z, halfs[3] = packed.w;
      }
    } else {
#pragma unroll
      for (unsigned& two : halfs) two = clamp_halfs(two, plane.bounds);
      to_floats(values, halfs);
    }
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      const int own = four_of(lane & 3, part, wide);
      const int run = chunk * 4 + own / 2;
      const int row = divide(run, by_row_runs);
      const int y = y0 + row, x = x0 + (run - row * row_runs) * 8 + own % 2 * 4;
      if (run >= runs || !within(y, image_h) || !within(x, image_w)) continue;
      const std::ptrdiff_t offset = static_cast<std::ptrdiff_t>(y) * image_w + x;
      const float* const v = values + part * 4;
      if (aligned && !wide) {
        if (part == 0) {
          *reinterpret_cast<uint4*>(static_cast<__half*>(plane.data) + offset) =
              make_uint4(halfs[0], halfs[1], halfs[2], halfs[3]);
        }
      } else if (aligned) {
        *reinterpret_cast<float4*>(static_cast<float*>(plane.data) + offset) = make_float4(v[0], v[1], v[2], v[3]);
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (x + i >= image_w) break;
          if (wide)
            static_cast<float*>(plane.data)[offset + i] = v[i];
          else
            static_cast<__half*>(plane.data)[offset + i] = __float2half_rn(v[i]);
        }
      }
    }
  }
}

// What one step of a product, over 16 channels of a tap, reads from shared memory.
template <int kMt, int kNt>
struct Fragments {
  unsigned left[kMt][4];
  uint4 right[kNt];
};
template <int kMt, int kNt>
CAMD_DEVICE void fetch(Fragments<kMt, kNt>& f, const SharedAddress (&left)[kMt], int moved, const uint4* right) {
#pragma unroll
  for (int m = 0; m < kMt; ++m) load_matrices(f.left[m], left[m] + moved);
#pragma unroll
  for (int q = 0; q < kNt; ++q) f.right[q] = right[q * 32];
}
template <int kMt, int kNt>
CAMD_DEVICE void add_products(float (&sums)[kMt][2 * kNt][4], const Fragments<kMt, kNt>& f) {
#pragma unroll
  for (int q = 0; q < kNt; ++q) {
#pragma unroll
    for (int m = 0; m < kMt; ++m) {
      multiply_add(sums[m][2 * q], f.left[m], f.right[q].x, f.right[q].y);
      multiply_add(sums[m][2 * q + 1], f.left[m], f.right[q].z, f.right[q].w);
    }
  }
}

// How to walk over a convolution's taps; each has `depth` steps of 32 bytes.
struct Walk {
  int kernel, depth;
  int pixel, row;  // bytes from a pixel, and a row, to the next
};

// Adds all steps, kSteps at a time, which belong to one tap. A step's fragments are fetched while the step before
// multiplies.
template <int kSteps, int kMt, int kNt>
CAMD_DEVICE void add_steps(float (&sums)[kMt][2 * kNt][4], const SharedAddress (&left)[kMt], const Walk& walk,
                           const uint4* right, int weight_step) {
  constexpr int kAhead = kSteps % 2 == 1 ? kSteps : 2;  // fragments: the last step fetches for the first
  const int next_tap = walk.pixel - walk.depth * 32;
  const int next_row = walk.row - walk.kernel * walk.pixel;
  int moved = 0, channel_step = 0, tap_x = 0;
  Fragments<kMt, kNt> fragments[kAhead];
  if (kAhead > 1) fetch(fragments[0], left, 0, right);
#pragma unroll 1
  for (int steps = walk.kernel * walk.kernel * walk.depth; steps > 0; steps -= kSteps) {
    int next = moved + kSteps * 32;
    channel_step += kSteps;
    if (channel_step == walk.depth) {
      channel_step = 0;
      next += next_tap;
      if (++tap_x == walk.kernel) {
        tap_x = 0;
        next += next_row;
      }
    }
    const uint4* next_right = right + kSteps * weight_step;
    if (steps == kSteps) {  // nothing follows: what is fetched again is not used
      next = moved;
      next_right = right;
    }
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      if constexpr (kAhead == 1) {
        fetch(fragments[0], left, moved, right);
      } else if (i + 1 < kSteps) {
        fetch(fragments[(i + 1) % kAhead], left, moved + (i + 1) * 32, right + (i + 1) * weight_step);
      } else {
        fetch(fragments[0], left, next, next_right);
      }
      add_products(sums, fragments[i % kAhead]);
    }
    moved = next;
    right = next_right;
  }
}

// A 3x3 convolution over 16 channels: nine steps.
template <int kMt, int kNt>
CAMD_DEVICE void add_nine(float (&sums)[kMt][2 * kNt][4], const SharedAddress (&left)[kMt], int row_bytes,
                          const uint4* right, int weight_step) {
  constexpr int kPixel = 48;
  Fragments<kMt, kNt> fragments[2];
  fetch(fragments[0], left, 0, right);
#pragma unroll
  for (int i = 0; i < 9; ++i) {
    if (i < 8) {
      fetch(fragments[(i + 1) % 2], left, (i + 1) / 3 * row_bytes + (i + 1) % 3 * kPixel,
            right + (i + 1) * weight_step);
    }
    add_products(sums, fragments[i % 2]);
  }
}

// What it needs of the stage it reads before the phase begins.
template <bool kSpecial, int kMt, int kNt>
CAMD_DEVICE void dense(const TileStage& s, void* written, const BlockPosition& at, int column, int first_unit) {
  const int lane = lane_index();
  const int width = s.w, pixels = s.h * width;
  const int n16 = s.n16, depth = s.depth, kernel = s.kernel, units = s.units;
  const int columns = n16 / kNt;
  const Divider by_columns = s.by_columns, by_w = s.by_w;
  const int pixel_stride = s.from_pixel * s.stride, row_stride = s.from_row * s.stride;
  const bool stays = s.to >= 0, leaves = written != nullptr, adds = s.add_at >= 0, first = s.activation_first;
  const int y0 = first_row(s, at), x0 = first_column(s, at);
  const int image_h = s.image_h, image_w = s.image_w, pitch = s.pitch, to_pixel = s.to_pixel, to_row = s.to_row;
  const int back_y = s.back_y, back_x = s.back_x, step_y = s.step_y, step_x = s.step_x;
  const bool nine = depth == 1 && kernel == 3;
  const Walk walk{kernel, depth, s.from_pixel, s.from_row};
  const int stored = s.stored, channels = s.channels - column * n16 * 16;
  const SharedAddress source = shared_address(at.memory + s.from) + (lane >> 4) * 16;
  const auto* const weights = reinterpret_cast<const uint4*>(at.memory + s.weights_at) + lane;
  const auto* const biases = reinterpret_cast<const float4*>(at.memory + s.bias_at) + (lane & 3);
  unsigned char* const target = at.memory + s.to + (lane & 3) * 8;
  const unsigned char* const add = at.memory + s.add_at + column * n16 * 32 + (lane & 3) * 8;
  const int add_pixel = s.add_pixel;
  const Activation activation = s.activation;
  const bool special = s.special;
  auto* const image = static_cast<__half*>(written) + (y0 * image_w + x0) * pitch + column * n16 * 16 + (lane & 3) * 4;
  int row_unit, n_first;
  SharedAddress left[kMt];
  const auto find = [&](int unit) {
    row_unit = divide(unit, by_columns);
    n_first = (unit - row_unit * columns) * kNt;
#pragma unroll
    for (int m = 0; m < kMt; ++m) {
      const int index = min((row_unit * kMt + m) * 16 + (lane & 15), pixels - 1);
      const int row = divide(index, by_w);
      left[m] = source + (row * row_stride + (index - row * width) * pixel_stride);
    }
  };
  find(first_unit);
  if (s.barrier) begin_phase();
  for (int unit = first_unit; unit < units; unit += at.warps, find(unit)) {
    // The bias comes last: sums that begin equal are copied before every step.
    float sums[kMt][2 * kNt][4] = {};
    float4 bias[kNt];
#pragma unroll
    for (int q = 0; q < kNt; ++q) bias[q] = biases[(n_first + q) * 4];
    if (nine)
      add_nine<kMt, kNt>(sums, left, s.from_row, weights + n_first * 32, n16 * 32);
    else if (depth % 4 == 0)
      add_steps<4, kMt, kNt>(sums, left, walk, weights + n_first * 32, n16 * 32);
    else if (depth % 2 == 0)
      add_steps<2, kMt, kNt>(sums, left, walk, weights + n_first * 32, n16 * 32);
    else if (depth % 3 == 0)
      add_steps<3, kMt, kNt>(sums, left, walk, weights + n_first * 32, n16 * 32);
    else
      add_steps<1, kMt, kNt>(sums, left, walk, weights + n_first * 32, n16 * 32);
    // A lane holds 4 neighbouring channels of 2 pixels for every 16 channels (packing.hpp).
    const int channel = n_first * 16 + (lane & 3) * 4;
    const auto finish = [&](auto adding) {
      constexpr bool kAdds = decltype(adding)::value;
      const bool bounded_before = kAdds && first;
      const bool specially = kSpecial && special && !bounded_before;
      const Bounds bounds{s.low, s.high, special};
      const HalfBounds bounds_after = half_bounds(bounded_before ? Bounds{-INFINITY, INFINITY, false} : bounds);
#pragma unroll
      for (int m = 0; m < kMt; ++m) {
        int index[2];
        float v[2 * kNt][4];  // [pixel][group of 16 channels]
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          index[half] = (row_unit * kMt + m) * 16 + (lane >> 2) + half * 8;
#pragma unroll
          for (int q = 0; q < kNt; ++q) {
            float(&to)[4] = v[half * kNt + q];
            to[0] = sums[m][2 * q][half * 2] + bias[q].x;
            to[1] = sums[m][2 * q][half * 2 + 1] + bias[q].y;
            to[2] = sums[m][2 * q + 1][half * 2] + bias[q].z;
            to[3] = sums[m][2 * q + 1][half * 2 + 1] + bias[q].w;
          }
        }
        float(&all)[2 * kNt * 4] = reinterpret_cast<float(&)[2 * kNt * 4]>(v);
        if constexpr (kAdds) {
          if (first) activate_all<kSpecial>(activation, bounds, all);
#pragma unroll
          for (int i = 0; i < 2 * kNt; ++i)
            add_halfs(v[i], add + min(index[i / kNt], pixels - 1) * add_pixel + (n_first + i % kNt) * 32);
        }
        if (specially) activate_specials(activation, all);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = divide(index[half], by_w), left_of = index[half] - row * width;
          const bool exists = index[half] < pixels;
          const bool inside = exists && within(y0 + row, image_h) && within(x0 + left_of, image_w);
          const bool own = leaves && inside && within(row - back_y, step_y) && within(left_of - back_x, step_x);
          unsigned char* const to = target + row * to_row + left_of * to_pixel + n_first * 32;
          __half* const out = image + (row * image_w + left_of) * pitch + n_first * 16;
#pragma unroll
          for (int q = 0; q < kNt; ++q) {
            uint2 packed = pack_halfs(v[half * kNt + q]);
            if (!specially) packed = clamp_halfs(packed, bounds_after);
            const uint2 masked = make_uint2(inside ? packed.x : 0, inside ? packed.y : 0);
            if (stays && exists && channel + q * 16 < stored) *reinterpret_cast<uint2*>(to + q * 32) = masked;
            if (own && channel + q * 16 < channels) *reinterpret_cast<uint2*>(out + q * 16) = packed;
          }
        }
      }
    };
    if (adds)
      finish(std::true_type{});
    else
      finish(std::false_type{});
  }
}

template <bool kSpecial>
CAMD_KERNEL(kMaxTileThreads, 1)
tile_program_kernel(CAMD_GRID_CONSTANT const TileProgramArguments p) {
  CAMD_SHARED(memory);
  BlockPosition at;
  at.memory = memory;
  at.by = static_cast<int>(blockIdx.y);
  at.bx = static_cast<int>(blockIdx.x);
  at.warp = warp_index();
  at.warps = static_cast<int>(blockDim.x) >> 5;
  at.thread = static_cast<int>(threadIdx.x);
  at.threads = static_cast<int>(blockDim.x);
  const int count = p.stage_count;
  const int column = static_cast<int>(blockIdx.z);
  const auto* const stages = reinterpret_cast<const TileStage*>(memory);
  const auto* const program = static_cast<const unsigned char*>(p.program) + column * p.program_bytes;
  const int stage_bytes = count * static_cast<int>(sizeof(TileStage));
  copy_words(at, memory, program, stage_bytes / 16);
  copy_commit();
  copy_words(at, memory + stage_bytes, program + stage_bytes, (p.program_bytes - stage_bytes) / 16);
  copy_commit();
  copy_wait_but<1>();
  block_sync();
  if (p.sink_count != 0) list_planes(p, stages[count - 1], at);
  wait_if(stages[0].kind != TileStageKind::kLoad);
  int taken = 0;  // units of this phase so far, modulo the number of warps: the next stage's units begin there
  for (int i = 0; i < count; ++i) {
    const TileStage& s = stages[i];
    if (s.barrier) taken = 0;
    const int first = (at.warp - taken) & (at.warps - 1);
    const int here = i == p.split_stage ? column : 0;
    taken = (taken + s.units) & (at.warps - 1);
    if (s.kind == TileStageKind::kLoad && p.added[i] != nullptr)
      load_sum(s, p.read[i], p.added[i], at, i == 0);
    else if (s.kind == TileStageKind::kLoad)
      load(s, p.read[i], at, i == 0);
    else if (s.kind == TileStageKind::kPlanes)
      write_planes(p, s, at);
    else if (s.unit == 0)
      dense<kSpecial, 1, 1>(s, p.written[i], at, here, first);
    else if (s.unit == 1)
      dense<kSpecial, 1, 2>(s, p.written[i], at, here, first);
    else if (s.unit == 2)
      dense<kSpecial, 2, 1>(s, p.written[i], at, here, first);
    else
      dense<kSpecial, 2, 2>(s, p.written[i], at, here, first);
  }
}

}  // namespace

int tile_program(const TileProgramArguments& p, const LaunchContext& context) {
  const dim3 grid(static_cast<unsigned>(p.tiles_x), static_cast<unsigned>(p.tiles_y), static_cast<unsigned>(p.columns));
  return launch(p.special ? tile_program_kernel<true> : tile_program_kernel<false>, grid, p.threads,
                static_cast<std::size_t>(p.shared_bytes), context, p);
}

}  // namespace camd::infer::cuda
