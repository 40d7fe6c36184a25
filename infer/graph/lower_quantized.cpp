// Handlers of QuantizeLinear and DequantizeLinear: networks of 8 bits as exporters write them, with the pair around
// every operator. Those that have the pair inside (QLinearConv, and ONNX Runtime's own) are taken apart into it.
// Weights become f32 beforehand; activations are rounded to the same steps, and computed in floating point. Where bytes
// are worth while an engine finds them in the rounding (infer/cpu/byte_plan.hpp).
#include "infer/graph/lower_quantized.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace camd::infer {
namespace {

// A parameter as a constant that broadcasts to the input: one number, [channels] along `axis`, or one for each block of
// `block_size` elements along it (opset 21).
ValueId parameter(Lowering& l, std::size_t i, std::string_view what, const Shape& in, std::int64_t along) {
  const Constant* c = l.constant_input(i);
  l.require(c != nullptr, fmt::format("its {} depends on the picture", what));
  Constant wide{DataType::kF32, {}, c->f32, {}};
  for (const std::int64_t v : c->i64) wide.f32.push_back(static_cast<float>(v));
  const auto count = static_cast<std::int64_t>(wide.f32.size());
  if (count == 1) return l.constant(std::move(wide));
  const int axis = l.axis(along, static_cast<int>(in.size()));
  const auto at = static_cast<std::size_t>(axis);
  if (c->shape.size() == 1 && in.size() != 1) {
    l.require(in[at] == count, fmt::format("its {} has {} elements for {}", what, count, in[at]));
    wide.shape.assign(in.size() - at, 1);
    wide.shape[0] = count;
    return l.constant(std::move(wide));
  }
  const std::int64_t block = std::max<std::int64_t>(l.integer("block_size", 0), 1);
  Shape blocks = in;
  blocks[at] = (in[at] + block - 1) / block;
  l.require(c->shape == blocks,
            fmt::format("its {} {} does not fit blocks of {} of {}", what, to_string(c->shape), block, to_string(in)));
  wide.shape = blocks;
  const ValueId each = l.constant(std::move(wide));
  if (block == 1) return each;
  std::vector<std::int64_t> rows(static_cast<std::size_t>(in[at]));
  for (std::size_t r = 0; r < rows.size(); ++r) rows[r] = static_cast<std::int64_t>(r) / block;
  return l.emit(Gather{axis, std::move(rows)}, {each}, in);
}

// x in steps of input `scale`, of the type of input `scale` + 1 or, where that is missing, of `otherwise`.
ValueId quantized(Lowering& l, ValueId x, std::size_t scale, int otherwise, std::int64_t axis) {
  using T = onnx::TensorProto;
  const Shape in = l.shape(x);
  const bool has_zero = l.has_input(scale + 1);
  const int type = has_zero ? l.element_type(l.input(scale + 1), T::UINT8) : otherwise;
  Activation bounds{Function::kClip, 0, 0};
  switch (type) {
    case T::UINT8: bounds.b = 255; break;
    case T::INT8: bounds = {Function::kClip, -128, 127}; break;
    case T::UINT16: bounds.b = 65535; break;
    case T::INT16: bounds = {Function::kClip, -32768, 32767}; break;
    default: l.refuse(fmt::format("quantizing to {} is not supported", onnx_type_name(type)));
  }
  const ValueId steps = l.binary(Binary::Kind::kDiv, x, parameter(l, scale, "scale", in, axis));
  ValueId y = l.unary(steps, {Function::kRound, 0, 0});
  if (has_zero) y = l.binary(Binary::Kind::kAdd, y, parameter(l, scale + 1, "zero point", in, axis));
  const ValueId result = l.unary(y, bounds);
  l.mark_steps(result);
  return result;
}

void quantize(Lowering& l) {
  const auto type = static_cast<int>(l.integer("output_dtype", onnx::TensorProto::UINT8));
  l.set_output(0, quantized(l, l.input(0), 1, type, l.integer("axis", 1)));
}

// Input i, whose scale and zero point follow it.
ValueId dequantized(Lowering& l, std::size_t i, std::int64_t axis) {
  ValueId y = l.input(i);
  const ValueId zero = l.has_input(i + 2) ? l.input(i + 2) : kNoValue;
  const std::vector<ValueId> key{y, l.input(i + 1), zero, static_cast<ValueId>(axis)};
  if (const ValueId made = l.made_of(key); made != kNoValue) return made;
  const Shape in = l.shape(y);
  if (const Constant* c = l.constant_input(i); c != nullptr && c->type == DataType::kI64) {
    Constant wide{DataType::kF32, c->shape, {c->i64.begin(), c->i64.end()}, {}};
    y = l.constant(std::move(wide));
  }
  if (zero != kNoValue) y = l.binary(Binary::Kind::kSub, y, parameter(l, i + 2, "zero point", in, axis));
  return l.made_of(key) = l.binary(Binary::Kind::kMul, y, parameter(l, i + 1, "scale", in, axis));
}

void dequantize(Lowering& l) { l.set_output(0, dequantized(l, 0, l.integer("axis", 1))); }

// ---- Operators with the pair inside. Each is the operator of its name between its inputs as numbers and its result in
// steps: inputs are a value, its scale and its zero point; those of the result come last.

void set_quantized(Lowering& l, ValueId result, std::size_t scale) {
  l.set_output(0, quantized(l, result, scale, onnx::TensorProto::UINT8, 1));
}

// Pictures whose channels come last, as ONNX Runtime's optimisers arrange 8-bit ones, with their channels first, and
// back.
ValueId channels_first(Lowering& l, ValueId x) {
  std::vector<int> order = Lowering::axes_from(0, l.rank(x));
  l.require(order.size() > 2, "its input has no spatial dimensions");
  order.insert(order.begin() + 1, order.back());
  order.pop_back();
  return l.transpose(x, order);
}
ValueId channels_last(Lowering& l, ValueId x) {
  std::vector<int> order = Lowering::axes_from(0, l.rank(x));
  order.erase(order.begin() + 1);
  order.push_back(1);
  return l.transpose(x, order);
}
bool has_channels_last(const Lowering& l) { return l.integer("channels_last", 0) != 0; }

// https://onnx.ai/onnx/operators/onnx__QLinearConv.html, and ONNX Runtime's own with `channels_last`.
void convolve_linear(Lowering& l) {
  const bool last = has_channels_last(l);
  std::vector<ValueId> inputs{dequantized(l, 0, 1), dequantized(l, 3, 0)};
  if (last) inputs[0] = channels_first(l, inputs[0]);
  if (l.has_input(8)) {  // in steps of both scales
    const Shape channels = l.shape(l.input(8));
    const ValueId steps =
        l.binary(Binary::Kind::kMul, parameter(l, 1, "scale", channels, 0), parameter(l, 4, "scale", channels, 0));
    inputs.push_back(l.binary(Binary::Kind::kMul, l.as_number(l.input(8)), steps));
  }
  const ValueId y = l.lower_as("Conv", inputs);
  set_quantized(l, last ? channels_last(l, y) : y, 6);
}

// a * b + c, in steps of the result's scale where there is one.
void multiply_add_linear(Lowering& l) {
  std::vector<ValueId> inputs{dequantized(l, 0, 1), dequantized(l, 3, l.integer("transB", 0) != 0 ? 0 : 1)};
  if (l.has_input(6)) {  // in steps of both scales
    const Shape columns = l.shape(l.input(6));
    const std::int64_t along = static_cast<std::int64_t>(columns.size()) - 1;
    const ValueId steps = l.binary(Binary::Kind::kMul, parameter(l, 1, "scale", columns, along),
                                   parameter(l, 4, "scale", columns, along));
    inputs.push_back(l.binary(Binary::Kind::kMul, l.as_number(l.input(6)), steps));
  }
  const ValueId y = l.lower_as("Gemm", inputs);
  if (l.has_input(7)) set_quantized(l, y, 7);
}

// Of `kOperands` inputs.
template <const char* kType, std::size_t kOperands>
void compute_linear(Lowering& l) {
  std::vector<ValueId> inputs;
  for (std::size_t i = 0; i < kOperands; ++i) inputs.push_back(dequantized(l, 3 * i, -1));
  set_quantized(l, l.lower_as(kType, inputs), 3 * kOperands);
}

template <const char* kType>
void pool_linear(Lowering& l) {
  const bool last = has_channels_last(l);
  const ValueId x = dequantized(l, 0, -1);
  const ValueId y = l.lower_as(kType, {last ? channels_first(l, x) : x});
  set_quantized(l, last ? channels_last(l, y) : y, 3);
}

// ONNX Runtime's own MaxPool of bytes.
void pool_channels_last(Lowering& l) {
  l.set_output(0, channels_last(l, l.lower_as("MaxPool", {channels_first(l, l.input(0))})));
}

// ONNX Runtime puts the result's scale and zero point first.
void concatenate_linear(Lowering& l) {
  std::vector<ValueId> inputs;
  for (std::size_t i = 2; i + 1 < l.input_count(); i += 3) inputs.push_back(dequantized(l, i, -1));
  set_quantized(l, l.lower_as("Concat", inputs), 0);
}

constexpr char kMatMul[] = "MatMul", kAdd[] = "Add", kMul[] = "Mul", kSigmoid[] = "Sigmoid", kSoftmax[] = "Softmax";
constexpr char kLeakyRelu[] = "LeakyRelu", kMean[] = "GlobalAveragePool", kAverage[] = "AveragePool";

// ---- Products of whole numbers. Their inputs are whole numbers of f32 here, and so are the sums: where exporters take
// activations as they come (DynamicQuantizeLinear), camd does not round them at all.

void quantize_dynamically(Lowering& l) {
  l.set_output(0, l.input(0));
  l.set_output(1, l.constant(1.0F));
  l.set_output(2, l.constant(0.0F));
}

// An operand without its zero point, as f32.
ValueId centred(Lowering& l, std::size_t i, std::size_t zero_point, std::size_t axis) {
  ValueId x = l.as_number(l.input(i));
  if (!l.has_input(zero_point)) return x;
  if (const Constant* c = l.constant_input(zero_point);
      c != nullptr && std::all_of(c->f32.begin(), c->f32.end(), [](float v) { return v == 0; }) &&
      std::all_of(c->i64.begin(), c->i64.end(), [](std::int64_t v) { return v == 0; })) {
    return x;
  }
  ValueId zero = l.as_number(l.input(zero_point));
  const Shape s = l.shape(zero);
  if (element_count(s) > 1) {  // one for each output channel
    Shape to(l.shape(x).size(), 1);
    l.require(s.size() == 1 && axis < to.size() && l.shape(x)[axis] == s[0], "its zero point does not fit its input");
    to[axis] = s[0];
    zero = l.reshape(zero, to);
  } else {
    zero = l.reshape(zero, {});
  }
  return l.binary(Binary::Kind::kSub, x, zero);
}

void convolve_integers(Lowering& l) { l.lower_as("Conv", {centred(l, 0, 2, 0), centred(l, 1, 3, 0)}); }

void multiply_integers(Lowering& l) {
  const auto last = static_cast<std::size_t>(std::max(l.rank(l.input(1)) - 1, 0));
  const auto row = static_cast<std::size_t>(std::max(l.rank(l.input(0)) - 2, 0));
  l.lower_as("MatMul", {centred(l, 0, 2, row), centred(l, 1, 3, last)});
}

}  // namespace

const std::vector<HandlerEntry>& quantized_handlers() {
  constexpr std::string_view kRounded = "as QuantizeLinear";
  constexpr std::string_view kOfRuntime = "ONNX Runtime's own (com.microsoft); as QuantizeLinear";
  static const std::vector<HandlerEntry> kTable = {
      {"QuantizeLinear", quantize, "to 8 or 16 bits; computed in floating point, 8 bits also as they are"},
      {"DequantizeLinear", dequantize},
      {"DynamicQuantizeLinear", quantize_dynamically, "nothing is rounded"},
      {"QLinearConv", convolve_linear, kRounded},
      {"QGemm", multiply_add_linear, kOfRuntime},
      {"QLinearMatMul", compute_linear<kMatMul, 2>, kRounded},
      {"QLinearAdd", compute_linear<kAdd, 2>, kOfRuntime},
      {"QLinearMul", compute_linear<kMul, 2>, kOfRuntime},
      {"QLinearSigmoid", compute_linear<kSigmoid, 1>, kOfRuntime},
      {"QLinearLeakyRelu", compute_linear<kLeakyRelu, 1>, kOfRuntime},
      {"QLinearSoftmax", compute_linear<kSoftmax, 1>, kOfRuntime},
      {"QLinearGlobalAveragePool", pool_linear<kMean>, kOfRuntime},
      {"QLinearAveragePool", pool_linear<kAverage>, kOfRuntime},
      {"QLinearConcat", concatenate_linear, kOfRuntime},
      {"NhwcMaxPool", pool_channels_last, "ONNX Runtime's own (com.microsoft)"},
      {"ConvInteger", convolve_integers, "computed in floating point"},
      {"MatMulInteger", multiply_integers, "computed in floating point"},
  };
  return kTable;
}

}  // namespace camd::infer
