// The activation functions of infer/graph/graph.hpp on the GPU, in f32.
#pragma once

#include "infer/cuda/kernels/activation.hpp"
#include "infer/cuda/kernels/primitives.cuh"

namespace camd::infer::cuda {

CAMD_DEVICE float sigmoid(float v) { return 1.0F / (1.0F + expf(-v)); }
CAMD_DEVICE float softplus(float v) { return fmaxf(v, 0.0F) + log1pf(expf(-fabsf(v))); }

// The functions of most networks come first: they are found after a compare or two.
CAMD_DEVICE float activate_any(const Activation& activation, float v) {
  switch (activation.function) {
    case Function::kNone: return v;
    case Function::kRelu: return fmaxf(v, 0.0F);
    case Function::kLeakyRelu: return v < 0.0F ? v * activation.a : v;
    case Function::kClip: return fminf(fmaxf(v, activation.a), activation.b);
    case Function::kSigmoid: return sigmoid(v);
    case Function::kSilu: return v * sigmoid(v);
    case Function::kHardSigmoid: return fminf(fmaxf(activation.a * v + activation.b, 0.0F), 1.0F);
    case Function::kHardSwish: return v * fminf(fmaxf(v / 6.0F + 0.5F, 0.0F), 1.0F);
    case Function::kTanh: return tanhf(v);
    case Function::kElu: return v < 0.0F ? activation.a * expm1f(v) : v;
    case Function::kSelu: return activation.b * (v <= 0.0F ? activation.a * expm1f(v) : v);
    case Function::kSoftplus: return softplus(v);
    case Function::kSoftsign: return v / (1.0F + fabsf(v));
    case Function::kMish: return v * tanhf(softplus(v));
    case Function::kGelu: return 0.5F * v * (1.0F + erff(v * 0.70710678F));
    case Function::kErf: return erff(v);
    case Function::kExp: return expf(v);
    case Function::kLog: return logf(v);
    case Function::kSqrt: return sqrtf(v);
    case Function::kReciprocal: return 1.0F / v;
    case Function::kAbs: return fabsf(v);
    case Function::kNegate: return -v;
    case Function::kFloor: return floorf(v);
    case Function::kCeil: return ceilf(v);
    case Function::kRound: return rintf(v);
    case Function::kSign: return v > 0.0F ? 1.0F : v < 0.0F ? -1.0F : 0.0F;
    case Function::kSin: return sinf(v);
    case Function::kCos: return cosf(v);
    case Function::kTruncate: return truncf(v);
  }
  return v;
}

CAMD_DEVICE_CALL float activate_rarely(const Activation& activation, float v) { return activate_any(activation, v); }
// activate_any() of several values. The function is chosen once; values stay in registers.
template <int kCount>
CAMD_DEVICE void activate_each(const Activation& activation, float (&v)[kCount]) {
  const auto all = [&v](auto function) {
#pragma unroll
    for (float& value : v) value = function(value);
  };
  switch (activation.function) {
    case Function::kNone: break;
    case Function::kRelu: all([](float x) { return fmaxf(x, 0.0F); }); break;
    case Function::kLeakyRelu: all([&](float x) { return x < 0.0F ? x * activation.a : x; }); break;
    case Function::kClip: all([&](float x) { return fminf(fmaxf(x, activation.a), activation.b); }); break;
    case Function::kSigmoid: all([](float x) { return sigmoid(x); }); break;
    case Function::kSilu: all([](float x) { return x * sigmoid(x); }); break;
    case Function::kHardSwish: all([](float x) { return x * fminf(fmaxf(x / 6.0F + 0.5F, 0.0F), 1.0F); }); break;
    default: all([&](float x) { return activate_rarely(activation, x); }); break;
  }
}

// An activation as the tensor-core kernels apply it: bounds, then the function if it is `special`, which is if it is
// more than bounds. Most networks only bound their values; that costs two instructions.
struct Bounds {
  float low, high;
  bool special;
};
CAMD_DEVICE Bounds bounds_of(const Activation& activation) {
  const bool clip = activation.function == Function::kClip;
  const bool relu = activation.function == Function::kRelu;
  return {clip   ? activation.a
          : relu ? 0.0F
                 : -INFINITY,
          clip ? activation.b : INFINITY, !clip && !relu && activation.function != Function::kNone};
}
// 1 + exp(-x), whose reciprocal is the sigmoid of x. At most 1 + 2^30, so that a product of four stays within f32. In
// f16 a sigmoid below 2^-30 is 0 anyway.
CAMD_DEVICE float one_and_exp(float x) {
  constexpr float kLog2E = 1.44269504F, kMostExponent = 30.0F;
  return 1.0F + quick_exp2(fminf(x * -kLog2E, kMostExponent));
}
// Exponentials and reciprocals take longest: a multiprocessor makes 16 of them in a cycle, and 128 products. The
// reciprocal of a product gives those of its factors by products. So four numbers share one.
CAMD_DEVICE void four_sigmoids(const float (&x)[4], float (&s)[4]) {
  const float a = one_and_exp(x[0]), b = one_and_exp(x[1]), c = one_and_exp(x[2]), d = one_and_exp(x[3]);
  const float ab = a * b, cd = c * d, all = quick_reciprocal(ab * cd);
  const float by_ab = all * cd, by_cd = all * ab;
  s[0] = by_ab * b;
  s[1] = by_ab * a;
  s[2] = by_cd * d;
  s[3] = by_cd * c;
}
// Calls use(value, its sigmoid) for each.
template <int kCount, typename Use>
CAMD_DEVICE void with_sigmoids(float (&v)[kCount], Use use) {
#pragma unroll
  for (int i = 0; i + 4 <= kCount; i += 4) {
    const float x[4] = {v[i], v[i + 1], v[i + 2], v[i + 3]};
    float s[4];
    four_sigmoids(x, s);
#pragma unroll
    for (int k = 0; k < 4; ++k) use(v[i + k], s[k]);
  }
#pragma unroll
  for (int i = kCount / 4 * 4; i < kCount; ++i) use(v[i], quick_reciprocal(one_and_exp(v[i])));
}

// The function is chosen once for all values: to choose it for each would cost more than the function itself.
template <int kCount>
CAMD_DEVICE void activate_specials(const Activation& activation, float (&v)[kCount]) {
  const auto all = [&v](auto function) {
#pragma unroll
    for (float& value : v) value = function(value);
  };
  switch (activation.function) {
    case Function::kLeakyRelu: all([&](float x) { return x < 0.0F ? x * activation.a : x; }); break;
    case Function::kSigmoid: with_sigmoids(v, [](float& x, float s) { x = s; }); break;
    case Function::kSilu: with_sigmoids(v, [](float& x, float s) { x *= s; }); break;
    case Function::kHardSwish:
      all([](float x) { return x * fminf(fmaxf(x * (1.0F / 6.0F) + 0.5F, 0.0F), 1.0F); });
      break;
    default: break;
  }
}
// kSpecial: the kernel may have special activations. Kernels without are built without that code: a block runs most of
// its instructions once, so each has to be fetched first, and a branch for each value would cost more than the
// function.
template <bool kSpecial, int kCount>
CAMD_DEVICE void activate_all(const Activation& activation, const Bounds& bounds, float (&v)[kCount]) {
#pragma unroll
  for (float& value : v) value = fminf(fmaxf(value, bounds.low), bounds.high);
  if constexpr (kSpecial) {
    if (bounds.special) activate_specials(activation, v);
  }
}

// Bounds for two values at a time, applied after rounding to f16. Rounding keeps the order of numbers, so the result is
// the same.
struct HalfBounds {
  __half2 low, high;
};
CAMD_DEVICE HalfBounds half_bounds(const Bounds& bounds) {
  return {__float2half2_rn(bounds.low), __float2half2_rn(bounds.high)};
}
CAMD_DEVICE unsigned clamp_halfs(unsigned both, const HalfBounds& bounds) {
  const __half2 v = __hmin2(__hmax2(*reinterpret_cast<const __half2*>(&both), bounds.low), bounds.high);
  return *reinterpret_cast<const unsigned*>(&v);
}
CAMD_DEVICE uint2 clamp_halfs(const uint2& four, const HalfBounds& bounds) {
  return make_uint2(clamp_halfs(four.x, bounds), clamp_halfs(four.y, bounds));
}

}  // namespace camd::infer::cuda
