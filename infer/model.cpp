#include "infer/model.hpp"

#include <fmt/format.h>

#include <map>
#include <unordered_set>

#include "base/error.hpp"
#include "infer/onnx/file.hpp"
#include "infer/onnx/input.hpp"

namespace camd::infer {
namespace {

constexpr std::string_view kPicture = "input", kFilled = "filled input", kOutput = "output";

// Of inputs that camd fills, and of outputs, any type of numbers.
TensorSpec spec_of(const OnnxFile& file, const onnx::ValueInfoProto& value, std::string_view role) {
  using T = onnx::TensorProto;
  TensorSpec spec;
  spec.name = value.name();
  spec.shape = declared_shape(value);
  const auto unsupported = [&](const std::string& what) {
    return base::Error(base::ErrorKind::kModel, fmt::format("{}: {} '{}' is {}, camd handles tensors of numbers",
                                                            file.path, role, printable(value.name()), what));
  };
  if (!value.type().has_tensor_type()) throw unsupported("not a tensor");
  switch (value.type().tensor_type().elem_type()) {
    case T::FLOAT: spec.type = DataType::kF32; break;
    case T::FLOAT16: spec.type = DataType::kF16; break;
    case T::UINT8: spec.type = DataType::kU8; break;
    case T::INT32: spec.type = DataType::kI32; break;
    case T::INT64: spec.type = DataType::kI64; break;
    // f32 holds all values, or all that pictures and detectors have.
    case T::DOUBLE:
    case T::BFLOAT16: spec.type = DataType::kF32; break;
    case T::INT8: spec.type = role == kPicture ? DataType::kI8 : DataType::kI64; break;
    case T::BOOL:
      if (role == kPicture) throw unsupported("of type " + onnx_type_name(value.type().tensor_type().elem_type()));
      spec.type = DataType::kI64;
      break;
    case T::INT16:
    case T::UINT16:
    case T::UINT32:
    case T::UINT64: spec.type = DataType::kI64; break;
    default: throw unsupported("of type " + onnx_type_name(value.type().tensor_type().elem_type()));
  }
  return spec;
}

using Uses = std::map<std::pair<std::string, std::string>, int>;

void count_operators(const onnx::GraphProto& graph, Uses& uses) {
  for (const auto& node : graph.node()) {
    ++uses[{node.op_type(), node.domain() == "ai.onnx" ? "" : node.domain()}];
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) count_operators(attribute.g(), uses);
      for (const auto& inner : attribute.graphs()) count_operators(inner, uses);
    }
  }
}

}  // namespace

bool takes_pixels_last(const Shape& declared) noexcept {
  const auto channels = [](std::int64_t count) { return count == 1 || count == 3; };
  return declared.size() == 4 && channels(declared[3]) && !channels(declared[1]);
}

ModelDescription describe_model(const std::string& path, const std::vector<std::string>& cut_at) {
  return describe_model(read_onnx_file(path, cut_at));
}

ModelDescription describe_model(const OnnxFile& file) {
  ModelDescription description;
  description.path = file.path;
  description.sha256 = file.sha256;
  description.producer = printable(file.proto.producer_name());
  description.ir_version = static_cast<int>(file.proto.ir_version());
  description.opset = file.opset();
  const onnx::GraphProto& graph = file.proto.graph();
  std::unordered_set<std::string_view> weights;
  for (const auto& tensor : graph.initializer()) {
    weights.insert(tensor.name());
    std::int64_t count = 1;
    for (const std::int64_t dimension : tensor.dims()) count *= dimension;
    description.parameter_count += count;
  }
  for (const auto& input : graph.input()) {
    if (weights.count(input.name()) > 0) continue;
    const bool filled = size_input(input, {1, 3, 1, 1}).has_value();
    (filled ? description.size_inputs : description.inputs)
        .push_back(spec_of(file, input, filled ? kFilled : kPicture));
  }
  if (description.inputs.empty()) {
    throw base::Error(base::ErrorKind::kModel, fmt::format("{}: the model has no input", file.path));
  }
  for (const auto& output : graph.output()) description.outputs.push_back(spec_of(file, output, kOutput));
  Uses uses;
  count_operators(graph, uses);
  for (const auto& [key, count] : uses) description.operators.push_back({key.second, printable(key.first), count});
  return description;
}

}  // namespace camd::infer
