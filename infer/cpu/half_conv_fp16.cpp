// infer/cpu/conv.inc for f16, with FEAT_FP16 of 64-bit ARM (this file alone is compiled with those flags).
#include <arm_neon.h>

#include "infer/cpu/half_conv.hpp"
#include "infer/cpu/kernels.hpp"
#include "infer/graph/reference.hpp"

namespace camd::infer::cpu {
namespace {

#include "infer/cpu/conv.inc"

}  // namespace

void conv_fp16(const ConvArguments& a, int first, int count, int y0, int y1) noexcept { conv(a, first, count, y0, y1); }

}  // namespace camd::infer::cpu
