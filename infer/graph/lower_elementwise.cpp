// Handlers of the elementwise node types and of reductions.
#include "infer/graph/lower_elementwise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace camd::infer {
namespace {

template <Function kFunction>
void plain(Lowering& l) {
  l.set_output(0, l.unary(l.input(0), {kFunction, 0, 0}));
}

void leaky_relu(Lowering& l) {
  l.set_output(0, l.unary(l.input(0), {Function::kLeakyRelu, l.number("alpha", 0.01F), 0}));
}

void elu(Lowering& l) { l.set_output(0, l.unary(l.input(0), {Function::kElu, l.number("alpha", 1.0F), 0})); }

void selu(Lowering& l) {
  l.set_output(0,
               l.unary(l.input(0), {Function::kSelu, l.number("alpha", 1.67326319F), l.number("gamma", 1.05070102F)}));
}

void hard_sigmoid(Lowering& l) {
  l.set_output(0, l.unary(l.input(0), {Function::kHardSigmoid, l.number("alpha", 0.2F), l.number("beta", 0.5F)}));
}

void gelu(Lowering& l) {
  if (l.text("approximate", "none") == "none") {
    plain<Function::kGelu>(l);
    return;
  }
  l.set_output(0, approximate_gelu(l, l.input(0)));
}

// max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)
void celu(Lowering& l) {
  const float alpha = l.number("alpha", 1.0F);
  l.require(alpha != 0, "its alpha is 0");
  const ValueId shrunk = l.binary(Binary::Kind::kMul, l.input(0), l.constant(1.0F / alpha));
  const ValueId curve = l.unary(shrunk, {Function::kElu, 1.0F, 0});
  l.set_output(0, l.binary(Binary::Kind::kMul, curve, l.constant(alpha)));
}

// The bound that input i gives, if it is known beforehand.
std::optional<float> bound(Lowering& l, std::size_t i, float otherwise) {
  if (!l.has_input(i)) return otherwise;
  const Constant* c = l.constant_input(i);
  if (c == nullptr) return std::nullopt;
  l.require(element_count(c->shape) == 1, "its bound is not one number");
  return c->type == DataType::kF32 ? c->f32[0] : static_cast<float>(c->i64[0]);
}

void clip(Lowering& l) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  ValueId x = l.input(0);
  if (l.opset() < 11) {
    l.set_output(0, l.unary(x, {Function::kClip, l.number("min", -kInfinity), l.number("max", kInfinity)}));
    return;
  }
  const auto low = bound(l, 1, -kInfinity), high = bound(l, 2, kInfinity);
  const bool whole = l.constant_input(0) != nullptr && l.is_whole(x);
  if (low && high && !whole) {
    l.set_output(0, l.unary(x, {Function::kClip, *low, *high}));
    return;
  }
  if (l.has_input(1)) x = l.binary(Binary::Kind::kMax, x, l.input(1));
  if (l.has_input(2)) x = l.binary(Binary::Kind::kMin, x, l.input(2));
  l.set_output(0, x);
}

template <Binary::Kind kKind>
void chain(Lowering& l) {  // two inputs or, for Sum, Min and Max, any number
  ValueId y = l.input(0);
  for (std::size_t i = 1; i < l.input_count(); ++i) y = l.binary(kKind, y, l.input(i));
  l.set_output(0, y);
}

void mean(Lowering& l) {
  ValueId y = l.input(0);
  for (std::size_t i = 1; i < l.input_count(); ++i) y = l.binary(Binary::Kind::kAdd, y, l.input(i));
  l.set_output(0, l.binary(Binary::Kind::kMul, y, l.constant(1.0F / static_cast<float>(l.input_count()))));
}

template <Binary::Kind kKind>
void pair(Lowering& l) {
  l.require(l.opset() >= 7 || l.integer("broadcast", 0) == 0,
            "broadcasting by attribute (before opset 7) is not supported");
  l.set_output(0, l.binary(kKind, l.input(0), l.input(1)));
}

void power(Lowering& l) {
  // The exponent may be of another type than the base.
  const Constant* exponent = l.constant_input(1);
  ValueId b = l.input(1);
  const Constant* base = l.constant_input(0);
  if (exponent != nullptr && exponent->type == DataType::kI64 && (base == nullptr || base->type == DataType::kF32)) {
    Constant wide{DataType::kF32, exponent->shape, {}, {}};
    for (const std::int64_t v : exponent->i64) wide.f32.push_back(static_cast<float>(v));
    b = l.constant(std::move(wide));
  }
  l.set_output(0, l.binary(Binary::Kind::kPow, l.input(0), b));
}

template <Binary::Kind kKind, bool kSwapped = false>
void compare(Lowering& l) {
  l.set_output(0, l.binary(kKind, l.input(kSwapped ? 1 : 0), l.input(kSwapped ? 0 : 1)));
}

// Truths are 0 and 1.
ValueId negated(Lowering& l, ValueId truth) { return l.binary(Binary::Kind::kEqual, truth, l.integer(0)); }
void logical_not(Lowering& l) { l.set_output(0, negated(l, l.input(0))); }
void exclusive_or(Lowering& l) { l.set_output(0, negated(l, l.binary(Binary::Kind::kEqual, l.input(0), l.input(1)))); }
void is_nan(Lowering& l) { l.set_output(0, negated(l, l.binary(Binary::Kind::kEqual, l.input(0), l.input(0)))); }

// Whole numbers that the picture decides are divided as numbers, and rounded towards 0 as integers are.
void divide(Lowering& l) {
  const ValueId a = l.input(0), b = l.input(1);
  const bool folds = l.constant_input(0) != nullptr && l.constant_input(1) != nullptr;
  const ValueId y = l.binary(Binary::Kind::kDiv, a, b);
  l.set_output(0, !folds && l.is_whole(a) && l.is_whole(b) ? l.unary(y, {Function::kTruncate, 0, 0}) : y);
}

void modulo(Lowering& l) {
  const bool of_c = l.integer("fmod", 0) != 0;
  l.set_output(0, l.binary(of_c ? Binary::Kind::kRemainder : Binary::Kind::kModulo, l.input(0), l.input(1)));
}

ValueId reduced(Lowering& l, Reduce::Kind kind, int axes_as_input_since) {
  const ValueId x = l.input(0);
  std::vector<std::int64_t> given;
  bool said = false;
  if (l.opset() >= axes_as_input_since) {
    if (l.has_input(1)) {
      given = l.integers_input(1, "axes");
      said = !given.empty();
    }
    if (!said && l.integer("noop_with_empty_axes", 0) != 0) {
      return x;
    }
  } else if (const auto attribute = l.integers("axes")) {
    given = *attribute;
    said = true;
  }
  if (!said) {
    for (int a = 0; a < l.rank(x); ++a) given.push_back(a);
  }
  const std::vector<int> axes = l.axes(given, l.rank(x));
  const ValueId y = l.reduce(kind, x, axes);
  if (l.integer("keepdims", 1) != 0) return y;
  Shape squeezed;
  for (int d = 0; d < l.rank(y); ++d) {
    if (std::find(axes.begin(), axes.end(), d) == axes.end())
      squeezed.push_back(l.shape(y)[static_cast<std::size_t>(d)]);
  }
  return l.reshape(y, squeezed);
}

template <Reduce::Kind kKind>
void reduce(Lowering& l) {
  l.set_output(0, reduced(l, kKind, kKind == Reduce::Kind::kSum ? 13 : 18));
}
void reduce_log_sum(Lowering& l) {
  l.set_output(0, l.unary(reduced(l, Reduce::Kind::kSum, 18), {Function::kLog, 0, 0}));
}

}  // namespace

ValueId approximate_gelu(Lowering& l, ValueId x) {
  using Kind = Binary::Kind;
  const ValueId cube = l.binary(Kind::kMul, l.binary(Kind::kMul, x, x), x);
  const ValueId sum = l.binary(Kind::kAdd, x, l.binary(Kind::kMul, cube, l.constant(0.044715F)));
  const ValueId curve = l.unary(l.binary(Kind::kMul, sum, l.constant(0.797884561F)), {Function::kTanh, 0, 0});
  const ValueId gate = l.binary(Kind::kAdd, l.binary(Kind::kMul, curve, l.constant(0.5F)), l.constant(0.5F));
  return l.binary(Kind::kMul, x, gate);
}

const std::vector<HandlerEntry>& elementwise_handlers() {
  using Kind = Reduce::Kind;
  static const std::vector<HandlerEntry> kTable = {
      {"Relu", plain<Function::kRelu>},
      {"LeakyRelu", leaky_relu},
      {"PRelu", pair<Binary::Kind::kPrelu>},
      {"Clip", clip},
      {"Sigmoid", plain<Function::kSigmoid>},
      {"HardSigmoid", hard_sigmoid},
      {"HardSwish", plain<Function::kHardSwish>},
      {"Tanh", plain<Function::kTanh>},
      {"Elu", elu},
      {"Celu", celu},
      {"Selu", selu},
      {"Softplus", plain<Function::kSoftplus>},
      {"Softsign", plain<Function::kSoftsign>},
      {"Mish", plain<Function::kMish>},
      {"Gelu", gelu},
      {"Erf", plain<Function::kErf>},
      {"Exp", plain<Function::kExp>},
      {"Log", plain<Function::kLog>},
      {"Sqrt", plain<Function::kSqrt>},
      {"Reciprocal", plain<Function::kReciprocal>},
      {"Abs", plain<Function::kAbs>},
      {"Neg", plain<Function::kNegate>},
      {"Floor", plain<Function::kFloor>},
      {"Ceil", plain<Function::kCeil>},
      {"Round", plain<Function::kRound>},
      {"Sign", plain<Function::kSign>},
      {"Sin", plain<Function::kSin>},
      {"Cos", plain<Function::kCos>},
      {"Add", pair<Binary::Kind::kAdd>},
      {"Sub", pair<Binary::Kind::kSub>},
      {"Mul", pair<Binary::Kind::kMul>},
      {"Div", divide},
      {"Pow", power},
      {"Sum", chain<Binary::Kind::kAdd>},
      {"Min", chain<Binary::Kind::kMin>},
      {"Max", chain<Binary::Kind::kMax>},
      {"Mean", mean},
      {"Equal", compare<Binary::Kind::kEqual>},
      {"Less", compare<Binary::Kind::kLess>},
      {"LessOrEqual", compare<Binary::Kind::kLessOrEqual>},
      {"Greater", compare<Binary::Kind::kLess, true>},
      {"GreaterOrEqual", compare<Binary::Kind::kLessOrEqual, true>},
      {"And", pair<Binary::Kind::kMul>},
      {"Or", pair<Binary::Kind::kMax>},
      {"Xor", exclusive_or},
      {"Not", logical_not},
      {"IsNaN", is_nan},
      {"Mod", modulo},
      {"ReduceMean", reduce<Kind::kMean>},
      {"ReduceSum", reduce<Kind::kSum>},
      {"ReduceMax", reduce<Kind::kMax>},
      {"ReduceMin", reduce<Kind::kMin>},
      {"ReduceProd", reduce<Kind::kProduct>},
      {"ReduceL1", reduce<Kind::kL1>},
      {"ReduceL2", reduce<Kind::kL2>},
      {"ReduceSumSquare", reduce<Kind::kSumSquare>},
      {"ReduceLogSum", reduce_log_sum},
      {"ReduceLogSumExp", reduce<Kind::kLogSumExp>},
  };
  return kTable;
}

}  // namespace camd::infer
