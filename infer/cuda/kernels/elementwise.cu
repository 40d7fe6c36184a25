// One thread for each element of y, or for eight of them. It runs the operators one after the other.
#include "infer/cuda/kernels/elementwise.hpp"

#include "infer/cuda/kernels/activation.cuh"
#include "infer/cuda/kernels/eight.cuh"
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

// Eight elements of y side by side. The last of `p.shape` counts eights.
CAMD_KERNEL(kThreads, 1) elementwise_eights_kernel(CAMD_GRID_CONSTANT const ElementwiseArguments p) {
  let_next_kernel_start();
  wait_for_previous_kernel();
  std::int64_t index[kMaxRank];
  if (!indices_of(p.shape, p.rank, index)) return;
  const auto position = [&](const Strided& t) {
    std::int64_t at = 0;
    for (int d = 0; d < kMaxRank; ++d) at += d < p.rank ? index[d] * t.strides[d] * (d == p.rank - 1 ? 8 : 1) : 0;
    return at;
  };
  float values[kMostElementwiseInputs + kMostElementwiseOps][8];
#pragma unroll
  for (int i = 0; i < kMostElementwiseInputs; ++i) {
    if (i >= p.input_count) continue;
    const Strided& x = p.x[i];
    if (x.strides[p.rank - 1] != 0) {
      load_eight(values[i], x, position(x));
    } else {
      const float one = load(x, position(x));
#pragma unroll
      for (float& v : values[i]) v = one;
    }
  }
  float result[8] = {};
#pragma unroll 1
  for (int j = 0; j < p.op_count; ++j) {
    const ElementwiseOp& op = p.ops[j];
    const float(&a)[8] = values[op.a];
    const float(&b)[8] = values[op.b < 0 ? op.a : op.b];
    if (op.b < 0) {
#pragma unroll
      for (int k = 0; k < 8; ++k) result[k] = a[k];
    } else if (op.kind == Binary::Kind::kAdd) {
#pragma unroll
      for (int k = 0; k < 8; ++k) result[k] = a[k] + b[k];
    } else if (op.kind == Binary::Kind::kMul) {
#pragma unroll
      for (int k = 0; k < 8; ++k) result[k] = a[k] * b[k];
    } else {
#pragma unroll 1
      for (int k = 0; k < 8; ++k) result[k] = apply(op.kind, a[k], b[k]);
    }
    activate_each(op.activation, result);
#pragma unroll
    for (int k = 0; k < 8; ++k) values[kMostElementwiseInputs + j][k] = result[k];
  }
  store_eight(p.y, position(p.y), result);
}

bool takes_eights(const ElementwiseArguments& p) {
  const int last = p.rank - 1;
  // Fewer threads than the GPU has places for would each take longer.
  constexpr std::int64_t kManyElements = std::int64_t{1} << 18;
  if (p.rank < 1 || p.shape[last] % 8 != 0 || count_of(p.shape, p.rank) < kManyElements) return false;
  bool fits = by_eights(p.y, p.shape, p.rank, last, p.y.strides[last]);
  for (int i = 0; i < p.input_count; ++i)
    fits = fits && (p.x[i].strides[last] == 0 || by_eights(p.x[i], p.shape, p.rank, last, p.x[i].strides[last]));
  return fits;
}

}  // namespace

int elementwise(const ElementwiseArguments& p, const LaunchContext& context) {
  if (takes_eights(p)) {
    ElementwiseArguments eights = p;
    eights.shape[p.rank - 1] /= 8;
    return launch(elementwise_eights_kernel, blocks_for(count_of(eights.shape, p.rank)), kThreads, 0, context, eights);
  }
  return launch(elementwise_kernel, blocks_for(count_of(p.shape, p.rank)), kThreads, 0, context, p);
}

}  // namespace camd::infer::cuda
