// Divider: division in a kernel by a number that is known before the launch. No CUDA header is needed to include this
// one.
//
// A multiplication takes the place of the division, which costs some 40 instructions. Exact while
// numerator * divisor < 2^32.
//
// Threads: plain values.
#pragma once

namespace camd::infer::cuda {

struct Divider {
  unsigned magic = 0;  // ceil(2^32 / divisor); 0 for a divisor of 1
};
[[nodiscard]] constexpr Divider make_divider(int divisor) {
  const auto d = static_cast<unsigned long long>(divisor);
  return {divisor == 1 ? 0U : static_cast<unsigned>(((1ULL << 32) + d - 1) / d)};
}

}  // namespace camd::infer::cuda
