// Handlers of QuantizeLinear and DequantizeLinear: networks of 8 bits as exporters write them, with the pair around
// every operator. Weights become f32 beforehand; activations are rounded to the same steps, and computed in floating
// point.
#include "infer/graph/lower_quantized.hpp"

#include <fmt/format.h>

namespace camd::infer {
namespace {

// A parameter [channels] along `axis`, or one number, as a constant that broadcasts to the input.
ValueId parameter(Lowering& l, std::size_t i, std::string_view what, const Shape& in) {
  const Constant* c = l.constant_input(i);
  l.require(c != nullptr, fmt::format("its {} depends on the picture", what));
  Constant wide{DataType::kF32, {}, c->f32, {}};
  for (const std::int64_t v : c->i64) wide.f32.push_back(static_cast<float>(v));
  const auto count = static_cast<std::int64_t>(wide.f32.size());
  if (count != 1) {
    l.require(c->shape.size() == 1,
              fmt::format("its {} {} is blocked, which is not supported", what, to_string(c->shape)));
    const auto axis = static_cast<std::size_t>(l.axis(l.integer("axis", 1), static_cast<int>(in.size())));
    l.require(in[axis] == count, fmt::format("its {} has {} elements for {}", what, count, in[axis]));
    wide.shape.assign(in.size() - axis, 1);
    wide.shape[0] = count;
  }
  return l.constant(std::move(wide));
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

}  // namespace

const std::vector<HandlerEntry>& quantized_handlers() {
  static const std::vector<HandlerEntry> kTable = {
      {"QuantizeLinear", quantize, "to 8 or 16 bits, not blocked; computed in floating point"},
      {"DequantizeLinear", dequantize, "not blocked"},
  };
  return kTable;
}

}  // namespace camd::infer
