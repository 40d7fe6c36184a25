// The first convolution of a network. A block makes 8 x 32 pixels from a tile of the picture (stem_tile.cuh).
#include "infer/cuda/kernels/stem.hpp"

#include "infer/cuda/kernels/activation.cuh"
#include "infer/cuda/kernels/stem_block.hpp"
#include "infer/cuda/kernels/stem_tile.cuh"

namespace camd::infer::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTy = 8;
constexpr int kTx = 32;
using Tile = StemTile<kTy * 2 + 1, kTx * 2 + 1>;
constexpr std::size_t kBytes = Tile::kBytes + stem_picture_bytes(kTy * 2 + 1, kTx * 2 + 1);

template <Source kSource>
CAMD_KERNEL(kThreads, 2)
stem_kernel(const StemArguments p, const BiplanarColors colors) {
  CAMD_SHARED(memory);
  wait_for_previous_kernel();
  let_next_kernel_start();

  const int tiles_x = (p.y.w + kTx - 1) / kTx;
  const int y0 = (static_cast<int>(blockIdx.x) / tiles_x) * kTy;
  const int x0 = (static_cast<int>(blockIdx.x) % tiles_x) * kTx;
  Tile::fetch<kSource>(p, colors, y0 * 2 - p.pad_top, x0 * 2 - p.pad_left, memory, memory + Tile::kBytes,
                       static_cast<int>(threadIdx.x), kThreads);
  block_sync();

  // A warp makes one row of 32 pixels, as two left matrices of 16.
  const int g = lane_index() >> 2;
  const int t = lane_index() & 3;
  const int ty = warp_index();
  const int oy = y0 + ty;
  if (oy >= p.y.h) return;
  const Bounds bounds = bounds_of(p.activation);
  const int blocks = (p.y.c + 7) / 8;
#pragma unroll
  for (int m = 0; m < 2; ++m) {
    StemWindows windows;
    const int first = ty * 2 * Tile::kRowWords + (m * 16 + g) * 3;
    load_windows<Tile>(windows, memory, first, first + 8 * 3);
    for (int n8 = 0; n8 < blocks; ++n8) {
      StemWeights weights;
      load_weights(p, n8, weights);
      float sums[4];
      stem_product(weights, windows, sums);
      activate_all<true>(p.activation, bounds, sums);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int ox = x0 + m * 16 + g + half * 8;
        if (ox >= p.y.w) continue;
        auto* const to = static_cast<__half*>(p.y.data) + (static_cast<std::ptrdiff_t>(oy) * p.y.w + ox) * p.y.pitch +
                         n8 * 8 + t * 2;
        *reinterpret_cast<unsigned*>(to) = pack_halfs(sums[half * 2], sums[half * 2 + 1]);
      }
    }
  }
}

}  // namespace

int stem(const StemArguments& p, const LaunchContext& context) {
  if (p.block.depthwise != nullptr) return stem_block(p, context);
  const int tiles = ((p.y.w + kTx - 1) / kTx) * ((p.y.h + kTy - 1) / kTy);
  const dim3 grid(static_cast<unsigned>(tiles), 1, 1);
  return with_source(p, [&]<Source kSource>() {
    return launch(stem_kernel<kSource>, grid, kThreads, kBytes, context, p, biplanar_colors(p.plan));
  });
}

}  // namespace camd::infer::cuda
