// Kernels on tensors of any rank, layout and type: softmax(), reduce(), matmul(). No CUDA header is needed to include
// this one.
//
// Threads: as infer/cuda/kernels/launch.hpp says.
#pragma once

#include <cstdint>

#include "infer/cuda/kernels/launch.hpp"
#include "infer/graph/graph.hpp"
#include "infer/tensor.hpp"

namespace camd::infer::cuda {

inline constexpr int kMaxRank = 6;

// A tensor of any layout. Its strides count elements, one for each of the model's dimensions; a stride of 0 repeats.
struct Strided {
  void* data = nullptr;
  DataType type = DataType::kF32;  // f32 or f16
  std::int64_t strides[kMaxRank] = {};
};

// Over the dimension that `shape` leaves out: it has 1 there, and x and y have `count` elements `x_step` and `y_step`
// apart. Where `weights` has data, y has one element instead: the sum of the results times their weights, plus `bias`.
struct SoftmaxArguments {
  Strided x, y;
  int rank = 0;
  std::int64_t shape[kMaxRank] = {};
  std::int64_t count = 1, x_step = 1, y_step = 1;
  bool log = false;
  const float* weights = nullptr;  // [count]
  const float* bias = nullptr;     // [1]
};
int softmax(const SoftmaxArguments& arguments, const LaunchContext& context);

// y has as many dimensions as x. Along dimension d, `count[d]` elements of x become one; 1 where nothing is reduced.
struct ReduceArguments {
  Reduce::Kind kind = Reduce::Kind::kMean;
  Strided x, y;
  int rank = 0;
  std::int64_t shape[kMaxRank] = {};  // of y
  std::int64_t count[kMaxRank] = {};
};
int reduce(const ReduceArguments& arguments, const LaunchContext& context);

// y[.., m, n] = activation(sum over k of a[.., m, k] b[.., k, n] + bias); a, b and bias are broadcast to y's shape.
struct MatMulArguments {
  Strided a, b, y;
  Strided bias;  // data may be null
  int rank = 0;
  std::int64_t shape[kMaxRank] = {};  // of y
  std::int64_t k = 0;
  std::int64_t a_k_stride = 0, b_k_stride = 0;
  Activation activation;
};
int matmul(const MatMulArguments& arguments, const LaunchContext& context);

}  // namespace camd::infer::cuda
