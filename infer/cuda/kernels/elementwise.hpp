// elementwise(): a few operators that compute each element of one tensor from the same elements of others, as one
// kernel. No CUDA header is needed to include this one.
//
// Threads: as infer/cuda/kernels/launch.hpp says.
#pragma once

#include <cstdint>

#include "infer/cuda/kernels/generic_tensor.hpp"
#include "infer/cuda/kernels/launch.hpp"
#include "infer/graph/graph.hpp"

namespace camd::infer::cuda {

inline constexpr int kMostElementwiseInputs = 8;
inline constexpr int kMostElementwiseOps = 16;

// activation(a op b), or activation(a) where `b` is negative. Values have numbers: input i has i, the result of
// operator j has kMostElementwiseInputs + j.
struct ElementwiseOp {
  Binary::Kind kind = Binary::Kind::kAdd;
  std::int8_t a = 0, b = -1;
  Activation activation;
};

// y = the last operator's result. Inputs are broadcast to y's shape. All is computed in f32, and only y is stored.
struct ElementwiseArguments {
  Strided x[kMostElementwiseInputs];
  Strided y;
  int input_count = 0;
  int op_count = 0;
  int rank = 0;
  std::int64_t shape[kMaxRank] = {};
  ElementwiseOp ops[kMostElementwiseOps];
};
int elementwise(const ElementwiseArguments& arguments, const LaunchContext& context);

}  // namespace camd::infer::cuda
