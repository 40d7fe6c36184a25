// Kernels on tensors of any rank, layout and type, mostly one thread for each output element.
#include "infer/cuda/kernels/generic_tensor.hpp"

#include "infer/cuda/kernels/activation.cuh"
#include "infer/cuda/kernels/launch.cuh"
#include "infer/cuda/kernels/strided.cuh"

namespace camd::infer::cuda {
namespace {

constexpr int kThreads = kStridedThreads;

template <int kLanes>
CAMD_DEVICE float over_lanes(float v, bool largest) {
#pragma unroll
  for (int mask = kLanes / 2; mask > 0; mask /= 2) {
    const float other = exchange_lanes(v, mask);
    v = largest ? fmaxf(v, other) : v + other;
  }
  return v;
}

// kLanes threads, 1 or a warp, share a line.
template <int kLanes>
CAMD_KERNEL(kThreads, 1)
softmax_kernel(const SoftmaxArguments p) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kThreads + static_cast<std::int64_t>(threadIdx.x);
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  std::int64_t rest = thread / kLanes, x = 0, y = 0;
  for (int d = kMaxRank - 1; d >= 0; --d) {
    if (d >= p.rank) continue;
    const std::int64_t index = rest % p.shape[d];
    rest /= p.shape[d];
    x += index * p.x.strides[d];
    y += index * p.y.strides[d];
  }
  // Of a line's elements a thread holds the first few; it reads the others again and again.
  constexpr int kHeld = 4;
  const auto held_count = static_cast<int>(p.count < kHeld * kLanes ? p.count : kHeld * kLanes);
  float weights[kHeld] = {};
  if (p.weights != nullptr) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) weights[k] = lane + k * kLanes < held_count ? p.weights[lane + k * kLanes] : 0.0F;
  }
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (rest != 0) return;  // the same for a whole warp, where it shares a line
  float held[kHeld];
#pragma unroll
  for (int k = 0; k < kHeld; ++k)
    held[k] = lane + k * kLanes < held_count ? load(p.x, x + (lane + k * kLanes) * p.x_step) : -INFINITY;
  const std::int64_t rest_of_line = lane + kHeld * kLanes;
  float largest = -INFINITY;
#pragma unroll
  for (int k = 0; k < kHeld; ++k) largest = fmaxf(largest, held[k]);
  for (std::int64_t j = rest_of_line; j < p.count; j += kLanes) largest = fmaxf(largest, load(p.x, x + j * p.x_step));
  largest = over_lanes<kLanes>(largest, true);
  float sum = 0.0F, weighted = 0.0F;
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    if (lane + k * kLanes >= held_count) continue;
    const float v = expf(held[k] - largest);
    sum += v;
    weighted = fmaf(v, weights[k], weighted);
  }
  for (std::int64_t j = rest_of_line; j < p.count; j += kLanes) {
    const float v = expf(load(p.x, x + j * p.x_step) - largest);
    sum += v;
    if (p.weights != nullptr) weighted = fmaf(v, p.weights[j], weighted);
  }
  sum = over_lanes<kLanes>(sum, false);
  if (p.weights != nullptr) {
    weighted = over_lanes<kLanes>(weighted, false);
    if (lane == 0) store(p.y, y, weighted / sum + (p.bias != nullptr ? p.bias[0] : 0.0F));
    return;
  }
  const float log_sum = logf(sum);
  const auto finish = [&](std::int64_t j, float element) {
    const float v = element - largest;
    store(p.y, y + j * p.y_step, p.log ? v - log_sum : expf(v) / sum);
  };
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    if (lane + k * kLanes < held_count) finish(lane + k * kLanes, held[k]);
  }
  for (std::int64_t j = rest_of_line; j < p.count; j += kLanes) finish(j, load(p.x, x + j * p.x_step));
}

CAMD_DEVICE float start_of(Reduce::Kind kind) {
  if (kind == Reduce::Kind::kMax) return -INFINITY;
  if (kind == Reduce::Kind::kMin) return INFINITY;
  return kind == Reduce::Kind::kProduct ? 1.0F : 0.0F;
}
CAMD_DEVICE float fold(Reduce::Kind kind, float sum, float v, float largest) {
  switch (kind) {
    case Reduce::Kind::kMean:
    case Reduce::Kind::kSum: return sum + v;
    case Reduce::Kind::kMax: return fmaxf(sum, v);
    case Reduce::Kind::kMin: return fminf(sum, v);
    case Reduce::Kind::kProduct: return sum * v;
    case Reduce::Kind::kL1: return sum + fabsf(v);
    case Reduce::Kind::kL2:
    case Reduce::Kind::kSumSquare: return fmaf(v, v, sum);
    case Reduce::Kind::kLogSumExp: return sum + expf(v - largest);
  }
  return sum;
}
// Two partial results of fold().
CAMD_DEVICE float join(Reduce::Kind kind, float a, float b) {
  if (kind == Reduce::Kind::kMax) return fmaxf(a, b);
  if (kind == Reduce::Kind::kMin) return fminf(a, b);
  return kind == Reduce::Kind::kProduct ? a * b : a + b;
}

// What is done with the result of all fold()s.
CAMD_DEVICE float finished(Reduce::Kind kind, float result, std::int64_t count, float largest) {
  if (kind == Reduce::Kind::kMean) return result / static_cast<float>(count);
  if (kind == Reduce::Kind::kL2) return sqrtf(result);
  return kind == Reduce::Kind::kLogSumExp ? logf(result) + largest : result;
}

constexpr int kReduceThreads = 128;

// One block for each output element: its threads take every 128th input and add their sums in shared memory.
CAMD_KERNEL(kReduceThreads, 1) reduce_kernel(const ReduceArguments p) {
  CAMD_SHARED(memory);
  auto* const partial = reinterpret_cast<float*>(memory);
  const int thread = static_cast<int>(threadIdx.x);
  std::int64_t rest = static_cast<std::int64_t>(blockIdx.x);
  std::int64_t from = 0, to = 0, count = 1;
  for (int d = kMaxRank - 1; d >= 0; --d) {
    if (d >= p.rank) continue;
    const std::int64_t index = rest % p.shape[d];
    rest /= p.shape[d];
    from += p.count[d] > 1 ? 0 : index * p.x.strides[d];
    to += index * p.y.strides[d];
    count *= p.count[d];
  }
  wait_for_previous_kernel();
  let_next_kernel_start();
  const auto element = [&](std::int64_t i) {
    std::int64_t position = from;
    for (int d = kMaxRank - 1; d >= 0; --d) {
      if (d >= p.rank) continue;
      position += i % p.count[d] * p.x.strides[d];
      i /= p.count[d];
    }
    return load(p.x, position);
  };
  const auto over_block = [&](Reduce::Kind kind, float mine) {
    partial[thread] = mine;
    block_sync();
    for (int half = kReduceThreads / 2; half > 0; half /= 2) {
      if (thread < half) partial[thread] = join(kind, partial[thread], partial[thread + half]);
      block_sync();
    }
    const float result = partial[0];
    block_sync();
    return result;
  };
  float largest = 0.0F;
  if (p.kind == Reduce::Kind::kLogSumExp) {
    float mine = -INFINITY;
    for (std::int64_t i = thread; i < count; i += kReduceThreads) mine = fmaxf(mine, element(i));
    largest = over_block(Reduce::Kind::kMax, mine);
  }
  float sum = start_of(p.kind);
  for (std::int64_t i = thread; i < count; i += kReduceThreads) sum = fold(p.kind, sum, element(i), largest);
  const float result = over_block(p.kind, sum);
  if (thread == 0) store(p.y, to, finished(p.kind, result, count, largest));
}

// Short lines: a warp for each output element, along one dimension.
CAMD_KERNEL(kThreads, 1)
reduce_line_kernel(const ReduceArguments p, const std::int64_t count, const std::int64_t step) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  std::int64_t rest =
      static_cast<std::int64_t>(blockIdx.x) * (kThreads / 32) + static_cast<std::int64_t>(threadIdx.x) / 32;
  std::int64_t from = 0, to = 0;
  for (int d = kMaxRank - 1; d >= 0; --d) {
    if (d >= p.rank) continue;
    const std::int64_t index = rest % p.shape[d];
    rest /= p.shape[d];
    from += p.count[d] > 1 ? 0 : index * p.x.strides[d];
    to += index * p.y.strides[d];
  }
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (rest != 0) return;  // a whole warp
  const auto over_warp = [](Reduce::Kind kind, float v) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) v = join(kind, v, exchange_lanes(v, mask));
    return v;
  };
  float largest = 0.0F;
  if (p.kind == Reduce::Kind::kLogSumExp) {
    float mine = -INFINITY;
    for (std::int64_t i = lane; i < count; i += 32) mine = fmaxf(mine, load(p.x, from + i * step));
    largest = over_warp(Reduce::Kind::kMax, mine);
  }
  float sum = start_of(p.kind);
#pragma unroll 4
  for (std::int64_t i = lane; i < count; i += 32) sum = fold(p.kind, sum, load(p.x, from + i * step), largest);
  const float result = over_warp(p.kind, sum);
  if (lane == 0) store(p.y, to, finished(p.kind, result, count, largest));
}

CAMD_KERNEL(kThreads, 1) matmul_kernel(const MatMulArguments p) {
  std::int64_t index[kMaxRank];
  const bool inside = indices_of(p.shape, p.rank, index);
  std::int64_t a = 0, b = 0, y = 0, bias = 0;
  for (int d = 0; d < kMaxRank; ++d) {
    if (d >= p.rank) continue;
    a += index[d] * p.a.strides[d];
    b += index[d] * p.b.strides[d];
    y += index[d] * p.y.strides[d];
    bias += index[d] * p.bias.strides[d];
  }
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (!inside) return;
  float sum = 0.0F;
#pragma unroll 4
  for (std::int64_t k = 0; k < p.k; ++k)
    sum = fmaf(load(p.a, a + k * p.a_k_stride), load(p.b, b + k * p.b_k_stride), sum);
  if (p.bias.data != nullptr) sum += load(p.bias, bias);
  store(p.y, y, activate_any(p.activation, sum));
}

constexpr int kTile = 32;  // rows, columns and products of a tile
constexpr int kTilePitch = kTile + 1;
constexpr int kTileThreads = 256;
constexpr int kTileShare = kTile * kTile / kTileThreads;  // elements of a tile for each thread

// One block for 32 rows and 32 columns of y. Both factors pass through shared memory, 32 products at a time, read in
// the order in which they lie; the next ones are fetched meanwhile. Sums are those of matmul_kernel(), in the same
// order.
CAMD_KERNEL(kTileThreads, 1) matmul_tile_kernel(const MatMulArguments p) {
  CAMD_SHARED(memory);
  auto* const left = reinterpret_cast<float*>(memory);  // [product][row]
  float* const right = left + kTile * kTilePitch;       // [product][column]
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kTile, slow = thread / kTile;
  const std::int64_t rows = p.shape[p.rank - 2], columns = p.shape[p.rank - 1];
  const std::int64_t across = (columns + kTile - 1) / kTile, down = (rows + kTile - 1) / kTile;
  std::int64_t rest = static_cast<std::int64_t>(blockIdx.x);
  const std::int64_t column0 = rest % across * kTile;
  rest /= across;
  const std::int64_t row0 = rest % down * kTile;
  rest /= down;
  std::int64_t a0 = 0, b0 = 0, y0 = 0, bias0 = 0;
  std::int64_t a_row = 0, b_column = 0, y_row = 0, y_column = 0, bias_row = 0, bias_column = 0;
  for (int d = kMaxRank - 1; d >= 0; --d) {
    if (d >= p.rank) continue;
    if (d == p.rank - 1) {
      b_column = p.b.strides[d], y_column = p.y.strides[d], bias_column = p.bias.strides[d];
    } else if (d == p.rank - 2) {
      a_row = p.a.strides[d], y_row = p.y.strides[d], bias_row = p.bias.strides[d];
    } else {
      const std::int64_t index = rest % p.shape[d];
      rest /= p.shape[d];
      a0 += index * p.a.strides[d];
      b0 += index * p.b.strides[d];
      y0 += index * p.y.strides[d];
      bias0 += index * p.bias.strides[d];
    }
  }
  const bool a_by_products = p.a_k_stride == 1, b_by_products = p.b_k_stride == 1;
  float next_left[kTileShare], next_right[kTileShare], sums[kTileShare];
  for (int i = 0; i < kTileShare; ++i) sums[i] = 0.0F;
  const auto fetch = [&](std::int64_t k0) {
    for (int i = 0; i < kTileShare; ++i) {
      const int other = slow + i * (kTileThreads / kTile);
      const std::int64_t a_k = k0 + (a_by_products ? lane : other), row = row0 + (a_by_products ? other : lane);
      const std::int64_t b_k = k0 + (b_by_products ? lane : other), column = column0 + (b_by_products ? other : lane);
      next_left[i] = a_k < p.k && row < rows ? load(p.a, a0 + row * a_row + a_k * p.a_k_stride) : 0.0F;
      next_right[i] = b_k < p.k && column < columns ? load(p.b, b0 + column * b_column + b_k * p.b_k_stride) : 0.0F;
    }
  };
  wait_for_previous_kernel();
  let_next_kernel_start();
  fetch(0);
  for (std::int64_t k0 = 0; k0 < p.k; k0 += kTile) {
    for (int i = 0; i < kTileShare; ++i) {
      const int other = slow + i * (kTileThreads / kTile);
      left[a_by_products ? lane * kTilePitch + other : other * kTilePitch + lane] = next_left[i];
      right[b_by_products ? lane * kTilePitch + other : other * kTilePitch + lane] = next_right[i];
    }
    block_sync();
    if (k0 + kTile < p.k) fetch(k0 + kTile);
    const int count = p.k - k0 < kTile ? static_cast<int>(p.k - k0) : kTile;
    for (int k = 0; k < count; ++k) {
      const float factor = right[k * kTilePitch + lane];
      for (int i = 0; i < kTileShare; ++i)
        sums[i] = fmaf(left[k * kTilePitch + slow + i * (kTileThreads / kTile)], factor, sums[i]);
    }
    block_sync();
  }
  const std::int64_t column = column0 + lane;
  for (int i = 0; i < kTileShare; ++i) {
    const std::int64_t row = row0 + slow + i * (kTileThreads / kTile);
    if (row >= rows || column >= columns) continue;
    float sum = sums[i];
    if (p.bias.data != nullptr) sum += load(p.bias, bias0 + row * bias_row + column * bias_column);
    store(p.y, y0 + row * y_row + column * y_column, activate_any(p.activation, sum));
  }
}

}  // namespace

int softmax(const SoftmaxArguments& p, const LaunchContext& context) {
  constexpr std::int64_t kManyLines = 8192;  // enough for a GPU with a thread each
  const std::int64_t lines = count_of(p.shape, p.rank);
  if (lines < kManyLines && p.count > 4) {
    return launch(softmax_kernel<32>, blocks_for(lines * 32), kThreads, 0, context, p);
  }
  return launch(softmax_kernel<1>, blocks_for(lines), kThreads, 0, context, p);
}

int reduce(const ReduceArguments& p, const LaunchContext& context) {
  constexpr std::int64_t kShortLine = 512;
  int axes = 0, axis = 0;
  for (int d = 0; d < p.rank; ++d) {
    if (p.count[d] <= 1) continue;
    ++axes;
    axis = d;
  }
  if (axes == 1 && p.count[axis] <= kShortLine) {
    const dim3 grid = blocks_for(count_of(p.shape, p.rank) * 32);
    return launch(reduce_line_kernel, grid, kThreads, 0, context, p, p.count[axis], p.x.strides[axis]);
  }
  const dim3 grid(static_cast<unsigned>(count_of(p.shape, p.rank)), 1, 1);
  return launch(reduce_kernel, grid, kReduceThreads, kReduceThreads * sizeof(float), context, p);
}

int matmul(const MatMulArguments& p, const LaunchContext& context) {
  constexpr std::int64_t kWorthATile = 8;
  if (p.rank >= 2 && p.shape[p.rank - 2] >= kWorthATile && p.shape[p.rank - 1] >= kWorthATile && p.k >= kWorthATile) {
    const auto tiles = [](std::int64_t size) { return (size + kTile - 1) / kTile; };
    std::int64_t blocks = tiles(p.shape[p.rank - 2]) * tiles(p.shape[p.rank - 1]);
    for (int d = 0; d + 2 < p.rank; ++d) blocks *= p.shape[d];
    const dim3 grid(static_cast<unsigned>(blocks), 1, 1);
    return launch(matmul_tile_kernel, grid, kTileThreads, 2 * kTile * kTilePitch * sizeof(float), context, p);
  }
  return launch(matmul_kernel, blocks_for(count_of(p.shape, p.rank)), kThreads, 0, context, p);
}

}  // namespace camd::infer::cuda
