// Eight neighbouring elements, f16 or f32, as f32.
//
// Threads: device functions, and a function of its arguments for launches.
#pragma once

#include <cstdint>

#include "infer/cuda/kernels/generic_tensor.hpp"
#include "infer/cuda/kernels/primitives.cuh"

namespace camd::infer::cuda {

CAMD_DEVICE void load_eight(float (&v)[8], const __half* from) {
  union {
    uint4 bits;
    __half values[8];
  } all;
  all.bits = *reinterpret_cast<const uint4*>(from);
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] = __half2float(all.values[i]);
}
CAMD_DEVICE void load_eight(float (&v)[8], const float* from) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float4 four = reinterpret_cast<const float4*>(from)[half];
    v[half * 4] = four.x;
    v[half * 4 + 1] = four.y;
    v[half * 4 + 2] = four.z;
    v[half * 4 + 3] = four.w;
  }
}

CAMD_DEVICE void store_eight(__half* to, const float (&v)[8]) {
  *reinterpret_cast<uint4*>(to) =
      make_uint4(pack_halfs(v[0], v[1]), pack_halfs(v[2], v[3]), pack_halfs(v[4], v[5]), pack_halfs(v[6], v[7]));
}
CAMD_DEVICE void store_eight(float* to, const float (&v)[8]) {
#pragma unroll
  for (int half = 0; half < 2; ++half)
    reinterpret_cast<float4*>(to)[half] = make_float4(v[half * 4], v[half * 4 + 1], v[half * 4 + 2], v[half * 4 + 3]);
}

// Eight neighbours of a tensor from element `at` on; they lie side by side from a multiple of 16 bytes on.
CAMD_DEVICE void load_eight(float (&v)[8], const Strided& t, std::int64_t at) {
  if (t.type == DataType::kF32)
    load_eight(v, static_cast<const float*>(t.data) + at);
  else
    load_eight(v, static_cast<const __half*>(t.data) + at);
}
CAMD_DEVICE void store_eight(const Strided& t, std::int64_t at, const float (&v)[8]) {
  if (t.type == DataType::kF32)
    store_eight(static_cast<float*>(t.data) + at, v);
  else
    store_eight(static_cast<__half*>(t.data) + at, v);
}

// [host] Whether the elements along dimension `along`, whose neighbours are `step` apart, can be taken by eights.
inline bool by_eights(const Strided& t, const std::int64_t* shape, int rank, int along, std::int64_t step) {
  bool fits = step == 1 && reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0;
  for (int d = 0; d < rank; ++d) fits = fits && (d == along || shape[d] == 1 || t.strides[d] % 8 == 0);
  return fits;
}

}  // namespace camd::infer::cuda
