// What kernels with one thread for each output element share: reading and writing Strided tensors, and which element a
// thread has.
//
// Threads: device functions, and functions of their arguments for launches.
#pragma once

#include <cstdint>

#include "infer/cuda/kernels/generic_tensor.hpp"
#include "infer/cuda/kernels/primitives.cuh"

namespace camd::infer::cuda {

inline constexpr int kStridedThreads = 256;

// An element, found in the 32 bits that hold it. Of whatever type it is, it is loaded without a branch: several loads
// are then on their way together.
struct StridedElement {
  const unsigned* word;
  unsigned shift;  // of the element in its word
  bool wide;       // f32
};
CAMD_DEVICE StridedElement strided_element(const Strided& t, std::int64_t at) {
  const bool wide = t.type == DataType::kF32;
  const auto address = reinterpret_cast<std::uintptr_t>(t.data) + static_cast<std::uintptr_t>(at << (wide ? 2 : 1));
  return {reinterpret_cast<const unsigned*>(address & ~std::uintptr_t{3}), static_cast<unsigned>(address & 2) * 8,
          wide};
}
CAMD_DEVICE float value_of(const StridedElement& element, unsigned word) {
  const auto bits = static_cast<unsigned short>(word >> element.shift);
  const float narrow = __half2float(*reinterpret_cast<const __half*>(&bits));
  return element.wide ? *reinterpret_cast<const float*>(&word) : narrow;
}
CAMD_DEVICE float load(const Strided& t, std::int64_t at) {
  const StridedElement element = strided_element(t, at);
  return value_of(element, *element.word);
}
CAMD_DEVICE void store(const Strided& t, std::int64_t at, float value) {
  if (t.type == DataType::kF32)
    static_cast<float*>(t.data)[at] = value;
  else
    static_cast<__half*>(t.data)[at] = __float2half_rn(value);
}

// Splits this thread's number into one index a dimension, the last one fastest; false beyond the last element.
CAMD_DEVICE bool indices_of(const std::int64_t* shape, int rank, std::int64_t (&index)[kMaxRank]) {
  const std::int64_t i =
      static_cast<std::int64_t>(blockIdx.x) * kStridedThreads + static_cast<std::int64_t>(threadIdx.x);
  if (i <= 0x7FFFFFFF) {  // a division of 64 bits takes many times as long
    auto rest = static_cast<unsigned>(i);
    for (int d = kMaxRank - 1; d >= 0; --d) {
      if (d >= rank) continue;
      const auto size = static_cast<unsigned>(shape[d]);
      const unsigned next = shape[d] > 0x7FFFFFFF ? 0 : rest / size;
      index[d] =
          shape[d] > 0x7FFFFFFF ? static_cast<std::int64_t>(rest) : static_cast<std::int64_t>(rest - next * size);
      rest = next;
    }
    return rest == 0;
  }
  std::int64_t rest = i;
  for (int d = kMaxRank - 1; d >= 0; --d) {
    if (d >= rank) continue;
    index[d] = rest % shape[d];
    rest /= shape[d];
  }
  return rest == 0;
}

inline std::int64_t count_of(const std::int64_t* shape, int rank) {
  std::int64_t count = 1;
  for (int d = 0; d < rank; ++d) count *= shape[d];
  return count;
}

inline dim3 blocks_for(std::int64_t elements) {
  return dim3(static_cast<unsigned>((elements + kStridedThreads - 1) / kStridedThreads), 1, 1);
}

}  // namespace camd::infer::cuda
