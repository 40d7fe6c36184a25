// What the operators compute that pick elements by numbers from the picture (TopK, Pick, Scatter, CumSum, GridSample,
// Select), on plain row-major f32 memory. The reference evaluator and the CPU engine run these functions; the CUDA
// engine's kernels do the same in parallel (infer/cuda/kernels/selection.cu).
//
// Threads: functions of their arguments, [any] [no-alloc]. Nothing is read or written outside of the given memory,
// whatever the numbers are.
#pragma once

#include <cstdint>
#include <vector>

#include "infer/graph/graph.hpp"

namespace camd::infer {

// TopK along one line: the positions of the `count` best of x[i * stride], i < size, to out[n * out_stride]. `scratch`
// holds `size` numbers.
void top_k(const TopK& o, const float* x, std::int64_t size, std::int64_t stride, float* out, std::int64_t out_stride,
           std::int32_t* scratch) noexcept;

// Pick and Scatter on x [outer,size,inner]. The strides of the indices are 0 where they repeat.
struct PickShape {
  std::int64_t outer = 1, size = 1, inner = 1;
  std::int64_t count = 1;  // N
  std::int64_t outer_stride = 0, count_stride = 1, inner_stride = 0;
};
// From the shapes of x and the indices.
[[nodiscard]] PickShape pick_shape(const Shape& x, const Shape& indices) noexcept;
// Of the outer dimension, [begin, end).
void pick(const PickShape& s, const float* x, const float* indices, float* out, std::int64_t begin,
          std::int64_t end) noexcept;
void scatter(const Scatter& o, const PickShape& s, const float* x, const float* indices, const float* updates,
             float* out, std::int64_t begin, std::int64_t end) noexcept;

// Along one line.
void cumulative_sum(const CumSum& o, const float* x, float* out, std::int64_t size, std::int64_t stride) noexcept;

// Channels of one picture: planes [count,height,width], grid [points,2], out [count,points].
struct GridPlane {
  std::int64_t height = 1, width = 1, points = 1;
};
void grid_sample(const GridSample& o, const GridPlane& s, const float* planes, std::int64_t count, const float* grid,
                 float* out) noexcept;

// y[i] = condition ? a : b over `shape`, by strides of each operand (0 where it repeats). At most 8 dimensions.
struct SelectShape {
  Shape shape;
  std::vector<std::int64_t> condition, a, b;
};
[[nodiscard]] SelectShape select_shape(const Shape& condition, const Shape& a, const Shape& b, const Shape& out);
void select(const SelectShape& s, const float* condition, const float* a, const float* b, float* out) noexcept;

}  // namespace camd::infer
