#include "infer/graph/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.hpp"
#include "infer/graph/reference_parts.hpp"
#include "infer/graph/selection.hpp"

namespace camd::infer {
namespace {

using reference::at;
using reference::broadcast_index;
using reference::data;
using reference::for_each_index;
using reference::Index;
using reference::Inputs;
using reference::make_result;
using reference::run_float;
using reference::strides_of;

[[noreturn]] void wrong_type(const Op& op) {
  throw base::Error(base::ErrorKind::kModel, op.origin + ": not possible on integers");
}

// ---- Data movement: source(where) gives the flat index of input 0 to read.
template <typename T, typename Source>
Constant move(const Constant& x, const Shape& shape, Source source) {
  Constant result = make_result<T>(shape);
  for_each_index(shape, [&](Index flat, const std::vector<Index>& where) {
    data<T>(result)[at(flat)] = data<T>(x)[at(source(where))];
  });
  return result;
}

template <typename T>
Constant run(const Transpose& o, const Inputs& in, const Shape& shape) {
  const auto strides = strides_of(in[0]->shape);
  return move<T>(*in[0], shape, [&](const std::vector<Index>& where) {
    Index i = 0;
    for (std::size_t d = 0; d < where.size(); ++d) i += where[d] * strides[at(o.permutation[d])];
    return i;
  });
}

template <typename T>
Constant run(const Reshape&, const Inputs& in, const Shape& shape) {
  Constant result = *in[0];
  result.shape = shape;
  return result;
}

template <typename T>
Constant run(const Slice& o, const Inputs& in, const Shape& shape) {
  const auto strides = strides_of(in[0]->shape);
  return move<T>(*in[0], shape, [&](const std::vector<Index>& where) {
    Index i = 0;
    for (std::size_t d = 0; d < where.size(); ++d) i += (o.start[d] + where[d] * o.step[d]) * strides[d];
    return i;
  });
}

template <typename T>
Constant run(const Gather& o, const Inputs& in, const Shape& shape) {
  const auto strides = strides_of(in[0]->shape);
  return move<T>(*in[0], shape, [&](const std::vector<Index>& where) {
    Index i = 0;
    for (std::size_t d = 0; d < where.size(); ++d) {
      i += (static_cast<int>(d) == o.axis ? o.indices[at(where[d])] : where[d]) * strides[d];
    }
    return i;
  });
}

template <typename T>
Constant run(const Concat& o, const Inputs& in, const Shape& shape) {
  Constant result = make_result<T>(shape);
  const auto strides = strides_of(shape);
  Index offset = 0;
  for (const Constant* part : in) {
    for_each_index(part->shape, [&](Index flat, const std::vector<Index>& where) {
      Index i = offset * strides[at(o.axis)];
      for (std::size_t d = 0; d < where.size(); ++d) i += where[d] * strides[d];
      data<T>(result)[at(i)] = data<T>(*part)[at(flat)];
    });
    offset += part->shape[at(o.axis)];
  }
  return result;
}

template <typename T>
Constant run(const Pad& o, const Inputs& in, const Shape& shape) {
  const Constant& x = *in[0];
  const auto strides = strides_of(x.shape);
  const T fill = std::is_integral_v<T> && !(std::abs(o.value) < 9.2e18F) ? T{0} : static_cast<T>(o.value);
  Constant result = make_result<T>(shape);
  for_each_index(shape, [&](Index flat, const std::vector<Index>& where) {
    Index i = 0;
    bool outside = false;
    for (std::size_t d = 0; d < where.size(); ++d) {
      Index w = where[d] - o.before[d];
      const Index size = x.shape[d];
      if (o.mode == Pad::Mode::kConstant) outside = outside || w < 0 || w >= size;
      if (o.mode == Pad::Mode::kReflect && size > 1) {
        while (w < 0 || w >= size) w = w < 0 ? -w : 2 * (size - 1) - w;
      }
      i += std::clamp<Index>(w, 0, size - 1) * strides[d];
    }
    data<T>(result)[at(flat)] = outside ? fill : data<T>(x)[at(i)];
  });
  return result;
}

// ---- Elementwise
template <typename T>
T combine(Binary::Kind kind, T a, T b) {
  // Integers come from the file and may overflow: they wrap, which whoever uses the result finds out of range.
  using W = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
  const auto wa = static_cast<W>(a);
  const auto wb = static_cast<W>(b);
  switch (kind) {
    case Binary::Kind::kAdd: return static_cast<T>(wa + wb);
    case Binary::Kind::kSub: return static_cast<T>(wa - wb);
    case Binary::Kind::kMul: return static_cast<T>(wa * wb);
    case Binary::Kind::kDiv:
      if constexpr (std::is_integral_v<T>) {
        if (b == 0) return 0;
        return b == -1 ? static_cast<T>(W{0} - wa) : a / b;
      } else {
        return a / b;
      }
    case Binary::Kind::kMin: return std::min(a, b);
    case Binary::Kind::kMax: return std::max(a, b);
    case Binary::Kind::kPow: {
      const double power = std::pow(static_cast<double>(a), static_cast<double>(b));
      if constexpr (std::is_integral_v<T>) return std::abs(power) < 9.2e18 ? static_cast<T>(power) : T{0};
      return static_cast<T>(power);
    }
    case Binary::Kind::kPrelu: return a < 0 ? a * b : a;
    case Binary::Kind::kModulo:
    case Binary::Kind::kRemainder: {
      T rest{};
      if constexpr (std::is_integral_v<T>) {
        if (b == 0 || b == -1) return 0;
        rest = a % b;
      } else {
        rest = std::fmod(a, b);
      }
      return kind == Binary::Kind::kModulo && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    }
    case Binary::Kind::kEqual: return a == b ? T{1} : T{0};
    case Binary::Kind::kLess: return a < b ? T{1} : T{0};
    case Binary::Kind::kLessOrEqual: return a <= b ? T{1} : T{0};
  }
  return a;
}

template <typename T>
Constant run(const Binary& o, const Inputs& in, const Shape& shape) {
  const Constant& a = *in[0];
  const Constant& b = *in[1];
  const auto sa = strides_of(a.shape);
  const auto sb = strides_of(b.shape);
  Constant result = make_result<T>(shape);
  for_each_index(shape, [&](Index flat, const std::vector<Index>& where) {
    data<T>(result)[at(flat)] = combine<T>(o.kind, data<T>(a)[at(broadcast_index(where, a.shape, sa))],
                                           data<T>(b)[at(broadcast_index(where, b.shape, sb))]);
  });
  return result;
}

// ---- Picking by numbers
template <typename T>
Constant run(const CumSum& o, const Inputs& in, const Shape& shape) {
  Constant result = make_result<T>(shape);
  const Index size = shape[at(o.axis)], stride = strides_of(shape)[at(o.axis)];
  for_each_index(shape, [&](Index flat, const std::vector<Index>& where) {
    if (where[at(o.axis)] != 0) return;
    T sum{};
    for (Index n = 0; n < size; ++n) {
      const std::size_t i = at(flat + (o.reverse ? size - 1 - n : n) * stride);
      const T next = combine<T>(Binary::Kind::kAdd, sum, data<T>(*in[0])[i]);
      data<T>(result)[i] = o.exclusive ? sum : next;
      sum = next;
    }
  });
  return result;
}

Constant as_floats(const Constant& c) {
  if (c.type == DataType::kF32) return c;
  return {DataType::kF32, c.shape, {c.i64.begin(), c.i64.end()}, {}};
}
Constant as_integers(const Constant& c) {
  Constant result{DataType::kI64, c.shape, {}, {}};
  for (const float v : c.f32) result.i64.push_back(std::abs(v) < 9.2e18F ? static_cast<Index>(v) : 0);
  return result;
}

Constant run_float(const TopK& o, const Inputs& in, const Shape& shape) {
  const Constant& x = *in[0];
  Constant result = make_result<float>(shape);
  const Index size = x.shape[at(o.axis)], stride = strides_of(x.shape)[at(o.axis)];
  std::vector<std::int32_t> scratch(at(size));
  const Index lines = size == 0 ? 0 : element_count(x.shape) / size;
  for (Index line = 0; line < lines; ++line) {
    const Index outer = line / stride, inner = line % stride;
    top_k(o, x.f32.data() + outer * size * stride + inner, size, stride,
          result.f32.data() + outer * o.count * stride + inner, stride, scratch.data());
  }
  return result;
}

Constant run_float(const Pick&, const Inputs& in, const Shape& shape) {
  Constant result = make_result<float>(shape);
  const PickShape s = pick_shape(in[0]->shape, in[1]->shape);
  pick(s, in[0]->f32.data(), in[1]->f32.data(), result.f32.data(), 0, s.outer);
  return result;
}

Constant run_float(const Scatter& o, const Inputs& in, const Shape& shape) {
  Constant result = make_result<float>(shape);
  const PickShape s = pick_shape(in[0]->shape, in[1]->shape);
  scatter(o, s, in[0]->f32.data(), in[1]->f32.data(), in[2]->f32.data(), result.f32.data(), 0, s.outer);
  return result;
}

Constant run_float(const GridSample& o, const Inputs& in, const Shape& shape) {
  const Shape& x = in[0]->shape;
  Constant result = make_result<float>(shape);
  const GridPlane s{x[2], x[3], shape[2] * shape[3]};
  for (Index n = 0; n < shape[0]; ++n) {
    grid_sample(o, s, in[0]->f32.data() + n * x[1] * s.height * s.width, x[1], in[1]->f32.data() + n * s.points * 2,
                result.f32.data() + n * x[1] * s.points);
  }
  return result;
}

Constant run_float(const Select&, const Inputs& in, const Shape& shape) {
  Constant result = make_result<float>(shape);
  const SelectShape s = select_shape(in[0]->shape, in[1]->shape, in[2]->shape, shape);
  select(s, in[0]->f32.data(), in[1]->f32.data(), in[2]->f32.data(), result.f32.data());
  return result;
}

// Operators that pick take integers beside numbers: they work on f32, and what they make is of the picked type.
template <typename O>
concept Picks = std::is_same_v<O, TopK> || std::is_same_v<O, Pick> || std::is_same_v<O, Scatter> ||
    std::is_same_v<O, GridSample> || std::is_same_v<O, Select>;

template <Picks O>
Constant run_picking(const O& o, const Inputs& in, const Shape& shape) {
  std::vector<Constant> floats;
  Inputs inputs;
  for (const Constant* c : in) floats.push_back(as_floats(*c));
  for (const Constant& c : floats) inputs.push_back(&c);
  Constant result = run_float(o, inputs, shape);
  const Constant& picked = *in[std::is_same_v<O, Select> ? 1 : 0];
  const bool whole = std::is_same_v<O, TopK> || picked.type == DataType::kI64;
  return whole ? as_integers(result) : result;
}

Constant run_float(const Unary& o, const Inputs& in, const Shape& shape) {
  Constant result = make_result<float>(shape);
  for (std::size_t i = 0; i < result.f32.size(); ++i) {
    result.f32[i] = static_cast<float>(apply(o.function, static_cast<double>(in[0]->f32[i])));
  }
  return result;
}

template <typename T>
Constant run(const Reduce& o, const Inputs& in, const Shape& shape) {
  using Kind = Reduce::Kind;
  const Constant& x = *in[0];
  const auto strides = strides_of(shape);
  const double start = o.kind == Kind::kMax       ? -std::numeric_limits<double>::infinity()
                       : o.kind == Kind::kMin     ? std::numeric_limits<double>::infinity()
                       : o.kind == Kind::kProduct ? 1.0
                                                  : 0.0;
  std::vector<double> sums(at(element_count(shape)), start);
  const auto target = [&](const std::vector<Index>& where) { return at(broadcast_index(where, shape, strides)); };
  std::vector<double> shift(sums.size(), -std::numeric_limits<double>::infinity());
  if (o.kind == Kind::kLogSumExp) {
    for_each_index(x.shape, [&](Index flat, const std::vector<Index>& where) {
      double& s = shift[target(where)];
      s = std::max(s, static_cast<double>(data<T>(x)[at(flat)]));
    });
  }
  for_each_index(x.shape, [&](Index flat, const std::vector<Index>& where) {
    const auto v = static_cast<double>(data<T>(x)[at(flat)]);
    double& sum = sums[target(where)];
    switch (o.kind) {
      case Kind::kMean:
      case Kind::kSum: sum += v; break;
      case Kind::kMax: sum = std::max(sum, v); break;
      case Kind::kMin: sum = std::min(sum, v); break;
      case Kind::kProduct: sum *= v; break;
      case Kind::kL1: sum += std::abs(v); break;
      case Kind::kL2:
      case Kind::kSumSquare: sum += v * v; break;
      case Kind::kLogSumExp: sum += std::exp(v - shift[target(where)]); break;
    }
  });
  const double share =
      sums.empty() ? 1.0 : static_cast<double>(sums.size()) / static_cast<double>(element_count(x.shape));
  Constant result = make_result<T>(shape);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    double v = sums[i];
    if (o.kind == Kind::kMean) v *= share;
    if (o.kind == Kind::kL2) v = std::sqrt(v);
    if (o.kind == Kind::kLogSumExp) v = shift[i] + std::log(v);
    // An integer out of range is as good as any other: whoever uses it finds it out of bounds.
    data<T>(result)[i] = std::is_integral_v<T> && !(std::abs(v) < 9.2e18) ? T{0} : static_cast<T>(v);
  }
  return result;
}

// Conv's residual and the activation, whose order the op decides.
void finish(const Op& op, const Inputs& in, Constant& result) {
  const auto* conv = std::get_if<Conv>(&op.operation);
  const Constant* residual = conv != nullptr && in.size() > 3 ? in[3] : nullptr;
  if (residual == nullptr && op.activation.function == Function::kNone) return;
  for (std::size_t i = 0; i < result.f32.size(); ++i) {
    auto v = static_cast<double>(result.f32[i]);
    const double r = residual != nullptr ? static_cast<double>(residual->f32[i]) : 0.0;
    v = conv != nullptr && conv->activation_first ? apply(op.activation, v) + r : apply(op.activation, v + r);
    result.f32[i] = static_cast<float>(v);
  }
}

template <typename O>
concept MovesAnyType = requires(const O& o, const Inputs& in, const Shape& s) {
  run<std::int64_t>(o, in, s);
};

Constant run_integer(const Op& op, const Unary& o, const Inputs& in, const Shape& shape) {
  Constant result = make_result<std::int64_t>(shape);
  const auto negated = [](std::int64_t v) { return static_cast<std::int64_t>(-static_cast<std::uint64_t>(v)); };
  for (std::size_t i = 0; i < result.i64.size(); ++i) {
    const std::int64_t v = in[0]->i64[i];
    switch (o.function.function) {
      case Function::kNone: result.i64[i] = v; break;
      case Function::kRelu: result.i64[i] = std::max<std::int64_t>(v, 0); break;
      case Function::kAbs: result.i64[i] = v < 0 ? negated(v) : v; break;
      case Function::kNegate: result.i64[i] = negated(v); break;
      case Function::kSign: result.i64[i] = v < 0 ? -1 : v > 0 ? 1 : 0; break;
      default: wrong_type(op);
    }
  }
  return result;
}

}  // namespace

double apply(const Activation& activation, double x) noexcept {
  const Activation& f = activation;
  const auto a = static_cast<double>(f.a);
  const auto b = static_cast<double>(f.b);
  const auto sigmoid = [](double v) { return 1.0 / (1.0 + std::exp(-v)); };
  const auto softplus = [](double v) { return v > 30 ? v : std::log1p(std::exp(v)); };
  switch (f.function) {
    case Function::kNone: return x;
    case Function::kRelu: return std::max(x, 0.0);
    case Function::kLeakyRelu: return x < 0 ? a * x : x;
    case Function::kClip: return std::min(std::max(x, a), b);
    case Function::kSigmoid: return sigmoid(x);
    case Function::kSilu: return x * sigmoid(x);
    case Function::kHardSigmoid: return std::min(std::max(a * x + b, 0.0), 1.0);
    case Function::kHardSwish: return x * std::min(std::max(x / 6 + 0.5, 0.0), 1.0);
    case Function::kTanh: return std::tanh(x);
    case Function::kElu: return x < 0 ? a * std::expm1(x) : x;
    case Function::kSelu: return b * (x <= 0 ? a * std::expm1(x) : x);
    case Function::kSoftplus: return softplus(x);
    case Function::kSoftsign: return x / (1 + std::abs(x));
    case Function::kMish: return x * std::tanh(softplus(x));
    case Function::kGelu: return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
    case Function::kErf: return std::erf(x);
    case Function::kExp: return std::exp(x);
    case Function::kLog: return std::log(x);
    case Function::kSqrt: return std::sqrt(x);
    case Function::kReciprocal: return 1 / x;
    case Function::kAbs: return std::abs(x);
    case Function::kNegate: return -x;
    case Function::kFloor: return std::floor(x);
    case Function::kCeil: return std::ceil(x);
    case Function::kRound: return std::nearbyint(x);
    case Function::kSign: return x < 0 ? -1.0 : x > 0 ? 1.0 : 0.0;
    case Function::kSin: return std::sin(x);
    case Function::kCos: return std::cos(x);
    case Function::kTruncate: return std::trunc(x);
  }
  return x;
}

Constant evaluate(const Op& op, const Inputs& inputs, const Shape& output_shape, Folded folded) {
  bool integer = false, floating = false;
  for (const Constant* input : inputs) {
    if (input == nullptr) continue;
    (input->type == DataType::kI64 ? integer : floating) = true;
  }
  const bool picks = std::visit([](const auto& o) { return Picks<std::decay_t<decltype(o)>>; }, op.operation);
  if (integer && floating && !picks)
    throw base::Error(base::ErrorKind::kModel, op.origin + ": mixes integers and numbers");
  Constant result = std::visit(
      [&](const auto& o) -> Constant {
        using O = std::decay_t<decltype(o)>;
        if constexpr (Picks<O>) {
          return run_picking(o, inputs, output_shape);
        } else if constexpr (MovesAnyType<O>) {
          return integer ? run<std::int64_t>(o, inputs, output_shape) : run<float>(o, inputs, output_shape);
        } else {
          if constexpr (std::is_same_v<O, Unary>) {
            if (integer) return run_integer(op, o, inputs, output_shape);
          }
          if (integer) wrong_type(op);
          return run_float(o, inputs, output_shape);
        }
      },
      op.operation);
  const auto* binary = std::get_if<Binary>(&op.operation);
  if (!integer && !picks) finish(op, inputs, result);
  if (folded == Folded::kTyped && binary != nullptr && is_comparison(binary->kind) && !integer)
    return as_integers(result);
  if (folded == Folded::kFloats) return as_floats(result);
  return result;
}

std::vector<Constant> run_reference(const Graph& graph, const std::vector<float>& input) {
  std::vector<Constant> made(graph.values.size());
  made[static_cast<std::size_t>(graph.input)] = {DataType::kF32, graph.shape(graph.input), input, {}};
  std::vector<int> uses = use_counts(graph);
  for (const Op& op : graph.ops) {
    Inputs inputs;
    for (const ValueId id : op.inputs) {
      inputs.push_back(id == kNoValue          ? nullptr
                       : graph.is_constant(id) ? graph.value(id).constant.get()
                                               : &made[static_cast<std::size_t>(id)]);
    }
    made[static_cast<std::size_t>(op.output)] = evaluate(op, inputs, graph.shape(op.output), Folded::kFloats);
    for (const ValueId id : op.inputs) {
      if (id != kNoValue && --uses[static_cast<std::size_t>(id)] == 0) made[static_cast<std::size_t>(id)] = {};
    }
  }
  std::vector<Constant> outputs;
  for (const ValueId id : graph.outputs) outputs.push_back(made[static_cast<std::size_t>(id)]);
  return outputs;
}

}  // namespace camd::infer
