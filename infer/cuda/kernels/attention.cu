// Attention as one kernel.
//
// A block makes 16 queries of one head. Each of its warps takes a share of the keys, reads them and their values from
// global memory straight into registers, and keeps a running maximum, a running sum and its own sums of the values. At
// the end the warps' shares are added. No other step waits for the whole block.
//
// Which lane holds what. The tensor cores do not care in which order a product's terms are added, nor which column is
// which. So each lane reads eight neighbouring elements of a row of q or k with one load, and they serve as the terms
// that the lane is to supply in two products. Of the values it reads neighbouring columns of four keys; pairs of keys
// are put together in registers. With g = lane / 4 and t = lane % 4:
//   q, k: rows g (and g + 8), terms 8t .. 8t + 7 of each 32
//   v:    keys 2t, 2t + 1, 2t + 8, 2t + 9 of each 16, columns beginning at kColumns * place(g)
//   sums: rows g and g + 8, columns beginning at kColumns * t and at kColumns * (t + 4)
//
// Limited by: latency. A head has few queries and few keys; what it reads stays in the L2.
#include "infer/cuda/kernels/attention.hpp"

#include "infer/cuda/kernels/eight.cuh"
#include "infer/cuda/kernels/launch.cuh"
#include "infer/cuda/kernels/strided.cuh"

namespace camd::infer::cuda {
namespace {

constexpr int kQueries = kAttentionQueries;

// Where the columns of lane group g begin. A lane then gets the sums of two runs of columns.
CAMD_DEVICE int place(int g) { return (g >> 1) + 4 * (g & 1); }

CAMD_DEVICE unsigned low_halfs(unsigned a, unsigned b) { return (a & 0xFFFFU) | b << 16; }
CAMD_DEVICE unsigned high_halfs(unsigned a, unsigned b) { return a >> 16 | (b & 0xFFFF0000U); }

// To the scores of queries `query` and `query` + 8 with keys `key`, `key` + 1, and all those a multiple of 8 behind.
template <std::size_t kEights>
CAMD_DEVICE void add_bias(float (&scores)[kEights][4], const AttentionArguments& p, std::int64_t base, int query,
                          int key) {
#pragma unroll
  for (int eight = 0; eight < static_cast<int>(kEights); ++eight) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int of_query = query + (i >> 1) * 8, of_key = key + eight * 8 + (i & 1);
      if (of_query < p.queries && of_key < p.keys)
        scores[eight][i] += load(p.bias.at, base + of_query * p.bias.row + of_key * p.bias.element);
    }
  }
}

// Where a lane's part of a matrix begins.
struct Part {
  std::int64_t at;  // element of its first row and column
  int row, column;
};
CAMD_DEVICE Part part_of(const StridedMatrices& matrix, std::int64_t base, int row, int column) {
  return {base + row * matrix.row + column * matrix.element, row, column};
}
// The 2 * kWords columns that begin `columns_on` behind the part's, of the row `rows_on` below, as f16, two in a word.
// In place of a row or of columns that do not exist it reads others. kPieces: the matrix is f16, and its rows consist
// of pieces of 16 bytes.
template <bool kPieces, int kWords>
CAMD_DEVICE void load_columns(unsigned (&to)[kWords], const StridedMatrices& from, const Part& part, int rows_on,
                              int rows, int columns_on, int columns) {
  const int row = min(rows_on, rows - 1 - part.row);
  if constexpr (kPieces) {
    const int column = part.column + columns_on < columns ? columns_on : -part.column;
    const __half* const first = static_cast<const __half*>(from.at.data) + part.at + column;
    const void* const piece = first + row * static_cast<int>(from.row);
    if constexpr (kWords == 4) {
      const uint4 bits = *static_cast<const uint4*>(piece);
      to[0] = bits.x;
      to[1] = bits.y;
      to[2] = bits.z;
      to[3] = bits.w;
    } else {
      const uint2 bits = *static_cast<const uint2*>(piece);
      to[0] = bits.x;
      to[1] = bits.y;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      float pair[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int on = columns_on + i * 2 + half;
        const bool exists = part.column + on < columns;
        pair[half] = exists ? load(from.at, part.at + row * from.row + on * from.element) : 0.0F;
      }
      to[i] = pack_halfs(pair[0], pair[1]);
    }
  }
}

// kDepth and kWidth: of the heads, rounded up. kTiles: of 16 keys that a warp takes at a time.
template <int kDepth, int kWidth, int kTiles, bool kPieces>
CAMD_KERNEL(kMostAttentionWarps * 32, kWidth == 32 ? 2 : 1)
attention_kernel(CAMD_GRID_CONSTANT const AttentionArguments p, const AttentionShape s) {
  constexpr int kSteps = kDepth / 32;             // of 32 terms
  constexpr int kColumns = kWidth == 32 ? 4 : 8;  // of the values that a lane reads side by side
  constexpr int kRuns = kWidth / (8 * kColumns);  // of them
  CAMD_SHARED(memory);
  unsigned rest = blockIdx.y;
  std::int64_t q0 = 0, k0 = 0, v0 = 0, bias0 = 0, y0 = 0;
#pragma unroll 1
  for (int d = p.rank - 1; d >= 0; --d) {
    const auto size = static_cast<unsigned>(p.shape[d]);
    const unsigned index = rest % size;
    rest /= size;
    q0 += index * p.q.at.strides[d];
    k0 += index * p.k.at.strides[d];
    v0 += index * p.v.at.strides[d];
    bias0 += index * p.bias.at.strides[d];
    y0 += index * p.y.at.strides[d];
  }
  const int query0 = static_cast<int>(blockIdx.x) * kQueries;
  const int lane = lane_index(), warp = warp_index(), g = lane >> 2, t = lane & 3;
  int key0 = warp * kTiles * 16;
  const Part of_q = part_of(p.q, q0, query0 + g, t * 8);
  Part of_k = part_of(p.k, k0, key0 + g, t * 8);
  Part of_v = part_of(p.v, v0, key0 + t * 2, place(g) * kColumns);
  wait_for_previous_kernel();
  let_next_kernel_start();

  unsigned q[kSteps * 2][4];
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      unsigned row[4];
      load_columns<kPieces>(row, p.q, of_q, half * 8, p.queries, step * 32, p.depth);
      // What k has there adds nothing then.
      if (kPieces && step * 32 + t * 8 >= p.depth) row[0] = row[1] = row[2] = row[3] = 0;
      q[step * 2][half] = row[0];
      q[step * 2][half + 2] = row[1];
      q[step * 2 + 1][half] = row[2];
      q[step * 2 + 1][half + 2] = row[3];
    }
  }
  float sums[kRuns * kColumns][4] = {};
  // Of rows g and g + 8.
  float largest[2] = {-INFINITY, -INFINITY}, total[2] = {0.0F, 0.0F};
#pragma unroll 1
  for (int round = 0; round < s.rounds; ++round) {
    if (key0 >= p.keys) break;
    unsigned k[kTiles * 2][kSteps][4];
#pragma unroll
    for (int eight = 0; eight < kTiles * 2; ++eight) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
        load_columns<kPieces>(k[eight][step], p.k, of_k, eight * 8, p.keys, step * 32, p.depth);
    }
    unsigned v[kTiles][kRuns][4][kColumns / 2];
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int on = tile * 16 + (i >> 1) * 8 + (i & 1);
#pragma unroll
        for (int run = 0; run < kRuns; ++run)
          load_columns<kPieces>(v[tile][run][i], p.v, of_v, on, p.keys, run * 8 * kColumns, p.width);
      }
    }
    float scores[kTiles * 2][4] = {};
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int eight = 0; eight < kTiles * 2; ++eight)
          multiply_add(scores[eight], q[step * 2 + half], k[eight][step][half * 2], k[eight][step][half * 2 + 1]);
      }
    }
#pragma unroll
    for (auto& of_eight : scores) {
#pragma unroll
      for (float& score : of_eight) score *= p.scale;
    }
    if (p.bias.at.data != nullptr) add_bias(scores, p, bias0, query0 + g, key0 + t * 2);
#pragma unroll
    for (int eight = 0; eight < kTiles * 2; ++eight) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (key0 + eight * 8 + t * 2 + (i & 1) >= p.keys) scores[eight][i] = -INFINITY;
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = largest[half];
#pragma unroll
      for (const auto& of_eight : scores) most = fmaxf(most, fmaxf(of_eight[half * 2], of_eight[half * 2 + 1]));
      most = fmaxf(most, exchange_lanes(most, 1));
      most = fmaxf(most, exchange_lanes(most, 2));
      const float base = most == -INFINITY ? 0.0F : most;  // every key so far is masked
      const float shrink = quick_exp(largest[half] - base);
      largest[half] = most;
      float sum = 0.0F;
#pragma unroll
      for (auto& of_eight : scores) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& score = of_eight[half * 2 + i];
          score = quick_exp(score - base);
          sum += score;
        }
      }
      total[half] = total[half] * shrink + sum;  // of this lane's keys
#pragma unroll
      for (auto& of_column : sums) {
        of_column[half * 2] *= shrink;
        of_column[half * 2 + 1] *= shrink;
      }
    }
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      unsigned probabilities[4];
#pragma unroll
      for (int eight = 0; eight < 2; ++eight) {
        const float(&own)[4] = scores[tile * 2 + eight];
        probabilities[eight * 2] = pack_halfs(own[0], own[1]);
        probabilities[eight * 2 + 1] = pack_halfs(own[2], own[3]);
      }
#pragma unroll
      for (int run = 0; run < kRuns; ++run) {
        const auto& rows = v[tile][run];
#pragma unroll
        for (int pair = 0; pair < kColumns / 2; ++pair) {
          multiply_add(sums[run * kColumns + pair * 2], probabilities, low_halfs(rows[0][pair], rows[1][pair]),
                       low_halfs(rows[2][pair], rows[3][pair]));
          multiply_add(sums[run * kColumns + pair * 2 + 1], probabilities, high_halfs(rows[0][pair], rows[1][pair]),
                       high_halfs(rows[2][pair], rows[3][pair]));
        }
      }
    }
    const int keys_at_once = s.warps * kTiles * 16;
    key0 += keys_at_once;
    of_k.at += keys_at_once * p.k.row;
    of_k.row += keys_at_once;
    of_v.at += keys_at_once * p.v.row;
    of_v.row += keys_at_once;
  }

  // The warps' shares, [warp][query][share_row]; behind them the largest score and the sum of each row.
  auto* const shares = reinterpret_cast<float*>(memory);
  auto* const said = reinterpret_cast<float2*>(shares + s.warps * kQueries * s.share_row);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = warp * kQueries + g + half * 8;
    float* const share = shares + row * s.share_row + t * kColumns;
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
#pragma unroll
        for (int four = 0; four < kColumns; four += 4) {
          const auto sum = [&](int i) { return sums[run * kColumns + four + i][half * 2 + odd]; };
          *reinterpret_cast<float4*>(share + (run * 8 + odd * 4) * kColumns + four) =
              make_float4(sum(0), sum(1), sum(2), sum(3));
        }
      }
    }
    total[half] += exchange_lanes(total[half], 1);
    total[half] += exchange_lanes(total[half], 2);
    if (t == 0) said[row] = make_float2(largest[half], total[half]);
  }
  block_sync();
  constexpr int kEights = kWidth / 8;
  const bool along = p.y.element <= p.y.row;
  const bool by_eights = kPieces && p.y.element == 1;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < kQueries * kEights; i += static_cast<int>(blockDim.x)) {
    const int query = along ? i / kEights : i % kQueries;
    const int column = (along ? i % kEights : i / kQueries) * 8;
    // Without branches, so that all is on its way together.
    const auto row_of = [&](int w) { return (w < s.warps ? w : 0) * kQueries + query; };
    float weights[kMostAttentionWarps], most = -INFINITY, all = 0.0F, result[8] = {};
#pragma unroll
    for (int w = 0; w < kMostAttentionWarps; ++w) {
      weights[w] = w < s.warps ? said[row_of(w)].x : -INFINITY;
      most = fmaxf(most, weights[w]);
    }
#pragma unroll
    for (int w = 0; w < kMostAttentionWarps; ++w) {
      weights[w] = weights[w] == -INFINITY ? 0.0F : quick_exp(weights[w] - most);
      all = fmaf(weights[w], said[row_of(w)].y, all);
    }
#pragma unroll
    for (int w = 0; w < kMostAttentionWarps; ++w) {
      float share[8];
      load_eight(share, shares + row_of(w) * s.share_row + column);
#pragma unroll
      for (int c = 0; c < 8; ++c) result[c] = fmaf(weights[w], share[c], result[c]);
    }
    const float factor = quick_reciprocal(all);
#pragma unroll
    for (float& value : result) value *= factor;
    if (query0 + query >= p.queries || column >= p.width) continue;
    const std::int64_t at = y0 + (query0 + query) * p.y.row + column * p.y.element;
    if (by_eights) {
      store_eight(p.y.at, at, result);
    } else {
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        if (column + c < p.width) store(p.y.at, at + c * p.y.element, result[c]);
      }
    }
  }
}

constexpr std::int64_t kFarthestRow = 1 << 20;  // offsets in a warp's keys are 32 bits

bool in_pieces(const StridedMatrices& m, int rank, int columns) {
  bool pieces = m.element == 1 && columns % 8 == 0 && m.row % 8 == 0 && m.row < kFarthestRow &&
                reinterpret_cast<std::uintptr_t>(m.at.data) % 16 == 0;
  for (int d = 0; d < rank; ++d) pieces = pieces && m.at.strides[d] % 8 == 0;
  return pieces;
}

template <int kDepth, int kWidth, int kTiles>
int run(const AttentionArguments& p, const AttentionShape& shape, const LaunchContext& context) {
  const auto halfs_in_pieces = [&](const StridedMatrices& m, int columns) {
    return m.at.type == DataType::kF16 && in_pieces(m, p.rank, columns);
  };
  const bool pieces = halfs_in_pieces(p.q, p.depth) && halfs_in_pieces(p.k, p.depth) && halfs_in_pieces(p.v, p.width) &&
                      (p.y.element != 1 || in_pieces(p.y, p.rank, p.width));
  const dim3 grid(static_cast<unsigned>((p.queries + kQueries - 1) / kQueries),
                  static_cast<unsigned>(count_of(p.shape, p.rank)), 1);
  return launch(
      pieces ? attention_kernel<kDepth, kWidth, kTiles, true> : attention_kernel<kDepth, kWidth, kTiles, false>, grid,
      shape.warps * 32, shape.bytes(), context, p, shape);
}

}  // namespace

int attention(const AttentionArguments& p, const LaunchContext& context) {
  const AttentionShape shape = attention_shape(p.depth, p.width, p.keys);
  if (shape.width == 32) return run<32, 32, 4>(p, shape, context);
  if (shape.width == 64 && p.depth <= 32) return run<32, 64, 4>(p, shape, context);
  if (shape.width == 64) return run<64, 64, 4>(p, shape, context);
  return run<128, 128, 1>(p, shape, context);
}

}  // namespace camd::infer::cuda
