// Kernels that pick elements by numbers from the picture, one thread for each output element or line.
#include "infer/cuda/kernels/selection.hpp"

#include "infer/cuda/kernels/launch.cuh"
#include "infer/cuda/kernels/strided.cuh"
#include "infer/graph/selection_math.hpp"

namespace camd::infer::cuda {
namespace {

using selection::combine;
using selection::grid_pixel;
using selection::inside_position;

constexpr int kThreads = kStridedThreads;

// This thread's number among all of the launch.
CAMD_DEVICE std::int64_t thread_number() {
  return static_cast<std::int64_t>(blockIdx.x) * kThreads + static_cast<std::int64_t>(threadIdx.x);
}

CAMD_DEVICE std::int64_t position(const Strided& t, std::int64_t o, std::int64_t n, std::int64_t i) {
  return o * t.strides[0] + n * t.strides[1] + i * t.strides[2];
}
CAMD_DEVICE std::int64_t index_of(const PickArguments& p, std::int64_t o, std::int64_t n, std::int64_t i) {
  return inside_position(load(p.indices, position(p.indices, o, n, i)), p.shape.size);
}

CAMD_KERNEL(kThreads, 1) pick_kernel(const PickArguments p) {
  const std::int64_t t = thread_number();
  const std::int64_t rows = p.updates == nullptr ? p.shape.count : p.shape.size;
  const std::int64_t i = t % p.shape.inner, row = t / p.shape.inner % rows, o = t / p.shape.inner / rows;
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (t >= p.shape.outer * rows * p.shape.inner) return;
  if (p.updates == nullptr) {
    store(p.y, position(p.y, o, row, i), load(p.x, position(p.x, o, index_of(p, o, row, i), i)));
    return;
  }
  float value = load(p.x, position(p.x, o, row, i));
  for (std::int64_t n = 0; n < p.shape.count; ++n) {
    if (index_of(p, o, n, i) == row) {
      value = combine(p.scatter.kind, value, p.updates[(o * p.shape.count + n) * p.shape.inner + i]);
    }
  }
  store(p.y, position(p.y, o, row, i), value);
}

CAMD_KERNEL(kThreads, 1) cumulative_sum_kernel(const CumSumArguments p) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const std::int64_t line = thread_number();
  if (line >= p.outer * p.inner) return;
  const std::int64_t first = line / p.inner * p.size * p.inner + line % p.inner;
  double sum = 0;
  for (std::int64_t n = 0; n < p.size; ++n) {
    const std::int64_t i = first + (p.operation.reverse ? p.size - 1 - n : n) * p.inner;
    const auto v = static_cast<double>(p.x[i]);
    p.y[i] = static_cast<float>(p.operation.exclusive ? sum : sum + v);
    sum += v;
  }
}

CAMD_KERNEL(kThreads, 1) grid_sample_kernel(const GridSampleArguments p) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const std::int64_t t = thread_number();
  if (t >= p.planes * p.plane.points) return;
  const std::int64_t plane = t / p.plane.points, point = t % p.plane.points;
  const float* const grid = p.grid + (plane / p.channels * p.plane.points + point) * 2;
  p.y[t] = grid_pixel(p.operation, p.plane, p.x + plane * p.plane.height * p.plane.width, grid[0], grid[1]);
}

CAMD_KERNEL(kThreads, 1) select_kernel(const SelectArguments p) {
  std::int64_t index[kMaxRank];
  const bool inside = indices_of(p.shape, p.rank, index);
  std::int64_t c = 0, a = 0, b = 0, y = 0;
  for (int d = 0; d < kMaxRank; ++d) {
    if (d >= p.rank) continue;
    c += index[d] * p.condition.strides[d];
    a += index[d] * p.a.strides[d];
    b += index[d] * p.b.strides[d];
    y += index[d] * p.y.strides[d];
  }
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (!inside) return;
  store(p.y, y, load(p.condition, c) != 0.0F ? load(p.a, a) : load(p.b, b));
}

}  // namespace

int pick(const PickArguments& p, const LaunchContext& context) {
  const std::int64_t rows = p.updates == nullptr ? p.shape.count : p.shape.size;
  return launch(pick_kernel, blocks_for(p.shape.outer * rows * p.shape.inner), kThreads, 0, context, p);
}

int cumulative_sum(const CumSumArguments& p, const LaunchContext& context) {
  return launch(cumulative_sum_kernel, blocks_for(p.outer * p.inner), kThreads, 0, context, p);
}

int grid_sample(const GridSampleArguments& p, const LaunchContext& context) {
  return launch(grid_sample_kernel, blocks_for(p.planes * p.plane.points), kThreads, 0, context, p);
}

int select(const SelectArguments& p, const LaunchContext& context) {
  return launch(select_kernel, blocks_for(count_of(p.shape, p.rank)), kThreads, 0, context, p);
}

}  // namespace camd::infer::cuda
