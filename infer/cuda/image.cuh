// Where the elements of an Image lie (infer/cuda/kernels.hpp).
#pragma once

#include "infer/cuda/kernels.hpp"
#include "infer/cuda/primitives.cuh"

namespace camd::infer::cuda {

// Channels with the padding up to the next multiple of 8.
CAMD_DEVICE int padded(int c) { return (c + 7) / 8 * 8; }

template <typename T>
CAMD_DEVICE T* at(const Image& image, int y, int x, int c) {
  return static_cast<T*>(image.data) + (static_cast<std::ptrdiff_t>(y) * image.w + x) * image.pitch + c;
}

}  // namespace camd::infer::cuda
