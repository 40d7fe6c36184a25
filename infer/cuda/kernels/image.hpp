// Image: how pictures and activations of the network lie in GPU memory. No CUDA header is needed to include this one.
//
// Images are channels-last (NHWC, N = 1). Pixel (y, x) begins at element (y * w + x) * pitch. The pitch is a multiple
// of 8 and the memory is aligned to 16 bytes, so 8 channels of f16 are one 16-byte access. The elements between `c` and
// the next multiple of 8 are padding: a kernel may write any finite number there, and the weights for them are zero. A
// slice of channels of a larger image is an Image with `data` moved and the same pitch.
//
// Threads: plain values.
#pragma once

namespace camd::infer::cuda {

struct Image {
  void* data = nullptr;  // f16 or f32, as the kernel's arguments say
  int h = 0, w = 0, c = 0;
  int pitch = 0;  // elements from one pixel to the next
};

}  // namespace camd::infer::cuda
