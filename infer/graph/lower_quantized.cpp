// Handlers of QuantizeLinear and DequantizeLinear: networks of 8 bits as exporters write them, with the pair around
// every operator. Weights become f32 beforehand; activations are rounded to the same steps, and computed in floating
// point. Where bytes are worth while an engine finds them in the rounding (infer/cpu/byte_plan.hpp).
#include "infer/graph/lower_quantized.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace camd::infer {
namespace {

// A parameter as a constant that broadcasts to the input: one number, [channels] along `axis`, or one for each block of
// `block_size` elements along it (opset 21).
ValueId parameter(Lowering& l, std::size_t i, std::string_view what, const Shape& in) {
  const Constant* c = l.constant_input(i);
  l.require(c != nullptr, fmt::format("its {} depends on the picture", what));
  Constant wide{DataType::kF32, {}, c->f32, {}};
  for (const std::int64_t v : c->i64) wide.f32.push_back(static_cast<float>(v));
  const auto count = static_cast<std::int64_t>(wide.f32.size());
  if (count == 1) return l.constant(std::move(wide));
  const int axis = l.axis(l.integer("axis", 1), static_cast<int>(in.size()));
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

void quantize(Lowering& l) {
  using T = onnx::TensorProto;
  const ValueId x = l.input(0);
  const Shape in = l.shape(x);
  const int type =
      l.has_input(2) ? l.element_type(l.input(2), T::UINT8) : static_cast<int>(l.integer("output_dtype", T::UINT8));
  Activation bounds{Function::kClip, 0, 0};
  switch (type) {
    case T::UINT8: bounds.b = 255; break;
    case T::INT8: bounds = {Function::kClip, -128, 127}; break;
    case T::UINT16: bounds.b = 65535; break;
    case T::INT16: bounds = {Function::kClip, -32768, 32767}; break;
    default: l.refuse(fmt::format("quantizing to {} is not supported", onnx_type_name(type)));
  }
  const ValueId steps = l.binary(Binary::Kind::kDiv, x, parameter(l, 1, "scale", in));
  ValueId y = l.unary(steps, {Function::kRound, 0, 0});
  if (l.has_input(2)) y = l.binary(Binary::Kind::kAdd, y, parameter(l, 2, "zero point", in));
  l.set_output(0, l.unary(y, bounds));
}

void dequantize(Lowering& l) {
  ValueId y = l.input(0);
  const Shape in = l.shape(y);
  if (const Constant* c = l.constant_input(0); c != nullptr && c->type == DataType::kI64) {
    Constant wide{DataType::kF32, c->shape, {c->i64.begin(), c->i64.end()}, {}};
    y = l.constant(std::move(wide));
  }
  if (l.has_input(2)) y = l.binary(Binary::Kind::kSub, y, parameter(l, 2, "zero point", in));
  l.set_output(0, l.binary(Binary::Kind::kMul, y, parameter(l, 1, "scale", in)));
}

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

// Lowers a node of another type in place of this one: the same attributes, other inputs.
void as_node(Lowering& l, const char* type, const std::vector<ValueId>& inputs) { l.lower_as(type, inputs); }

void convolve_integers(Lowering& l) { as_node(l, "Conv", {centred(l, 0, 2, 0), centred(l, 1, 3, 0)}); }

void multiply_integers(Lowering& l) {
  const auto last = static_cast<std::size_t>(std::max(l.rank(l.input(1)) - 1, 0));
  const auto row = static_cast<std::size_t>(std::max(l.rank(l.input(0)) - 2, 0));
  as_node(l, "MatMul", {centred(l, 0, 2, row), centred(l, 1, 3, last)});
}

}  // namespace

const std::vector<HandlerEntry>& quantized_handlers() {
  static const std::vector<HandlerEntry> kTable = {
      {"QuantizeLinear", quantize, "to 8 or 16 bits; computed in floating point, 8 bits also as they are"},
      {"DequantizeLinear", dequantize},
      {"DynamicQuantizeLinear", quantize_dynamically, "nothing is rounded"},
      {"ConvInteger", convolve_integers, "computed in floating point"},
      {"MatMulInteger", multiply_integers, "computed in floating point"},
  };
  return kTable;
}

}  // namespace camd::infer
