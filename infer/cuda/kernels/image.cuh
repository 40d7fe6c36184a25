// Addresses of an Image's elements.
#pragma once

#include "infer/cuda/kernels/image.hpp"
#include "infer/cuda/kernels/primitives.cuh"

namespace camd::infer::cuda {

// `c` channels with the padding up to the next multiple of 8.
CAMD_DEVICE int padded(int c) { return (c + 7) / 8 * 8; }

template <typename T>
CAMD_DEVICE T* at(const Image& image, int y, int x, int c) {
  return static_cast<T*>(image.data) + (static_cast<std::ptrdiff_t>(y) * image.w + x) * image.pitch + c;
}

}  // namespace camd::infer::cuda
