// Numbers of sixteen bits: f16 (IEEE 754 binary16, 11 binary digits) and bf16 (the upper half of a binary32, 8 digits).
//
// Threads: pure functions, [any].
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace camd::infer {

enum class HalfType : std::uint8_t { kF16, kBf16 };
[[nodiscard]] constexpr std::string_view to_string(HalfType type) noexcept {
  return type == HalfType::kF16 ? "f16" : "bf16";
}

[[nodiscard]] inline float half_to_float(std::uint16_t half) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16U;
  const std::uint32_t exponent = (half >> 10U) & 0x1FU;
  std::uint32_t mantissa = half & 0x3FFU;
  std::uint32_t bits = 0;
  if (exponent == 0x1F) {
    bits = sign | 0x7F800000U | (mantissa << 13U);
  } else if (exponent != 0) {
    bits = sign | ((exponent + 112U) << 23U) | (mantissa << 13U);
  } else if (mantissa != 0) {  // subnormal: normalise
    std::uint32_t shift = 0;
    while ((mantissa & 0x400U) == 0) {
      mantissa <<= 1U;
      ++shift;
    }
    bits = sign | ((113U - shift) << 23U) | ((mantissa & 0x3FFU) << 13U);
  } else {
    bits = sign;
  }
  return std::bit_cast<float>(bits);
}

// Rounds to nearest, halves to even.
[[nodiscard]] inline std::uint16_t float_to_half(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16U) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<std::uint16_t>(sign | 0x7E00U);
  if (magnitude >= 0x477FF000U) return static_cast<std::uint16_t>(sign | 0x7C00U);
  if (magnitude < 0x33000001U) return static_cast<std::uint16_t>(sign);
  std::uint32_t mantissa = (magnitude & 0x7FFFFFU) | 0x800000U;
  const std::uint32_t exponent = magnitude >> 23U;
  const std::uint32_t shift = exponent > 112U ? 13U : 126U - exponent;
  const std::uint32_t rest = mantissa & ((1U << shift) - 1U);
  const std::uint32_t half_way = 1U << (shift - 1U);
  mantissa >>= shift;
  if (rest > half_way || (rest == half_way && (mantissa & 1U) != 0)) ++mantissa;
  const std::uint32_t result = exponent > 112U ? ((exponent - 112U) << 10U) + mantissa - 0x400U : mantissa;
  return static_cast<std::uint16_t>(sign | result);
}

// Rounds to nearest, halves to even.
[[nodiscard]] inline std::uint16_t float_to_bf16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>(bits >> 16U | 0x40U);  // stays no number
  return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16U & 1U)) >> 16U);
}

}  // namespace camd::infer
