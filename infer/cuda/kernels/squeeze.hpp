// squeeze(): the mean of an image's pixels, two small dense layers of it, and the image times what they make, as one
// kernel. No CUDA header is needed to include this one.
//
// Source: Hu et al., "Squeeze-and-Excitation Networks" (2018), equations 2 and 3.
//
// Threads: as infer/cuda/kernels/launch.hpp says.
#pragma once

#include <cstddef>

#include "infer/cuda/kernels/image.hpp"
#include "infer/cuda/kernels/launch.hpp"
#include "infer/graph/graph.hpp"
#include "infer/tensor.hpp"

namespace camd::infer::cuda {

// gate = second.activation(W2 first.activation(W1 mean(x) + b1) + b2). y is that pixel, or, where y is as large as x
// and `excites`, x times the gate of its channel. All is computed in f32.
struct SqueezeArguments {
  Image x, y;
  // [sum_lines][x.c]: lines of sums of x's pixels (GenericConvArguments). Null: the kernel adds the pixels itself.
  const float* sums = nullptr;
  int sum_lines = 0;
  bool excites = false;
  DataType type = DataType::kF16;  // of x and y
  int hidden = 0;
  const float* first = nullptr;   // [hidden][x.c], then the bias [hidden], padded to 16 bytes
  const float* second = nullptr;  // [hidden][y.c], then the bias [y.c], padded to 16 bytes
  Activation first_activation, second_activation;
};
int squeeze(const SqueezeArguments& arguments, const LaunchContext& context);

inline constexpr int kSqueezeThreads = 1024;
inline constexpr int kExciteThreads = 512;            // where the sums are there
inline constexpr int kMostSqueezeBytes = 512 * 1024;  // of x in f16: each block reads all of it

// Floats of shared memory, in the order in which they lie.
struct SqueezeMemory {
  int first, second;  // the weights with their bias
  int sums;           // of each thread's pixels, by channel
  int hidden;
  [[nodiscard]] constexpr std::size_t total() const {
    return (static_cast<std::size_t>(first) + static_cast<std::size_t>(second) + static_cast<std::size_t>(sums) +
            static_cast<std::size_t>(hidden)) *
           sizeof(float);
  }
};
[[nodiscard]] constexpr SqueezeMemory squeeze_memory(int c, int hidden, int n) {
  SqueezeMemory m{};
  m.first = (hidden * c + hidden + 3) / 4 * 4;
  m.second = (hidden * n + n + 3) / 4 * 4;
  const int groups = (c + 7) / 8;
  m.sums = kSqueezeThreads / groups * groups * 8;
  m.hidden = (hidden + 3) / 4 * 4;
  return m;
}

}  // namespace camd::infer::cuda
