// IEEE 754 binary16: what f16 outputs hold.
//
// Threads: [any].
#pragma once

#include <cstdint>

namespace camd::plugins {

// Exact.
[[nodiscard]] float half_to_float(std::uint16_t half) noexcept;

}  // namespace camd::plugins
