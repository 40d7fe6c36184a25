// Kernels on images of any type and size: preprocess(), pool(), resize(). No CUDA header is needed to include this one.
//
// Threads: as infer/cuda/kernels/launch.hpp says.
#pragma once

#include <cstdint>

#include "infer/cuda/kernels/image.hpp"
#include "infer/cuda/kernels/launch.hpp"
#include "infer/graph/graph.hpp"
#include "infer/sample.hpp"
#include "infer/tensor.hpp"

namespace camd::infer::cuda {

// The camera's picture to planes [3][network_height][network_width] of f32.
struct PreprocessArguments {
  SamplePlan plan;
  PicturePlace picture;
  float* planes = nullptr;
};
int preprocess(const PreprocessArguments& arguments, const LaunchContext& context);

struct PoolArguments {
  Image x, y;
  DataType type = DataType::kF32;
  Pool pool;
};
int pool(const PoolArguments& arguments, const LaunchContext& context);

// y[i][j] = sum over taps of x[rows[i][a]][columns[j][b]] * row_weights[i][a] * column_weights[j][b], plus added[i][j]
// where there is such an image.
struct ResizeArguments {
  Image x, y, added;
  DataType type = DataType::kF32;
  int row_taps = 1, column_taps = 1;
  const int* rows = nullptr;  // [y.h][row_taps]
  const float* row_weights = nullptr;
  const int* columns = nullptr;  // [y.w][column_taps]
  const float* column_weights = nullptr;
};
int resize(const ResizeArguments& arguments, const LaunchContext& context);

}  // namespace camd::infer::cuda
