// max_pools(): the largest values of a few square windows around each pixel, as one kernel. No CUDA header is needed to
// include this one.
//
// Threads: as infer/cuda/kernels/launch.hpp says.
#pragma once

#include <cstddef>

#include "infer/cuda/kernels/image.hpp"
#include "infer/cuda/kernels/launch.hpp"
#include "infer/tensor.hpp"

namespace camd::infer::cuda {

inline constexpr int kMostMaxPools = 4;

// y[i] at a pixel: the largest value of x at most radius[i] rows and columns away, inside of the image. Radii do not
// fall. The images are of one size.
struct MaxPoolsArguments {
  Image x;
  DataType type = DataType::kF32;
  int count = 0;
  Image y[kMostMaxPools];
  int radius[kMostMaxPools] = {};
};
int max_pools(const MaxPoolsArguments& arguments, const LaunchContext& context);

// Shared memory of a block: 16 bytes of each pixel, three times.
[[nodiscard]] constexpr std::size_t max_pools_bytes(int h, int w) {
  return std::size_t{3} * 16 * static_cast<std::size_t>(h) * static_cast<std::size_t>(w);
}

}  // namespace camd::infer::cuda
