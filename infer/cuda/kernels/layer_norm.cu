// A warp for each line, which stays in registers where it is short enough.
//
// Limited by: latency. A transformer's layer has a few hundred lines of a few hundred elements.
#include "infer/cuda/kernels/layer_norm.hpp"

#include <utility>

#include "infer/cuda/kernels/activation.cuh"
#include "infer/cuda/kernels/eight.cuh"
#include "infer/cuda/kernels/launch.cuh"
#include "infer/cuda/kernels/strided.cuh"

namespace camd::infer::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kLanes = 32;

CAMD_DEVICE float over_warp(float v) {
#pragma unroll
  for (int mask = kLanes / 2; mask > 0; mask /= 2) v += exchange_lanes(v, mask);
  return v;
}

// kKept: elements of a line that each lane keeps; 0: none, they are read again.
template <int kKept>
CAMD_KERNEL(kThreads, 1)
layer_norm_kernel(const LayerNormArguments p) {
  let_next_kernel_start();
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const std::int64_t line =
      static_cast<std::int64_t>(blockIdx.x) * (kThreads / kLanes) + static_cast<std::int64_t>(threadIdx.x) / kLanes;
  std::int64_t rest = line, x = 0, added = 0, y = 0;
  for (int d = kMaxRank - 1; d >= 0; --d) {
    if (d >= p.rank) continue;
    const std::int64_t index = rest % p.shape[d];
    rest /= p.shape[d];
    x += index * p.x.strides[d];
    added += index * p.added.strides[d];
    y += index * p.y.strides[d];
  }
  // Known before the first frame, so read before the kernel in front has ended.
  float gain[kKept > 0 ? kKept : 1], offset[kKept > 0 ? kKept : 1];
  if constexpr (kKept > 0) {
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      const std::int64_t at = i * kLanes + lane;
      gain[i] = p.gain != nullptr && at < p.count ? p.gain[at] : 1.0F;
      offset[i] = p.offset != nullptr && at < p.count ? p.offset[at] : 0.0F;
    }
  }
  wait_for_previous_kernel();
  if (rest != 0) return;  // the same for a whole warp
  const auto element = [&](std::int64_t at) {
    const float v = load(p.x, x + at * p.x_step);
    if (p.added.data == nullptr) return v;
    return activate_any(p.sum_activation, v + load(p.added, added + at * p.added_step));
  };
  const auto put = [&](std::int64_t at, float v) { store(p.y, y + at * p.y_step, activate_any(p.activation, v)); };
  const auto count = static_cast<float>(p.count);
  if constexpr (kKept > 0) {
    float values[kKept];
    float sum = 0.0F;
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      const std::int64_t at = i * kLanes + lane;
      values[i] = at < p.count ? element(at) : 0.0F;
      sum += values[i];
    }
    const float mean = over_warp(sum) / count;
    float squares = 0.0F;
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      const float away = i * kLanes + lane < p.count ? values[i] - mean : 0.0F;
      squares = fmaf(away, away, squares);
    }
    const float factor = 1.0F / sqrtf(over_warp(squares) / count + p.epsilon);
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      const std::int64_t at = i * kLanes + lane;
      if (at < p.count) put(at, fmaf((values[i] - mean) * factor, gain[i], offset[i]));
    }
  } else {
    float sum = 0.0F, squares = 0.0F;
    for (std::int64_t at = lane; at < p.count; at += kLanes) sum += element(at);
    const float mean = over_warp(sum) / count;
    for (std::int64_t at = lane; at < p.count; at += kLanes) {
      const float away = element(at) - mean;
      squares = fmaf(away, away, squares);
    }
    const float factor = 1.0F / sqrtf(over_warp(squares) / count + p.epsilon);
    for (std::int64_t at = lane; at < p.count; at += kLanes) {
      const float own_gain = p.gain != nullptr ? p.gain[at] : 1.0F,
                  own_offset = p.offset != nullptr ? p.offset[at] : 0.0F;
      put(at, fmaf((element(at) - mean) * factor, own_gain, own_offset));
    }
  }
}

// The first elements of a warp's line.
struct Line {
  std::int64_t x, added, y;
};
CAMD_DEVICE bool line_of(const LayerNormArguments& p, Line& line) {
  auto rest = blockIdx.x * (kThreads / kLanes) + threadIdx.x / kLanes;
  line = {0, 0, 0};
  for (int d = kMaxRank - 1; d >= 0; --d) {
    if (d >= p.rank || p.shape[d] == 1) continue;
    const auto size = static_cast<unsigned>(p.shape[d]);
    const unsigned next = rest / size, index = rest - next * size;
    rest = next;
    line.x += index * p.x.strides[d];
    line.added += index * p.added.strides[d];
    line.y += index * p.y.strides[d];
  }
  return rest == 0;
}

// Elements that lie side by side, eight at a time. kEights: those that a lane keeps.
template <int kEights>
CAMD_KERNEL(kThreads, 1)
layer_norm_eights_kernel(const LayerNormArguments p) {
  let_next_kernel_start();
  const int lane = static_cast<int>(threadIdx.x) % kLanes, all = static_cast<int>(p.count);
  Line line;
  const bool inside = line_of(p, line);
  // Known before the first frame, so read before the kernel in front has ended.
  float gain[kEights][8], offset[kEights][8];
#pragma unroll
  for (int i = 0; i < kEights; ++i) {
    const int at = (i * kLanes + lane) * 8;
#pragma unroll
    for (int k = 0; k < 8; ++k) gain[i][k] = 1.0F, offset[i][k] = 0.0F;
    if (p.gain != nullptr && at < all) load_eight(gain[i], p.gain + at);
    if (p.offset != nullptr && at < all) load_eight(offset[i], p.offset + at);
  }
  wait_for_previous_kernel();
  if (!inside) return;  // a whole warp
  float values[kEights][8];
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < kEights; ++i) {
    const int at = (i * kLanes + lane) * 8;
#pragma unroll
    for (float& v : values[i]) v = 0.0F;
    if (at >= all) continue;
    load_eight(values[i], p.x, line.x + at);
    if (p.added.data != nullptr) {
      float more[8];
      load_eight(more, p.added, line.added + at);
#pragma unroll
      for (int k = 0; k < 8; ++k) values[i][k] += more[k];
      activate_each(p.sum_activation, values[i]);
    }
#pragma unroll
    for (const float v : values[i]) sum += v;
  }
  const auto count = static_cast<float>(all);
  const float mean = over_warp(sum) / count;
  float squares = 0.0F;
#pragma unroll
  for (int i = 0; i < kEights; ++i) {
    if ((i * kLanes + lane) * 8 >= all) continue;
#pragma unroll
    for (const float v : values[i]) squares = fmaf(v - mean, v - mean, squares);
  }
  const float factor = 1.0F / sqrtf(over_warp(squares) / count + p.epsilon);
#pragma unroll
  for (int i = 0; i < kEights; ++i) {
    const int at = (i * kLanes + lane) * 8;
    if (at >= all) continue;
#pragma unroll
    for (int k = 0; k < 8; ++k) values[i][k] = fmaf((values[i][k] - mean) * factor, gain[i][k], offset[i][k]);
    activate_each(p.activation, values[i]);
    store_eight(p.y, line.y + at, values[i]);
  }
}

}  // namespace

int layer_norm(const LayerNormArguments& p, const LaunchContext& context) {
  constexpr std::int64_t kLines = kThreads / kLanes;
  const dim3 grid(static_cast<unsigned>((count_of(p.shape, p.rank) + kLines - 1) / kLines), 1, 1);
  bool eights = p.count % 8 == 0 && count_of(p.shape, p.rank) < (std::int64_t{1} << 31);
  for (const auto& [t, step] : {std::pair{&p.x, p.x_step}, {&p.added, p.added_step}, {&p.y, p.y_step}})
    eights = eights && (t->data == nullptr || by_eights(*t, p.shape, p.rank, -1, step));
  if (eights && p.count <= 8 * kLanes) return launch(layer_norm_eights_kernel<1>, grid, kThreads, 0, context, p);
  if (eights && p.count <= 32 * kLanes) return launch(layer_norm_eights_kernel<4>, grid, kThreads, 0, context, p);
  if (p.count <= 4 * kLanes) return launch(layer_norm_kernel<4>, grid, kThreads, 0, context, p);
  if (p.count <= 8 * kLanes) return launch(layer_norm_kernel<8>, grid, kThreads, 0, context, p);
  if (p.count <= 16 * kLanes) return launch(layer_norm_kernel<16>, grid, kThreads, 0, context, p);
  return launch(layer_norm_kernel<0>, grid, kThreads, 0, context, p);
}

}  // namespace camd::infer::cuda
