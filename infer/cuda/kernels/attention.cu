// Attention as one kernel.
//
// A block makes 16 queries of one head. It walks over the keys in a few rounds; in each a warp takes 16 of them. A warp
// keeps a running maximum, a running sum and its own sums of the values. At the end the warps' shares are added.
//
// Limited by: latency. A head has few queries and few keys; what it reads stays in the L2.
#include "infer/cuda/kernels/attention.hpp"

#include "infer/cuda/kernels/launch.cuh"
#include "infer/cuda/kernels/strided.cuh"

namespace camd::infer::cuda {
namespace {

constexpr int kQueries = kAttentionQueries;

// How a matrix reaches shared memory.
enum class Way : int {
  kPieces,  // f16, 16 bytes at a time
  kAlong,   // one element after the other, along rows
  kAcross,  // one element after the other, along columns
};
struct Ways {
  Way q, k, v;
};

// Rows of a matrix of f16 as 16-byte pieces: which of them a thread copies.
struct Pieces {
  const __half* from = nullptr;  // of the matrix's first row
  int row = 0, rows_at_once = 0;
  int row_stride = 0;      // elements
  int to = 0, to_row = 0;  // bytes
  bool inside = false;     // the piece has columns that exist
};
CAMD_DEVICE Pieces pieces_of(const StridedMatrices& matrix, std::int64_t base, int row_bytes, const Divider& by_pieces,
                             int columns) {
  const int thread = static_cast<int>(threadIdx.x), pieces = (row_bytes - 16) / 16;
  Pieces own;
  own.row = divide(thread, by_pieces);
  own.rows_at_once = divide(static_cast<int>(blockDim.x), by_pieces);
  const int piece = thread - own.row * pieces;
  own.row_stride = static_cast<int>(matrix.row);
  own.from = static_cast<const __half*>(matrix.at.data) + base + piece * 8;
  own.to = own.row * row_bytes + piece * 16;
  own.to_row = row_bytes;
  own.inside = piece * 8 < columns;
  if (own.row >= own.rows_at_once) own.row = 1 << 20;  // threads left over copy none
  return own;
}

// Rows [first, first + rows) of a matrix that has `all` rows, as f16. What is missing is zero, up to a multiple of 16
// columns.
CAMD_DEVICE void stage_pieces(unsigned char* to, const Pieces& own, int first, int rows, int all) {
  const __half* from = own.from + static_cast<std::int64_t>(first + own.row) * own.row_stride;
  unsigned char* target = to + own.to;
#pragma unroll 2
  for (int row = own.row; row < rows; row += own.rows_at_once) {
    copy16_async(target, from, first + row < all && own.inside);
    from += own.rows_at_once * own.row_stride;
    target += own.rows_at_once * own.to_row;
  }
}
CAMD_DEVICE_CALL void stage_elements(unsigned char* to, int row_bytes, const StridedMatrices& from, std::int64_t base,
                                     Way way, int first, int rows, int all, int columns) {
  const int padded = (row_bytes - 16) / 2;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < rows * padded; i += static_cast<int>(blockDim.x)) {
    const int row = way == Way::kAlong ? i / padded : i % rows;
    const int column = way == Way::kAlong ? i - row * padded : i / rows;
    const bool inside = first + row < all && column < columns;
    const float value = inside ? load(from.at, base + (first + row) * from.row + column * from.element) : 0.0F;
    *reinterpret_cast<__half*>(to + row * row_bytes + column * 2) = __float2half_rn(value);
  }
}
CAMD_DEVICE_CALL float load_bias(const StridedMatrices& bias, std::int64_t base, int query, int key) {
  return load(bias.at, base + query * bias.row + key * bias.element);
}

// kDepth and kWidth: steps of 16 elements for which there are registers.
template <int kDepth, int kWidth>
CAMD_KERNEL(most_attention_warps(kDepth * 16, kWidth * 16) * 32, 1)
attention_kernel(CAMD_GRID_CONSTANT const AttentionArguments p, const AttentionMemory s, const Ways ways) {
  CAMD_SHARED(memory);
  unsigned char* const halves = memory + s.query_bytes;
  const int half_bytes = s.key_bytes + s.value_bytes;
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
  const Pieces key_pieces = pieces_of(p.k, k0, s.depth_row, s.by_depth, p.depth);
  const Pieces value_pieces = pieces_of(p.v, v0, s.width_row, s.by_width, p.width);
  const Pieces query_pieces = pieces_of(p.q, q0, s.depth_row, s.by_depth, p.depth);
  wait_for_previous_kernel();
  let_next_kernel_start();
  const auto fetch = [&](int chunk) {
    unsigned char* const keys = halves + (chunk & 1) * half_bytes;
    const int first = chunk * s.keys();
    if (ways.k == Way::kPieces)
      stage_pieces(keys, key_pieces, first, s.keys(), p.keys);
    else
      stage_elements(keys, s.depth_row, p.k, k0, ways.k, first, s.keys(), p.keys, p.depth);
    if (ways.v == Way::kPieces)
      stage_pieces(keys + s.key_bytes, value_pieces, first, s.keys(), p.keys);
    else
      stage_elements(keys + s.key_bytes, s.width_row, p.v, v0, ways.v, first, s.keys(), p.keys, p.width);
  };
  if (ways.q == Way::kPieces)
    stage_pieces(memory, query_pieces, query0, kQueries, p.queries);
  else
    stage_elements(memory, s.depth_row, p.q, q0, ways.q, query0, kQueries, p.queries, p.depth);
  fetch(0);
  copy_commit();

  const int lane = lane_index(), warp = warp_index();
  const int depth_steps = (p.depth + 15) / 16, width_steps = (p.width + 15) / 16;
  unsigned q[kDepth][4];
  float sums[2 * kWidth][4] = {};
  // Of rows lane / 4 and lane / 4 + 8.
  float largest[2] = {-INFINITY, -INFINITY}, total[2] = {0.0F, 0.0F};
#pragma unroll 1
  for (int chunk = 0; chunk < s.rounds; ++chunk) {
    if (chunk + 1 < s.rounds) fetch(chunk + 1);
    copy_commit();
    copy_wait_but<1>();
    block_sync();
    if (chunk == 0) {
#pragma unroll
      for (int i = 0; i < kDepth; ++i) {
        if (i < depth_steps)
          load_matrices(q[i], shared_address(memory) + (lane & 15) * s.depth_row + i * 32 + (lane >> 4) * 16);
      }
    }
    const int key0 = chunk * s.keys() + warp * 16;
    if (key0 < p.keys) {
      const unsigned char* const keys = halves + (chunk & 1) * half_bytes + warp * 16 * s.depth_row;
      const unsigned char* const values = halves + (chunk & 1) * half_bytes + s.key_bytes + warp * 16 * s.width_row;
      float scores[2][4] = {};
      const SharedAddress key_row =
          shared_address(keys) + ((lane >> 4) * 8 + (lane & 7)) * s.depth_row + ((lane >> 3) & 1) * 16;
#pragma unroll
      for (int i = 0; i < kDepth; ++i) {
        if (i >= depth_steps) continue;
        unsigned k[4];
        load_matrices(k, key_row + i * 32);
        multiply_add(scores[0], q[i], k[0], k[1]);
        multiply_add(scores[1], q[i], k[2], k[3]);
      }
      unsigned probabilities[4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int query = query0 + (lane >> 2) + half * 8;
        float own[4], most = largest[half];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int key = key0 + (i >> 1) * 8 + (lane & 3) * 2 + (i & 1);
          own[i] = scores[i >> 1][half * 2 + (i & 1)] * p.scale;
          if (p.bias.at.data != nullptr && key < p.keys && query < p.queries)
            own[i] += load_bias(p.bias, bias0, query, key);
          if (key >= p.keys) own[i] = -INFINITY;
          most = fmaxf(most, own[i]);
        }
        most = fmaxf(most, exchange_lanes(most, 1));
        most = fmaxf(most, exchange_lanes(most, 2));
        const float base = most == -INFINITY ? 0.0F : most;  // every key so far is masked
        const float shrink = __expf(largest[half] - base);
        largest[half] = most;
        float sum = 0.0F;
#pragma unroll
        for (float& value : own) {
          value = __expf(value - base);
          sum += value;
        }
        sum += exchange_lanes(sum, 1);
        sum += exchange_lanes(sum, 2);
        total[half] = total[half] * shrink + sum;
#pragma unroll
        for (float(&of_columns)[4] : sums) {
          of_columns[half * 2] *= shrink;
          of_columns[half * 2 + 1] *= shrink;
        }
        probabilities[half] = pack_halfs(own[0], own[1]);
        probabilities[2 + half] = pack_halfs(own[2], own[3]);
      }
      const SharedAddress value_row =
          shared_address(values) + (((lane >> 3) & 1) * 8 + (lane & 7)) * s.width_row + (lane >> 4) * 16;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        if (i >= width_steps) continue;
        unsigned v[4];
        load_matrices_transposed(v, value_row + i * 32);
        multiply_add(sums[2 * i], probabilities, v[0], v[1]);
        multiply_add(sums[2 * i + 1], probabilities, v[2], v[3]);
      }
    }
    block_sync();  // the half just read is filled in the next round
  }

  // The warps' shares, [warp][query][share_row].
  auto* const shares = reinterpret_cast<float*>(halves);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float* const row = shares + (warp * kQueries + (lane >> 2) + half * 8) * s.share_row;
#pragma unroll
    for (int i = 0; i < 2 * kWidth; ++i) {
      if (i >= 2 * width_steps) continue;
      row[i * 8 + (lane & 3) * 2] = sums[i][half * 2];
      row[i * 8 + (lane & 3) * 2 + 1] = sums[i][half * 2 + 1];
    }
    if ((lane & 3) == 0) {
      row[width_steps * 16] = largest[half];
      row[width_steps * 16 + 1] = total[half];
    }
  }
  block_sync();
  const int next_warp = kQueries * s.share_row;
  // What each warp's share of a query counts, in place of its maximum. A lane takes one share of a query.
  for (int query = static_cast<int>(threadIdx.x) / 16; query < kQueries; query += static_cast<int>(blockDim.x) / 16) {
    const int share = lane & 15;
    float* const row = shares + share * next_warp + query * s.share_row + width_steps * 16;
    const float own = share < s.warps ? row[0] : -INFINITY;
    float most = own;
#pragma unroll
    for (int mask = 1; mask < 16; mask *= 2) most = fmaxf(most, exchange_lanes(most, mask));
    const float weight = own == -INFINITY ? 0.0F : __expf(own - most);
    float all = share < s.warps ? weight * row[1] : 0.0F;
#pragma unroll
    for (int mask = 1; mask < 16; mask *= 2) all += exchange_lanes(all, mask);
    if (share < s.warps) row[0] = weight / all;
  }
  block_sync();
  const bool along = p.y.element <= p.y.row;
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x); i < kQueries * p.width; i += static_cast<int>(blockDim.x)) {
    const int query = along ? divide(i, s.by_columns) : i % kQueries;
    const int column = along ? i - query * p.width : i / kQueries;
    if (query0 + query >= p.queries) continue;
    const float* const row = shares + query * s.share_row;
    float sum = 0.0F;
#pragma unroll 4
    for (int w = 0; w < s.warps; ++w)
      sum = fmaf(row[w * next_warp + width_steps * 16], row[w * next_warp + column], sum);
    store(p.y.at, y0 + (query0 + query) * p.y.row + column * p.y.element, sum);
  }
}

constexpr std::int64_t kFarthestRow = 1 << 20;  // offsets in a block are 32 bits

Way way_of(const StridedMatrices& m, int rank, int columns) {
  bool pieces = m.at.type == DataType::kF16 && m.element == 1 && columns % 8 == 0 && m.row % 8 == 0 &&
                m.row < kFarthestRow && reinterpret_cast<std::uintptr_t>(m.at.data) % 16 == 0;
  for (int d = 0; d < rank; ++d) pieces = pieces && m.at.strides[d] % 8 == 0;
  if (pieces) return Way::kPieces;
  return m.element <= m.row ? Way::kAlong : Way::kAcross;
}

template <int kDepth, int kWidth>
int run(const AttentionArguments& p, const LaunchContext& context) {
  const std::int64_t batch = count_of(p.shape, p.rank), tiles = (p.queries + kQueries - 1) / kQueries;
  const AttentionMemory memory = attention_memory(p.depth, p.width, p.keys, batch * tiles);
  const Ways ways{way_of(p.q, p.rank, p.depth), way_of(p.k, p.rank, p.depth), way_of(p.v, p.rank, p.width)};
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(batch), 1);
  return launch(attention_kernel<kDepth, kWidth>, grid, memory.warps * 32, memory.total(), context, p, memory, ways);
}

}  // namespace

int attention(const AttentionArguments& p, const LaunchContext& context) {
  if (p.depth <= 32 && p.width <= 32) return run<2, 2>(p, context);
  if (p.depth <= 32 && p.width <= 64) return run<2, 4>(p, context);
  if (p.depth <= 64 && p.width <= 64) return run<4, 4>(p, context);
  return run<8, 8>(p, context);
}

}  // namespace camd::infer::cuda
