// infer/cpu/conv.inc for bf16, with AVX512_BF16 of x86-64 or FEAT_BF16 of 64-bit ARM (this file alone is compiled with
// those flags).
#if defined(__aarch64__)
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif

#include "infer/cpu/half_conv.hpp"
#include "infer/cpu/kernels.hpp"
#include "infer/graph/reference.hpp"

namespace camd::infer::cpu {
namespace {

#include "infer/cpu/conv.inc"

}  // namespace

void conv_bf16(const ConvArguments& a, int first, int count, int y0, int y1) noexcept { conv(a, first, count, y0, y1); }

}  // namespace camd::infer::cpu
