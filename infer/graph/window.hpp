// The geometry that convolutions and pooling share: how far windows reach along one axis of a picture.
//
// Threads: pure functions, [any]. Formulas: onnx.ai/onnx/operators, Conv and ConvTranspose.
// Forced inline: infer/cpu compiles them with several instruction sets.
#pragma once

#include <cstdint>

namespace camd::infer {

// Positions from a window's first tap to its last, both included.
[[nodiscard, gnu::always_inline]] constexpr std::int64_t window_span(std::int64_t kernel,
                                                                     std::int64_t dilation) noexcept {
  return (kernel - 1) * dilation + 1;
}

// Positions that `count` windows, `stride` apart, cover from the first tap of the first to the last tap of the last.
// A convolution reads so many for `count` outputs; a transposed one of `count` inputs writes so many.
[[nodiscard, gnu::always_inline]] constexpr std::int64_t window_reach(std::int64_t count, std::int64_t kernel,
                                                                      std::int64_t stride,
                                                                      std::int64_t dilation) noexcept {
  return (count - 1) * stride + window_span(kernel, dilation);
}

}  // namespace camd::infer
