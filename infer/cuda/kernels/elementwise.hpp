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

// Small ones none of which reads what another one writes: one kernel starts once and waits once for all of them.
inline constexpr int kMostElementwise = 4;
inline constexpr std::int64_t kMostSmallElements = std::int64_t{1} << 18;  // more are computed by eights
struct ElementwisesArguments {
  int count = 0;
  ElementwiseArguments programs[kMostElementwise];
};
int elementwises(const ElementwisesArguments& arguments, const LaunchContext& context);

// All elements of all its tensors are so near that their offsets fit 32 bits.
[[nodiscard]] inline bool is_near(const ElementwiseArguments& p) {
  constexpr std::int64_t kNear = std::int64_t{1} << 30;
  const auto near = [&](const Strided& t) {
    std::int64_t farthest = 0;
    for (int d = 0; d < p.rank; ++d) farthest += (p.shape[d] - 1) * (t.strides[d] < 0 ? -t.strides[d] : t.strides[d]);
    return farthest < kNear;
  };
  std::int64_t count = 1;
  for (int d = 0; d < p.rank; ++d) count *= p.shape[d];
  bool all = count < kNear && near(p.y);
  for (int i = 0; i < p.input_count; ++i) all = all && near(p.x[i]);
  return all;
}

}  // namespace camd::infer::cuda
