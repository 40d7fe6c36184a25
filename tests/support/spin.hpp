// Work of a length that the compiler cannot take away, in the place of a sleep.
//
// Threads: [any].
#pragma once

#include <cstdint>

namespace camd::test {

inline void spin(std::uint64_t turns) {
  for (std::uint64_t i = 0; i < turns; ++i) asm volatile("");
}

}  // namespace camd::test
