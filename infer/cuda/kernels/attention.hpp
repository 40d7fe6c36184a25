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

#include "infer/cuda/kernels/divider.hpp"
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

inline constexpr int kAttentionQueries = 16;     // of a block
inline constexpr int kFewestAttentionWarps = 4;  // which fetch and write together
// Most warps of a block. Those of wide heads need many registers.
[[nodiscard]] constexpr int most_attention_warps(int depth, int width) { return depth <= 64 && width <= 64 ? 16 : 8; }
inline constexpr int kAttentionWarps = 8;  // at most, where blocks of more would not all run at once
inline constexpr int kMostAttentionWarpsAtOnce = 132 * 16;

// Shared memory of a block, in bytes. A row ends with 16 bytes more than it needs: no bank conflicts.
struct AttentionMemory {
  int warps;                 // each takes 16 keys at a time
  int rounds;                // of the block's warps over all keys
  int depth_row, width_row;  // bytes of a row of q and k, and of v
  int query_bytes;
  int key_bytes, value_bytes;
  Divider by_depth, by_width;  // pieces of 16 bytes in a row
  Divider by_columns;          // of the result
  int share_row, share_bytes;  // floats of a row of a warp's share of the result, and its bytes for all warps
  [[nodiscard]] constexpr int keys() const { return warps * 16; }  // that the block holds at a time
  [[nodiscard]] constexpr std::size_t total() const {
    const int halves = rounds > 1 ? 2 : 1;  // one half is filled while the other is read
    const int loop = halves * (key_bytes + value_bytes);
    return static_cast<std::size_t>(query_bytes) + static_cast<std::size_t>(loop > share_bytes ? loop : share_bytes);
  }
};
// `blocks`: all of the kernel.
[[nodiscard]] constexpr AttentionMemory attention_memory(int depth, int width, int keys, std::int64_t blocks) {
  AttentionMemory m{};
  // As few rounds as can be, and in each as many warps as have something to do.
  const int tiles = (keys + 15) / 16;
  for (const int most : {most_attention_warps(depth, width), kAttentionWarps}) {
    m.rounds = (tiles + most - 1) / most;
    m.warps = (tiles + m.rounds - 1) / m.rounds;
    if (m.warps < kFewestAttentionWarps) m.warps = kFewestAttentionWarps;
    if (blocks * m.warps <= kMostAttentionWarpsAtOnce) break;
  }
  m.depth_row = (depth + 15) / 16 * 32 + 16;
  m.width_row = (width + 15) / 16 * 32 + 16;
  m.by_depth = make_divider((depth + 15) / 16 * 2);
  m.by_width = make_divider((width + 15) / 16 * 2);
  m.by_columns = make_divider(width);
  m.query_bytes = kAttentionQueries * m.depth_row;
  m.key_bytes = m.keys() * m.depth_row;
  m.value_bytes = m.keys() * m.width_row;
  m.share_row = (width + 15) / 16 * 16 + 2;  // behind the sums: the maximum, the sum of the probabilities
  m.share_bytes = m.warps * kAttentionQueries * m.share_row * 4;
  return m;
}

}  // namespace camd::infer::cuda
