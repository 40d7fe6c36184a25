#include "plugins/half.hpp"

#include <cstring>

namespace camd::plugins {

float half_to_float(std::uint16_t half) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16U;
  std::uint32_t exponent = (half >> 10U) & 0x1FU;
  std::uint32_t mantissa = half & 0x3FFU;
  std::uint32_t bits = sign;
  if (exponent == 31) {
    bits |= 0x7F800000U | (mantissa << 13U);
  } else if (exponent != 0) {
    bits |= ((exponent + 112U) << 23U) | (mantissa << 13U);
  } else if (mantissa != 0) {  // subnormal: normalise
    exponent = 113;
    while ((mantissa & 0x400U) == 0) {
      mantissa <<= 1U;
      --exponent;
    }
    bits |= (exponent << 23U) | ((mantissa & 0x3FFU) << 13U);
  }
  float value = 0.0F;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace camd::plugins
