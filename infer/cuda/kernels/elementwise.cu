// One thread for each element of y. It runs the operators one after the other.
#include "infer/cuda/kernels/elementwise.hpp"

#include "infer/cuda/kernels/activation.cuh"
#include "infer/cuda/kernels/launch.cuh"
#include "infer/cuda/kernels/strided.cuh"

namespace camd::infer::cuda {
namespace {

constexpr int kThreads = kStridedThreads;

CAMD_DEVICE float apply(Binary::Kind kind, float a, float b) {
  switch (kind) {
    case Binary::Kind::kAdd: return a + b;
    case Binary::Kind::kSub: return a - b;
    case Binary::Kind::kMul: return a * b;
    case Binary::Kind::kDiv: return a / b;
    case Binary::Kind::kMin: return fminf(a, b);
    case Binary::Kind::kMax: return fmaxf(a, b);
    case Binary::Kind::kPow: return powf(a, b);
    case Binary::Kind::kPrelu: return a < 0.0F ? a * b : a;
    case Binary::Kind::kModulo:
    case Binary::Kind::kRemainder: {
      const float rest = fmodf(a, b);
      return kind == Binary::Kind::kModulo && rest != 0.0F && (rest < 0.0F) != (b < 0.0F) ? rest + b : rest;
    }
    case Binary::Kind::kEqual: return a == b ? 1.0F : 0.0F;
    case Binary::Kind::kLess: return a < b ? 1.0F : 0.0F;
    case Binary::Kind::kLessOrEqual: return a <= b ? 1.0F : 0.0F;
  }
  return a;
}

CAMD_KERNEL(kThreads, 1) elementwise_kernel(const ElementwiseArguments p) {
  let_next_kernel_start();
  wait_for_previous_kernel();
  std::int64_t index[kMaxRank];
  if (!indices_of(p.shape, p.rank, index)) return;
  const auto position = [&](const Strided& t) {
    std::int64_t at = 0;
    for (int d = 0; d < kMaxRank; ++d) at += d < p.rank ? index[d] * t.strides[d] : 0;
    return at;
  };
  float values[kMostElementwiseInputs + kMostElementwiseOps];
#pragma unroll
  for (int i = 0; i < kMostElementwiseInputs; ++i) {
    if (i < p.input_count) values[i] = load(p.x[i], position(p.x[i]));
  }
  float result = 0.0F;
#pragma unroll 1
  for (int j = 0; j < p.op_count; ++j) {
    const ElementwiseOp& op = p.ops[j];
    const float a = values[op.a];
    result = activate_any(op.activation, op.b < 0 ? a : apply(op.kind, a, values[op.b]));
    values[kMostElementwiseInputs + j] = result;
  }
  store(p.y, position(p.y), result);
}

}  // namespace

int elementwise(const ElementwiseArguments& p, const LaunchContext& context) {
  return launch(elementwise_kernel, blocks_for(count_of(p.shape, p.rank)), kThreads, 0, context, p);
}

}  // namespace camd::infer::cuda
