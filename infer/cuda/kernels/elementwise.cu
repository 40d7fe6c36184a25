// One thread for each element of y, or for eight of them. It runs the operators one after the other.
#include "infer/cuda/kernels/elementwise.hpp"

#include <algorithm>

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

CAMD_DEVICE_CALL float apply_rarely(Binary::Kind kind, float a, float b) { return apply(kind, a, b); }

// Which element of y a thread makes, and where that lies in each tensor. All offsets fit 32 bits: multiplications of 64
// bits would take longer than the operators.
template <int kRank>
struct Place {
  int index[kRank];
  // `block`: of those that share the elements.
  CAMD_DEVICE bool find(const std::int64_t* shape, unsigned block) {
    unsigned rest = block * static_cast<unsigned>(kThreads) + threadIdx.x;
#pragma unroll
    for (int d = kRank - 1; d >= 0; --d) {
      const auto size = static_cast<unsigned>(shape[d]);
      const unsigned next = rest / size;
      index[d] = static_cast<int>(rest - next * size);
      rest = next;
    }
    return rest == 0;
  }
  CAMD_DEVICE int in(const Strided& t) const {
    int at = 0;
#pragma unroll
    for (int d = 0; d < kRank; ++d) at += index[d] * static_cast<int>(t.strides[d]);
    return at;
  }
};

// Where a thread finds its elements. Found before the kernel in front has ended.
template <int kRank>
CAMD_DEVICE void find_inputs(const ElementwiseArguments& p, const Place<kRank>& place,
                             StridedElement (&found)[kMostElementwiseInputs]) {
#pragma unroll
  for (int i = 0; i < kMostElementwiseInputs; ++i) {
    if (i < p.input_count) found[i] = strided_element(p.x[i], place.in(p.x[i]));
  }
}

template <int kRank>
CAMD_DEVICE void compute(const ElementwiseArguments& p, const Place<kRank>& place,
                         const StridedElement (&inputs)[kMostElementwiseInputs]) {
  unsigned words[kMostElementwiseInputs];
#pragma unroll
  for (int i = 0; i < kMostElementwiseInputs; ++i) words[i] = i < p.input_count ? *inputs[i].word : 0;
  float values[kMostElementwiseInputs + kMostElementwiseOps];
#pragma unroll
  for (int i = 0; i < kMostElementwiseInputs; ++i) {
    if (i < p.input_count) values[i] = value_of(inputs[i], words[i]);
  }
  float result = 0.0F;
#pragma unroll 1
  for (int j = 0; j < p.op_count; ++j) {
    const ElementwiseOp& op = p.ops[j];
    const float a = values[op.a];
    result = activate_any(op.activation, op.b < 0 ? a : apply(op.kind, a, values[op.b]));
    values[kMostElementwiseInputs + j] = result;
  }
  store(p.y, place.in(p.y), result);
}

template <int kRank>
CAMD_KERNEL(kThreads, 1)
elementwise_kernel(CAMD_GRID_CONSTANT const ElementwiseArguments p) {
  Place<kRank> place;
  const bool inside = place.find(p.shape, blockIdx.x);
  StridedElement inputs[kMostElementwiseInputs];
  find_inputs(p, place, inputs);
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (inside) compute(p, place, inputs);
}

// What a kernel of several programs needs besides their arguments.
struct Together {
  ElementwisesArguments all;
  unsigned blocks[kMostElementwise] = {};  // of each program
};
template <int kRank>
CAMD_KERNEL(kThreads, 1)
elementwises_kernel(CAMD_GRID_CONSTANT const Together p) {
  unsigned block = blockIdx.x;
  int which = 0;
  while (which + 1 < p.all.count && block >= p.blocks[which]) block -= p.blocks[which++];
  const ElementwiseArguments& own = p.all.programs[which];
  Place<kRank> place;
  const bool inside = place.find(own.shape, block);
  StridedElement inputs[kMostElementwiseInputs];
  find_inputs(own, place, inputs);
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (inside) compute(own, place, inputs);
}

// Tensors of any size.
CAMD_KERNEL(kThreads, 1) elementwise_far_kernel(const ElementwiseArguments p) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  std::int64_t index[kMaxRank];
  if (!indices_of(p.shape, p.rank, index)) return;
  const auto position = [&](const Strided& t) {
    std::int64_t at = 0;
    for (int d = 0; d < kMaxRank; ++d) at += d < p.rank ? index[d] * t.strides[d] : 0;
    return at;
  };
  float values[kMostElementwiseInputs + kMostElementwiseOps];
  for (int i = 0; i < p.input_count; ++i) values[i] = load(p.x[i], position(p.x[i]));
  float result = 0.0F;
  for (int j = 0; j < p.op_count; ++j) {
    const ElementwiseOp& op = p.ops[j];
    const float a = values[op.a];
    result = activate_any(op.activation, op.b < 0 ? a : apply(op.kind, a, values[op.b]));
    values[kMostElementwiseInputs + j] = result;
  }
  store(p.y, position(p.y), result);
}

// result = activation(a op b), eight times; the operator is chosen once.
CAMD_DEVICE void apply_eight(const ElementwiseOp& op, const float (&a)[8], const float (&b)[8], float (&result)[8]) {
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
#pragma unroll
    for (int k = 0; k < 8; ++k) result[k] = apply_rarely(op.kind, a[k], b[k]);
  }
  activate_each(op.activation, result);
}

// Eight elements of y side by side. The last of `p.shape` counts eights, and so do the last strides.
template <int kRank>
CAMD_KERNEL(kThreads, 1)
elementwise_eights_kernel(CAMD_GRID_CONSTANT const ElementwiseArguments p) {
  Place<kRank> place;
  const bool inside = place.find(p.shape, blockIdx.x);
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (!inside) return;
  const auto load_input = [&](float(&v)[8], const Strided& x) {
    if (x.strides[kRank - 1] != 0) return load_eight(v, x, place.in(x));
    const float one = load(x, place.in(x));
#pragma unroll
    for (float& value : v) value = one;
  };
  float result[8];
  if (p.op_count == 1 && p.input_count <= 2) {  // values stay in registers
    float first[8], second[8];
    load_input(first, p.x[0]);
    load_input(second, p.x[p.input_count - 1]);
    const bool swapped = p.ops[0].a == 1;
    if (swapped)
      apply_eight(p.ops[0], second, first, result);
    else
      apply_eight(p.ops[0], first, second, result);
    return store_eight(p.y, place.in(p.y), result);
  }
  float values[kMostElementwiseInputs + kMostElementwiseOps][8];
#pragma unroll
  for (int i = 0; i < kMostElementwiseInputs; ++i) {
    if (i < p.input_count) load_input(values[i], p.x[i]);
  }
#pragma unroll 1
  for (int j = 0; j < p.op_count; ++j) {
    const ElementwiseOp& op = p.ops[j];
    apply_eight(op, values[op.a], values[op.b < 0 ? op.a : op.b], result);
#pragma unroll
    for (int k = 0; k < 8; ++k) values[kMostElementwiseInputs + j][k] = result[k];
  }
  store_eight(p.y, place.in(p.y), result);
}

bool takes_eights(const ElementwiseArguments& p) {
  const int last = p.rank - 1;
  // Fewer threads than the GPU has places for would each take longer.
  if (p.shape[last] % 8 != 0 || count_of(p.shape, p.rank) < kMostSmallElements) return false;
  bool fits = by_eights(p.y, p.shape, p.rank, last, p.y.strides[last]);
  for (int i = 0; i < p.input_count; ++i)
    fits = fits && (p.x[i].strides[last] == 0 || by_eights(p.x[i], p.shape, p.rank, last, p.x[i].strides[last]));
  return fits;
}

// All tensors of an ElementwiseArguments.
template <typename Use>
void each_tensor(ElementwiseArguments& p, const Use& use) {
  for (int i = 0; i < p.input_count; ++i) use(p.x[i]);
  use(p.y);
}

// Neighbouring dimensions that all tensors walk through with one stride become one; at least one dimension is left.
void join_dimensions(ElementwiseArguments& p) {
  int kept = 0;
  for (int d = 0; d < p.rank; ++d) {
    if (p.shape[d] == 1) continue;
    bool joins = kept > 0;
    each_tensor(p, [&](const Strided& t) { joins = joins && t.strides[kept - 1] == t.strides[d] * p.shape[d]; });
    const int to = joins ? kept - 1 : kept++;
    p.shape[to] = joins ? p.shape[to] * p.shape[d] : p.shape[d];
    each_tensor(p, [&](Strided& t) { t.strides[to] = t.strides[d]; });
  }
  if (kept == 0) p.shape[kept++] = 1;
  p.rank = kept;
}

// Leading dimensions of one element until there are so many.
void widen(ElementwiseArguments& p, int rank) {
  const int more = rank - p.rank;
  const auto shift = [&](std::int64_t* values, std::int64_t first) {
    std::copy_backward(values, values + p.rank, values + rank);
    std::fill(values, values + more, first);
  };
  shift(p.shape, 1);
  each_tensor(p, [&](Strided& t) { shift(t.strides, 0); });
  p.rank = rank;
}

template <int kRank>
int run(ElementwiseArguments p, const LaunchContext& context) {
  if (!takes_eights(p))
    return launch(elementwise_kernel<kRank>, blocks_for(count_of(p.shape, kRank)), kThreads, 0, context, p);
  p.shape[kRank - 1] /= 8;
  each_tensor(p, [](Strided& t) { t.strides[kRank - 1] *= 8; });
  return launch(elementwise_eights_kernel<kRank>, blocks_for(count_of(p.shape, kRank)), kThreads, 0, context, p);
}

}  // namespace

int elementwise(const ElementwiseArguments& arguments, const LaunchContext& context) {
  ElementwiseArguments p = arguments;
  join_dimensions(p);
  if (!is_near(p))
    return launch(elementwise_far_kernel, blocks_for(count_of(p.shape, p.rank)), kThreads, 0, context, p);
  static_assert(kMaxRank == 6);
  switch (p.rank) {
    case 1: return run<1>(p, context);
    case 2: return run<2>(p, context);
    case 3: return run<3>(p, context);
    case 4: return run<4>(p, context);
    case 5: return run<5>(p, context);
    default: return run<6>(p, context);
  }
}

int elementwises(const ElementwisesArguments& arguments, const LaunchContext& context) {
  Together together{arguments};
  const auto programs = together.all.programs;
  int rank = 1;
  for (int i = 0; i < arguments.count; ++i) {
    join_dimensions(programs[i]);
    rank = std::max(rank, programs[i].rank);
  }
  unsigned blocks = 0;
  for (int i = 0; i < arguments.count; ++i) {
    widen(programs[i], rank);
    together.blocks[i] = blocks_for(count_of(programs[i].shape, rank)).x;
    blocks += together.blocks[i];
  }
  const dim3 grid(blocks, 1, 1);
  switch (rank) {
    case 1: return launch(elementwises_kernel<1>, grid, kThreads, 0, context, together);
    case 2: return launch(elementwises_kernel<2>, grid, kThreads, 0, context, together);
    case 3: return launch(elementwises_kernel<3>, grid, kThreads, 0, context, together);
    case 4: return launch(elementwises_kernel<4>, grid, kThreads, 0, context, together);
    case 5: return launch(elementwises_kernel<5>, grid, kThreads, 0, context, together);
    default: return launch(elementwises_kernel<6>, grid, kThreads, 0, context, together);
  }
}

}  // namespace camd::infer::cuda
