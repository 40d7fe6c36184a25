// Dense convolutions in half precision: conv.inc compiled for processors that compute with f16 or bf16.
//
// Threads: as Kernels::conv. Private to infer/cpu/.
#pragma once

namespace camd::infer::cpu {

struct ConvArguments;

// As Kernels::conv, with weights of that type. Only where the machine has the instructions: half_kernels() asks.
void conv_fp16(const ConvArguments& a, int first, int count, int y0, int y1) noexcept;
void conv_bf16(const ConvArguments& a, int first, int count, int y0, int y1) noexcept;

// Kernels::together of conv_bf16(): the channels that one product of its instruction adds.
#if defined(__aarch64__)
inline constexpr int kBf16Together = 4;
#else
inline constexpr int kBf16Together = 2;
#endif

}  // namespace camd::infer::cpu
