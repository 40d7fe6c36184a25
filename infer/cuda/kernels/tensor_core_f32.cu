// Dense convolution of f32 images on the tensor cores, which take f32 with its 13 last bits cut off (TF32).
//
// Three products make up for the bits: x = high + low, w = high + low, and high * high + high * low + low * high leaves
// only the product of both lows away, 2^-22 of the result ("3xTF32" of CUTLASS). One product is `precision: tf32`.
#include "infer/cuda/kernels/generic_conv.cuh"
#include "infer/cuda/kernels/launch.cuh"

namespace camd::infer::cuda {
namespace {

constexpr int kThreads = 128;  // 2 x 2 warps, each with a quarter of the block's pixels and channels
constexpr int kStages = 4;     // what is multiplied, and what travels meanwhile

// kDepth: input channels of one tap in a stage.
template <int kPixels, int kChannels, int kDepth>
struct Stages {
  static constexpr int kRow = kDepth + 4;  // the rows of an 8x4 matrix lie in different banks
  static constexpr int kPixelVectors = kPixels * kDepth / 4;
  static constexpr int kWeightVectors = kDepth * kChannels / 4;
  static constexpr int kPixelCopies = (kPixelVectors + kThreads - 1) / kThreads;  // a thread's
  static constexpr int kWeightCopies = (kWeightVectors + kThreads - 1) / kThreads;
  float pixels[kStages][kPixels * kRow];
  float weights[kStages][kDepth * kChannels];
};

// What the tensor cores see of a number, and what they do not.
struct Split {
  unsigned high, low;
};
CAMD_DEVICE Split split(unsigned bits) {
  constexpr unsigned kSeen = 0xFFFFE000U;
  const unsigned high = bits & kSeen;
  return {high, __float_as_uint(__uint_as_float(bits) - __uint_as_float(high))};
}

template <int kProducts>
CAMD_DEVICE void multiply_add_split(float (&sum)[4], const unsigned (&high)[4], const unsigned (&low)[4],
                                    const Split& b0, const Split& b1) {
  if constexpr (kProducts == 3) {
    multiply_add_tf32(sum, low, b0.high, b1.high);
    multiply_add_tf32(sum, high, b0.low, b1.low);
  }
  multiply_add_tf32(sum, high, b0.high, b1.high);
}

template <int kPixels, int kChannels, int kDepth, int kProducts>
CAMD_KERNEL(kThreads, 1)
tensor_core_f32_kernel(const GenericConvArguments p) {
  using Tile = Stages<kPixels, kChannels, kDepth>;
  constexpr int kTilesOfPixels = kPixels / 2 / 16;  // a warp's
  constexpr int kTilesOfChannels = kChannels / 2 / 16;
  constexpr int kVectorsOfRow = kDepth / 4;
  CAMD_SHARED(memory);
  Tile& tile = *reinterpret_cast<Tile*>(memory);
  const int thread = static_cast<int>(threadIdx.x);
  const int first_pixel = static_cast<int>(blockIdx.x) * kPixels;
  const int first_channel = static_cast<int>(blockIdx.y) * kChannels;
  const int pixels = p.y.h * p.y.w;
  const int columns = columns_of(p);
  const int depth_of_weights = (p.x.c + 7) / 8;
  const int slices = (p.x.c + kDepth - 1) / kDepth;

  // The pixels whose channels this thread copies, by where their first tap lies.
  int top[Tile::kPixelCopies], left[Tile::kPixelCopies];
#pragma unroll
  for (int i = 0; i < Tile::kPixelCopies; ++i) {
    const int pixel = first_pixel + (thread + i * kThreads) / kVectorsOfRow;
    top[i] = pixel < pixels ? pixel / p.y.w * p.stride.y - p.pad_top : -0x40000000;  // outside of every image
    left[i] = pixel % p.y.w * p.stride.x - p.pad_left;
  }
  struct Next {  // what is copied next
    int ky, kx, slice;
  };
  const auto step_on = [&](Next& next) {
    if (++next.slice < slices) return false;
    next.slice = 0;
    if (++next.kx == p.kernel.x) {
      next.kx = 0;
      ++next.ky;
    }
    return true;
  };
  Next next_pixels{0, 0, 0}, next_weights{0, 0, 0};
  const float* tap = p.weights;
  const auto copy_pixels = [&](int stage) {
#pragma unroll
    for (int i = 0; i < Tile::kPixelCopies; ++i) {
      const int v = thread + i * kThreads;
      if (Tile::kPixelVectors % kThreads != 0 && v >= Tile::kPixelVectors) break;
      const int part = v % kVectorsOfRow * 4;
      const int y = top[i] + next_pixels.ky * p.dilation.y, x = left[i] + next_pixels.kx * p.dilation.x;
      const int c = next_pixels.slice * kDepth + part;
      const bool inside = y >= 0 && y < p.x.h && x >= 0 && x < p.x.w && c < padded(p.x.c);
      copy16_async(&tile.pixels[stage][v / kVectorsOfRow * Tile::kRow + part],
                   inside ? at<float>(p.x, y, x, c) : static_cast<const float*>(p.x.data), inside);
    }
    (void)step_on(next_pixels);
  };
  const auto copy_weights = [&](int stage) {
#pragma unroll
    for (int i = 0; i < Tile::kWeightCopies; ++i) {
      const int v = thread + i * kThreads;
      if (Tile::kWeightVectors % kThreads != 0 && v >= Tile::kWeightVectors) break;
      // 8 input channels of 16 output channels are 32 vectors.
      const int step = next_weights.slice * (kDepth / 8) + v / (kChannels * 2);
      const int channel = first_channel + v % (kChannels * 2) / 32 * 16;
      const bool inside = step < depth_of_weights && channel < columns;
      copy16_async(&tile.weights[stage][v * 4], inside ? tap + (step * columns + channel) * 8 + v % 32 * 4 : p.weights,
                   inside);
    }
    if (step_on(next_weights)) tap += depth_of_weights * 8 * columns;
  };

  const int lane = lane_index();
  const int pixel = warp_index() % 2 * (kPixels / 2);
  const int channel = warp_index() / 2 * (kChannels / 2);
  // What is needed behind the products, and does not depend on the kernel in front.
  float bias[kTilesOfChannels][4];
#pragma unroll
  for (int n = 0; n < kTilesOfChannels; ++n) {
    const int c = first_channel + channel + n * 16 + lane % 4 * 4;
    load4(bias[n], p.bias + (c < padded(p.y.c) ? c : 0));
  }
  int made_y[kTilesOfPixels][2], made_x[kTilesOfPixels][2];
#pragma unroll
  for (int m = 0; m < kTilesOfPixels; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int o = first_pixel + pixel + m * 16 + half * 8 + lane / 4;
      made_y[m][half] = o / p.y.w;
      made_x[m][half] = o - made_y[m][half] * p.y.w;
      compute_here(made_y[m][half]);
      compute_here(made_x[m][half]);
    }
  }
  const int steps = p.kernel.y * p.kernel.x * slices;
  for (int step = 0; step < min(kStages - 1, steps); ++step) copy_weights(step);  // with the first pixels' group
  wait_for_previous_kernel();
  let_next_kernel_start();
  for (int step = 0; step < kStages - 1; ++step) {
    if (step < steps) copy_pixels(step);
    copy_commit();
  }
  float sum[kTilesOfPixels][kTilesOfChannels][2][4] = {};
  for (int step = 0; step < steps; ++step) {
    const int stage = step % kStages;
    copy_wait_but<kStages - 2>();
    block_sync();
    if (step + kStages - 1 < steps) {
      copy_pixels((step + kStages - 1) % kStages);
      copy_weights((step + kStages - 1) % kStages);
    }
    copy_commit();
#pragma unroll
    for (int k = 0; k < kDepth; k += 8) {
      unsigned high[kTilesOfPixels][4], low[kTilesOfPixels][4];
#pragma unroll
      for (int m = 0; m < kTilesOfPixels; ++m) {
        const int row = pixel + m * 16 + lane % 16;
        load_matrices(high[m], shared_address(&tile.pixels[stage][row * Tile::kRow + k + lane / 16 * 4]));
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if constexpr (kProducts == 1) {
            high[m][i] = nearest_tf32(high[m][i]);
          } else {
            const Split both = split(high[m][i]);
            high[m][i] = both.high;
            low[m][i] = both.low;
          }
        }
      }
#pragma unroll
      for (int n = 0; n < kTilesOfChannels; ++n) {
        const uint4 w =
            *reinterpret_cast<const uint4*>(&tile.weights[stage][k * kChannels + (channel + n * 16) * 8 + lane * 4]);
#pragma unroll
        for (int m = 0; m < kTilesOfPixels; ++m) {
          multiply_add_split<kProducts>(sum[m][n][0], high[m], low[m], split(w.x), split(w.y));
          multiply_add_split<kProducts>(sum[m][n][1], high[m], low[m], split(w.z), split(w.w));
        }
      }
    }
  }
#pragma unroll
  for (int n = 0; n < kTilesOfChannels; ++n) {
    const int c = first_channel + channel + n * 16 + lane % 4 * 4;
    if (c >= padded(p.y.c)) continue;
#pragma unroll
    for (int m = 0; m < kTilesOfPixels; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (made_y[m][half] >= p.y.h) continue;
        float four[4];
        for (int i = 0; i < 4; ++i) four[i] = sum[m][n][i / 2][half * 2 + i % 2];
        finish4<float>(p, four, bias[n], made_y[m][half], made_x[m][half], c);
      }
    }
  }
}

unsigned blocks(int count, int size) { return static_cast<unsigned>((count + size - 1) / size); }

template <int kPixels, int kChannels, int kDepth, int kProducts>
int run(const GenericConvArguments& p, const LaunchContext& context) {
  const dim3 grid(blocks(p.y.h * p.y.w, kPixels), blocks(p.y.c, kChannels), 1);
  return launch(tensor_core_f32_kernel<kPixels, kChannels, kDepth, kProducts>, grid, kThreads,
                sizeof(Stages<kPixels, kChannels, kDepth>), context, p);
}

template <int kProducts>
int of_size(const GenericConvArguments& p, const LaunchContext& context) {
  constexpr unsigned kEnoughBlocks = 160;  // that large tiles keep a GPU busy
  const bool large = p.y.c > 32 && blocks(p.y.h * p.y.w, 64) * blocks(p.y.c, 64) >= kEnoughBlocks;
  if (p.x.c <= 8) return large ? run<64, 64, 8, kProducts>(p, context) : run<32, 32, 8, kProducts>(p, context);
  // A block waits at each stage: the more channels it has, the fewer there are. None should be mostly empty.
  const bool sixty_four = p.x.c % 64 == 0 || p.x.c > 256, thirty_two = p.x.c % 32 == 0 || p.x.c > 128;
  if (large) return thirty_two ? run<64, 64, 32, kProducts>(p, context) : run<64, 64, 16, kProducts>(p, context);
  if (sixty_four) return run<32, 32, 64, kProducts>(p, context);
  return thirty_two ? run<32, 32, 32, kProducts>(p, context) : run<32, 32, 16, kProducts>(p, context);
}

}  // namespace

int tensor_core_f32(const GenericConvArguments& p, const LaunchContext& context) {
  return p.products == 1 ? of_size<1>(p, context) : of_size<3>(p, context);
}

}  // namespace camd::infer::cuda
