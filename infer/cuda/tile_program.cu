// The kernel that runs a tile program (tile_program.hpp).
//
// Every layer is a product on the tensor cores, whose left matrix is its source's tile, moved by the tap.
//
// Bound: latency. Layers are small beside the chip, and what a block waits for is the chain load -> layer -> layer ->
// store; all weights are in place before it begins. One kernel for all layers keeps the instructions in their cache.
#include "infer/cuda/activation.cuh"
#include "infer/cuda/launch.cuh"

namespace camd::infer::cuda {
namespace {

// Where a block stands. Stages are read from shared memory: from the arguments' constant memory the compiler would read
// each number again wherever it is used, and wait for it.
struct Place {
  unsigned char* memory;
  int by, bx;  // of the tile
  int warp, warps;
  int thread, threads;
};

// First row and column of the block's region of a stage.
CAMD_DEVICE int first_row(const TileStage& s, const Place& at) { return at.by * s.step_y - s.back_y; }
CAMD_DEVICE int first_column(const TileStage& s, const Place& at) { return at.bx * s.step_x - s.back_x; }
// Most blocks see no edge of the image: they need not ask for each pixel.
CAMD_DEVICE bool sees_edge(const TileStage& s, const Place& at) {
  const int y = first_row(s, at), x = first_column(s, at);
  return y < 0 || x < 0 || y + s.h > s.image_h || x + s.w > s.image_w;
}
CAMD_DEVICE bool within(int value, int end) { return static_cast<unsigned>(value) < static_cast<unsigned>(end); }

CAMD_DEVICE void copy_words(const Place& at, unsigned char* to, const void* from, int words) {
#pragma unroll 1
  for (int i = at.thread; i < words; i += at.threads) {
    copy16_async(to + i * 16, static_cast<const uint4*>(from) + i, true);
  }
}

CAMD_DEVICE void fetch_weights(const TileStage& s, const Place& at, int column) {
  if (s.kind != TileStageKind::kDense) return;
  unsigned char* const weights = at.memory + s.weights_at;
  const int steps = s.kernel * s.kernel * s.depth, row = s.n16 * 32, total = s.n16_total * 32;
  const auto* const from = static_cast<const uint4*>(s.weights) + column * row;
  if (row == total) {
    copy_words(at, weights, from, steps * row);
  } else {
#pragma unroll 1
    for (int k = at.warp; k < steps; k += at.warps) {
#pragma unroll 1
      for (int i = lane_index(); i < row; i += 32)
        copy16_async(weights + (k * row + i) * 16, from + k * total + i, true);
    }
  }
  copy_words(at, at.memory + s.bias_at, s.bias + column * s.n16 * 16, s.n16 * 4);
}

CAMD_DEVICE void load(const TileStage& s, const Place& at) {
  const int depth = s.depth, groups = s.channels / 8, width = s.w;
  const Divider by_depth = s.by_depth, by_w = s.by_w;
  const int total = s.h * width * depth;
  const int y0 = first_row(s, at), x0 = first_column(s, at);
  const int image_h = s.image_h, image_w = s.image_w, source_w = s.source_w, pitch = s.pitch, to_pixel = s.to_pixel;
  const bool enlarged = s.enlarged;
  const auto* const image = static_cast<const __half*>(s.image);
  unsigned char* const to = at.memory + s.to;
  for (int i = at.thread; i < total; i += at.threads) {
    const int index = divide(i, by_depth);
    const int group = i - index * depth;
    const int row = divide(index, by_w);
    int y = y0 + row, x = x0 + index - row * width;
    const bool inside = within(y, image_h) && within(x, image_w) && group < groups;
    if (enlarged) {
      y = y * s.source_h / image_h;
      x = x * source_w / image_w;
    }
    copy16_async(to + index * to_pixel + group * 16, image + (y * source_w + x) * pitch + group * 8, inside);
  }
}

// A warp takes a channel, so that it writes neighbours and looks its output up once.
CAMD_DEVICE void write_planes(const TileProgramArguments& p, const TileStage& s, const Place& at) {
  const int width = s.w, pixels = s.h * width, channels = s.channels;
  const int y0 = first_row(s, at), x0 = first_column(s, at);
  const int image_h = s.image_h, image_w = s.image_w, from_pixel = s.from_pixel;
  const Divider by_w = s.by_w;
  const unsigned char* const source = at.memory + s.from;
  const bool wide = p.plane_type == DataType::kF32;
  for (int channel = at.warp; channel < channels; channel += at.warps) {
    int found = 0;
    for (int k = 1; k < p.sink_count; ++k) {
      if (channel >= p.sinks[k].first) found = k;
    }
    const PlaneSink& sink = p.sinks[found];
    const Activation activation = sink.activation;
    const Bounds bounds = bounds_of(activation);
    const std::ptrdiff_t plane = static_cast<std::ptrdiff_t>(channel - sink.first) * image_h * image_w;
    auto* const floats = static_cast<float*>(sink.data) + plane;
    auto* const halfs = static_cast<__half*>(sink.data) + plane;
#pragma unroll 1
    for (int index = lane_index(); index < pixels; index += 32) {
      const int row = divide(index, by_w);
      const int y = y0 + row, x = x0 + index - row * width;
      if (!within(y, image_h) || !within(x, image_w)) continue;
      float v = __half2float(*reinterpret_cast<const __half*>(source + index * from_pixel + channel * 2));
      v = fminf(fmaxf(v, bounds.low), bounds.high);
      if (bounds.special) v = activate_special(activation, v);
      if (wide)
        floats[y * image_w + x] = v;
      else
        halfs[y * image_w + x] = __float2half_rn(v);
    }
  }
}

template <bool kSpecial, int kMt, int kNt>
CAMD_DEVICE void dense(const TileStage& s, const Place& at, int column, int first_unit) {
  const int lane = lane_index();
  const int width = s.w, pixels = s.h * width;
  const int n16 = s.n16, depth = s.depth, kernel = s.kernel, units = s.units;
  const int columns = n16 / kNt;
  const Divider by_columns = s.by_columns, by_w = s.by_w;
  const int pixel_stride = s.from_pixel * s.stride, row_stride = s.from_row * s.stride;
  const bool late = s.add_at >= 0 && !s.activation_first;
  const Bounds own_bounds{s.low, s.high, s.special}, none{-INFINITY, INFINITY, false};
  const Bounds before = late ? none : own_bounds, after = late ? own_bounds : none;
  const int y0 = first_row(s, at), x0 = first_column(s, at);
  const int image_h = s.image_h, image_w = s.image_w, pitch = s.pitch, to_pixel = s.to_pixel;
  const int back_y = s.back_y, back_x = s.back_x, step_y = s.step_y, step_x = s.step_x;
  const bool stays = s.to >= 0, leaves = s.image != nullptr, adds = s.add_at >= 0;
  const bool edge = sees_edge(s, at), border = s.h != s.step_y || s.w != s.step_x;
  const bool locates = leaves || edge;
  const int steps = kernel * kernel * depth;
  const int next_tap = s.from_pixel - depth * 32;
  const int next_row = s.from_row - kernel * s.from_pixel;
  const int stored = s.stored, channels = s.channels, weight_step = n16 * 32;
  const SharedAddress source = shared_address(at.memory + s.from) + (lane >> 4) * 16;
  const auto* const weights = reinterpret_cast<const uint4*>(at.memory + s.weights_at) + lane;
  const auto* const biases = reinterpret_cast<const float4*>(at.memory + s.bias_at) + (lane & 3);
  unsigned char* const target = at.memory + s.to + (lane & 3) * 8;
  const unsigned char* const add = at.memory + s.add_at + column * n16 * 32;
  const int add_pixel = s.add_pixel;
  auto* const image = static_cast<__half*>(s.image) + (y0 * image_w + x0) * pitch + column * n16 * 16 + (lane & 3) * 4;
  for (int unit = first_unit; unit < units; unit += at.warps) {
    const int row_unit = divide(unit, by_columns);
    const int n_first = (unit - row_unit * columns) * kNt;
    SharedAddress left[kMt];
#pragma unroll
    for (int m = 0; m < kMt; ++m) {
      const int index = min((row_unit * kMt + m) * 16 + (lane & 15), pixels - 1);
      const int row = divide(index, by_w);
      left[m] = source + (row * row_stride + (index - row * width) * pixel_stride);
    }
    // The bias comes last: sums that begin equal are copied before every step.
    float sums[kMt][2 * kNt][4] = {};
    float4 bias[kNt];
#pragma unroll
    for (int q = 0; q < kNt; ++q) bias[q] = biases[(n_first + q) * 4];
    const uint4* right = weights + n_first * 32;
    // Where the tile stands for a step: 32 bytes on for the next 16 channels, and back for the next tap.
    int moved = 0, channel_step = 0, tap_x = 0;
    int left_steps = steps;
#pragma unroll 2
    do {
      unsigned a[kMt][4];
#pragma unroll
      for (int m = 0; m < kMt; ++m) load_matrices(a[m], left[m] + moved);
#pragma unroll
      for (int q = 0; q < kNt; ++q) {
        const uint4 b = right[q * 32];
#pragma unroll
        for (int m = 0; m < kMt; ++m) {
          multiply_add(sums[m][2 * q], a[m], b.x, b.y);
          multiply_add(sums[m][2 * q + 1], a[m], b.z, b.w);
        }
      }
      right += weight_step;
      moved += 32;
      if (++channel_step == depth) {
        channel_step = 0;
        moved += next_tap;
        if (++tap_x == kernel) {
          tap_x = 0;
          moved += next_row;
        }
      }
    } while (--left_steps != 0);
    // A lane holds 4 neighbouring channels of 2 pixels for every 16 channels (packing.hpp).
    const int channel = n_first * 16 + (lane & 3) * 4;
#pragma unroll
    for (int m = 0; m < kMt; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int index = (row_unit * kMt + m) * 16 + (lane >> 2) + half * 8;
        const bool exists = index < pixels;
        bool inside = true, own = exists && leaves;
        __half* out = image;
        if (locates) {
          const int row = divide(index, by_w), left_of = index - row * width;
          if (edge) inside = within(y0 + row, image_h) && within(x0 + left_of, image_w);
          if (border) own = own && within(row - back_y, step_y) && within(left_of - back_x, step_x);
          own = own && inside;
          out += (row * image_w + left_of) * pitch + n_first * 16;
        }
#pragma unroll
        for (int q = 0; q < kNt; ++q) {
          float v[4] = {sums[m][2 * q][half * 2] + bias[q].x, sums[m][2 * q][half * 2 + 1] + bias[q].y,
                        sums[m][2 * q + 1][half * 2] + bias[q].z, sums[m][2 * q + 1][half * 2 + 1] + bias[q].w};
          activate_all<kSpecial>(s.activation, before, v);
          if (adds) {
            add_halfs(v, add + min(index, pixels - 1) * add_pixel + (channel + q * 16) * 2);
            activate_all<kSpecial>(s.activation, after, v);
          }
          const uint2 packed = make_uint2(pack_halfs(v[0], v[1]), pack_halfs(v[2], v[3]));
          if (stays && exists && channel + q * 16 < stored)
            *reinterpret_cast<uint2*>(target + index * to_pixel + (n_first + q) * 32) =
                inside ? packed : make_uint2(0, 0);
          if (own && column * n16 * 16 + channel + q * 16 < channels) *reinterpret_cast<uint2*>(out + q * 16) = packed;
        }
      }
    }
  }
}

template <bool kSpecial>
CAMD_KERNEL(kMaxTileThreads, 1)
tile_program_kernel(CAMD_GRID_CONSTANT const TileProgramArguments p) {
  CAMD_SHARED(memory);
  let_next_kernel_start();
  Place at;
  at.memory = memory;
  at.by = divide(static_cast<int>(blockIdx.x), p.by_tiles_x);
  at.bx = static_cast<int>(blockIdx.x) - at.by * p.tiles_x;
  at.warp = warp_index();
  at.warps = static_cast<int>(blockDim.x) >> 5;
  at.thread = static_cast<int>(threadIdx.x);
  at.threads = static_cast<int>(blockDim.x);
  const int count = p.stage_count;
  const auto* const stages = reinterpret_cast<const TileStage*>(memory);
#pragma unroll 1
  for (int i = at.thread; i < count * static_cast<int>(sizeof(TileStage) / 4); i += at.threads) {
    reinterpret_cast<unsigned*>(memory)[i] = reinterpret_cast<const unsigned*>(p.stages)[i];
  }
  block_sync();
  const int column = static_cast<int>(blockIdx.y);
  for (int i = 0; i < count; ++i) fetch_weights(stages[i], at, i == p.split_stage ? column : 0);
  wait_for_previous_kernel();
  int taken = 0;  // units of this phase so far, modulo the number of warps: the next stage's units go on from there
  for (int i = 0; i < count; ++i) {
    const TileStage& s = stages[i];
    if (s.meet) {
      copy_wait_all();
      block_sync();
      taken = 0;
    }
    const int first = (at.warp - taken) & (at.warps - 1);
    const int here = i == p.split_stage ? column : 0;
    taken = (taken + s.units) & (at.warps - 1);
    if (s.kind == TileStageKind::kLoad)
      load(s, at);
    else if (s.kind == TileStageKind::kPlanes)
      write_planes(p, s, at);
    else if (s.unit == 0)
      dense<kSpecial, 1, 1>(s, at, here, first);
    else if (s.unit == 1)
      dense<kSpecial, 1, 2>(s, at, here, first);
    else if (s.unit == 2)
      dense<kSpecial, 2, 1>(s, at, here, first);
    else
      dense<kSpecial, 2, 2>(s, at, here, first);
  }
}

bool is_special(const TileProgramArguments& p) {
  for (int i = 0; i < p.stage_count; ++i) {
    if (p.stages[i].special) return true;
  }
  return false;
}

}  // namespace

int tile_program(const TileProgramArguments& p, const LaunchContext& context) {
  const dim3 grid(static_cast<unsigned>(p.tiles_y * p.tiles_x), static_cast<unsigned>(p.columns), 1);
  return launch(is_special(p) ? tile_program_kernel<true> : tile_program_kernel<false>, grid, p.threads,
                static_cast<std::size_t>(p.shared_bytes), context, p);
}

}  // namespace camd::infer::cuda
