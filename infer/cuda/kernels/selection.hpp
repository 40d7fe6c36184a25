// Kernels of the operators that pick elements by numbers from the picture: TopK, Pick, Scatter, CumSum, GridSample,
// Select. All tensors are row-major f32. No CUDA header is needed to include this one.
//
// Threads: as infer/cuda/kernels/launch.hpp says.
#pragma once

#include <cstdint>

#include "infer/cuda/kernels/generic_tensor.hpp"
#include "infer/cuda/kernels/launch.hpp"
#include "infer/graph/selection.hpp"

namespace camd::infer::cuda {

// Along the middle of [outer][size][inner]; y is [outer][operation.count][inner].
struct TopKArguments {
  TopK operation;
  const float* x = nullptr;
  float* y = nullptr;
  std::int64_t outer = 1, size = 1, inner = 1;
};
inline constexpr std::int64_t kMostChosen = 4096;  // by a block that keeps what it has chosen in shared memory
int top_k(const TopKArguments& arguments, const LaunchContext& context);

// Pick, or Scatter where `updates` is not null; that one's tensors are row-major f32. x [outer, size, inner], indices
// broadcast to [outer, count, inner], y [outer, count, inner], or as x.
struct PickArguments {
  PickShape shape;
  Scatter scatter;
  Strided x, indices, y;
  const float* updates = nullptr;
};
int pick(const PickArguments& arguments, const LaunchContext& context);

// Along the middle of [outer][size][inner]; a thread for each line.
struct CumSumArguments {
  CumSum operation;
  const float* x = nullptr;
  float* y = nullptr;
  std::int64_t outer = 1, size = 1, inner = 1;
};
int cumulative_sum(const CumSumArguments& arguments, const LaunchContext& context);

// x [planes][plane.height][plane.width], grid [planes / channels][plane.points][2].
struct GridSampleArguments {
  GridSample operation;
  GridPlane plane;
  const float* x = nullptr;
  const float* grid = nullptr;
  float* y = nullptr;
  std::int64_t planes = 1, channels = 1;
};
int grid_sample(const GridSampleArguments& arguments, const LaunchContext& context);

// y = condition ? a : b, all broadcast to y's shape.
struct SelectArguments {
  Strided condition, a, b, y;
  int rank = 0;
  std::int64_t shape[kMaxRank] = {};
};
int select(const SelectArguments& arguments, const LaunchContext& context);

}  // namespace camd::infer::cuda
