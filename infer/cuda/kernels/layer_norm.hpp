// layer_norm(): a sum of two tensors, each line of it brought to mean 0 and variance 1, then scaled and shifted, as one
// kernel. No CUDA header is needed to include this one.
//
// Source: Ba, Kiros and Hinton, "Layer Normalization" (2016), equations 3 and 4.
//
// Threads: as infer/cuda/kernels/launch.hpp says.
#pragma once

#include <cstdint>

#include "infer/cuda/kernels/generic_tensor.hpp"
#include "infer/cuda/kernels/launch.hpp"

namespace camd::infer::cuda {

// A line runs along the dimension that `shape` leaves out: it has 1 there, and tensors have `count` elements `.._step`
// apart. y = activation((v - mean(v)) / sqrt(variance(v) + epsilon) * gain + offset) with
// v = sum_activation(x + added). All sums are f32.
struct LayerNormArguments {
  Strided x;
  Strided added;  // data may be null
  Activation sum_activation;
  Strided y;
  int rank = 0;
  std::int64_t shape[kMaxRank] = {};
  std::int64_t count = 1, x_step = 1, added_step = 1, y_step = 1;
  float epsilon = 0.0F;
  const float* gain = nullptr;    // [count], or null: 1
  const float* offset = nullptr;  // [count], or null: 0
  Activation activation;
};
int layer_norm(const LayerNormArguments& arguments, const LaunchContext& context);

}  // namespace camd::infer::cuda
