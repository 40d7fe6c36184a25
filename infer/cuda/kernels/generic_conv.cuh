// What the kernels of generic_conv() share: four neighbouring channels at a time, and what follows the sums.
//
// Threads: device functions.
#pragma once

#include "infer/cuda/kernels/activation.cuh"
#include "infer/cuda/kernels/generic_conv.hpp"
#include "infer/cuda/kernels/image.cuh"

namespace camd::infer::cuda {

CAMD_DEVICE int columns_of(const GenericConvArguments& p) {
  return (p.y.c + kGenericConvColumns - 1) / kGenericConvColumns * kGenericConvColumns;
}

// Four neighbouring channels.
CAMD_DEVICE void load4(float (&to)[4], const float* from) {
  const float4 v = *reinterpret_cast<const float4*>(from);
  to[0] = v.x;
  to[1] = v.y;
  to[2] = v.z;
  to[3] = v.w;
}
CAMD_DEVICE void load4(float (&to)[4], const __half* from) {
  for (float& v : to) v = 0.0F;
  add_halfs(to, from);
}
CAMD_DEVICE void store4(float* to, const float (&v)[4]) {
  *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
}
CAMD_DEVICE void store4(__half* to, const float (&v)[4]) { *reinterpret_cast<uint2*>(to) = pack_halfs(v); }

// What follows the sums of four channels of one pixel. `bias`: those of p.bias, which the caller loads before it waits
// for the kernel in front.
template <typename T>
CAMD_DEVICE void finish4(const GenericConvArguments& p, float (&sum)[4], const float (&bias)[4], int y, int x, int c) {
#pragma unroll
  for (int i = 0; i < 4; ++i) sum[i] += bias[i];
  if (p.activation_first) activate_each(p.activation, sum);
  if (p.residual.data != nullptr) {
    float other[4];
    load4(other, at<T>(p.residual, y, x, c));
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[i] += other[i];
  }
  if (!p.activation_first) activate_each(p.activation, sum);
  store4(at<T>(p.y, y, x, c), sum);
}

}  // namespace camd::infer::cuda
