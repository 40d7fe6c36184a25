// attention(): softmax(q k^T scale + bias) v as one kernel, on the tensor cores. No CUDA header is needed to include
// this one.
//
// Source: Vaswani et al., "Attention Is All You Need" (2017), 3.2.1; with the running maximum of Milakov and
// Gimelshein, "Online normalizer calculation for softmax" (2018).
//
// Threads: as infer/cuda/kernels/launch.hpp says.
#pragma once

#include <cstddef>
#include <cstdint>

#include "infer/cuda/kernels/generic_tensor.hpp"
#include "infer/cuda/kernels/launch.hpp"

namespace camd::infer::cuda {

// Matrices of any layout, one for each index of the batch. `at.strides` are those of the batch's dimensions.
struct StridedMatrices {
  Strided at;
  std::int64_t row = 0, element = 0;  // distances between neighbours, in elements
};

// Products take f16 and sum in f32. The scores, their maximum and their sum are f32; the probabilities are rounded to
// f16 where they are multiplied.
struct AttentionArguments {
  StridedMatrices q;     // [.., queries, depth]
  StridedMatrices k;     // [.., keys, depth]
  StridedMatrices v;     // [.., keys, width]
  StridedMatrices bias;  // [.., queries, keys], added to the scores; its data may be null
  StridedMatrices y;     // [.., queries, width]
  int rank = 0;          // of the batch
  std::int64_t shape[kMaxRank] = {};
  int queries = 0, keys = 0;
  int depth = 0, width = 0;  // at most kMostAttentionDepth
  float scale = 1.0F;
};
inline constexpr int kMostAttentionDepth = 128;
int attention(const AttentionArguments& arguments, const LaunchContext& context);

inline constexpr int kAttentionQueries = 16;  // of a block
inline constexpr int kMostAttentionWarps = 8;

// How the kernel divides the keys: each warp takes 16 * `tiles` of them at a time, `rounds` times.
struct AttentionShape {
  int width = 0;  // rounded up to what the kernel is made for
  int tiles = 0;
  int warps = 0;  // of a block
  int rounds = 0;
  int share_row = 0;  // floats of a row of a warp's share of the result
  // Of shared memory: the shares, and of each row of them the largest score and the sum.
  [[nodiscard]] constexpr std::size_t bytes() const {
    return static_cast<std::size_t>(warps) * kAttentionQueries * static_cast<std::size_t>(share_row + 2) * 4;
  }
};
[[nodiscard]] constexpr AttentionShape attention_shape(int depth, int width, int keys) {
  AttentionShape s;
  const int wider = depth > width ? depth : width;
  s.width = wider <= 32 ? 32 : wider <= 64 ? 64 : 128;
  s.tiles = wider <= 64 ? 4 : 1;  // as many as there are registers for
  const int tiles = (keys + 15) / 16, at_once = kMostAttentionWarps * s.tiles;
  s.rounds = (tiles + at_once - 1) / at_once;
  s.warps = (tiles + s.rounds * s.tiles - 1) / (s.rounds * s.tiles);
  // Rows side by side begin in other banks, so that the warps write them without conflicts.
  s.share_row = s.width + (s.width == 32 ? 16 : 4);
  return s;
}

}  // namespace camd::infer::cuda
