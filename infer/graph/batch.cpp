// Comparing the shapes of all tensors for two batches, and rewriting the smaller one.
#include "infer/graph/batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "base/error.hpp"
#include "infer/graph/lower_model.hpp"
#include "infer/model.hpp"
#include "infer/onnx/input.hpp"
#include "infer/onnx/picture_forms.hpp"

namespace camd::infer {
namespace {

using base::Error;
using base::ErrorKind;

// The values of an i64 tensor that lie in the file itself, or null.
std::int64_t* first_integer(onnx::TensorProto& tensor) {
  if (tensor.data_type() != onnx::TensorProto::INT64 || tensor.data_location() == onnx::TensorProto::EXTERNAL) {
    return nullptr;
  }
  if (tensor.int64_data_size() > 0) return tensor.mutable_int64_data()->mutable_data();
  return nullptr;
}

void replace_first(onnx::TensorProto& tensor, std::int64_t before, std::int64_t after) {
  if (std::int64_t* value = first_integer(tensor); value != nullptr && *value == before) *value = after;
  if (tensor.data_type() != onnx::TensorProto::INT64 || tensor.raw_data().size() < sizeof(std::int64_t)) return;
  std::int64_t first = 0;
  std::memcpy(&first, tensor.raw_data().data(), sizeof(first));  // little-endian, as the machines that camd runs on
  if (first == before) std::memcpy(tensor.mutable_raw_data()->data(), &after, sizeof(after));
}

// Reshape's target where it is a weight or a Constant of the file.
void rewrite_targets(onnx::GraphProto& graph, std::int64_t before) {
  std::map<std::string, onnx::TensorProto*> constants;
  for (auto& tensor : *graph.mutable_initializer()) constants[tensor.name()] = &tensor;
  for (auto& node : *graph.mutable_node()) {
    if (node.op_type() != "Constant" || node.output_size() != 1) continue;
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.name() == "value" && attribute.has_t()) constants[node.output(0)] = attribute.mutable_t();
    }
  }
  for (const auto& node : graph.node()) {
    if (node.op_type() != "Reshape" || node.input_size() < 2) continue;
    const auto found = constants.find(node.input(1));
    if (found != constants.end()) replace_first(*found->second, before, 1);
  }
}

void set_batch(OnnxFile& file, const std::string& input, std::int64_t batch) {
  for (auto& value : *file.proto.mutable_graph()->mutable_input()) {
    if (value.name() != input) continue;
    value.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_value(batch);
  }
}

// The first tensor, by name, that is not as before but for a first dimension `batch` times smaller; empty when all are.
std::string mixed_tensor(const LoweredShapes& many, const LoweredShapes& one, std::int64_t batch) {
  for (const auto& [name, shape] : many.shapes) {
    const auto found = one.shapes.find(name);
    if (found == one.shapes.end()) return name;
    Shape expected = found->second;
    if (expected == shape) continue;
    if (expected.empty()) return name;
    expected[0] *= batch;
    if (expected != shape) return name;
  }
  return {};
}

}  // namespace

void take_single_pictures(OnnxFile& file, const InputOptions& options) {
  ModelDescription model = describe_model(file);
  if (model.inputs.size() != 1 || model.inputs[0].shape.size() != 4 || model.inputs[0].shape[0] <= 1) return;
  const std::int64_t batch = model.inputs[0].shape[0];
  const std::string path = model.path, name = model.inputs[0].name, declared = to_string(model.inputs[0].shape);
  const auto refuse = [&](const std::string& why) {
    return Error(ErrorKind::kModel, fmt::format("{}: input '{}' is {}: camd runs one picture at a time, and {}; export "
                                                "the model with a batch of 1",
                                                path, printable(name), declared, why));
  };
  model.inputs[0].shape[0] = 1;
  InputOptions size = options;
  const TensorSpec one_picture = resolve_input(model, size);
  TensorSpec several = one_picture;
  several.shape[0] = batch;
  const LoweredShapes many = lowered_shapes(file, several);
  if (!many.lost.empty()) {
    const bool prefixed = many.refused.rfind(path + ": ", 0) == 0;
    throw refuse(fmt::format("what its graph does to a batch cannot be seen ({})",
                             prefixed ? many.refused.substr(path.size() + 2) : many.refused));
  }
  OnnxFile rewritten = file;
  set_batch(rewritten, name, 1);
  std::string mixed;
  for (const bool targets : {false, true}) {
    if (targets) rewrite_targets(*rewritten.proto.mutable_graph(), batch);
    const LoweredShapes one = lowered_shapes(rewritten, one_picture);
    mixed = mixed_tensor(many, one, batch);
    if (mixed.empty()) {
      file = std::move(rewritten);
      return;
    }
  }
  throw refuse(fmt::format("its graph mixes the {} pictures of a batch at '{}'", batch, printable(mixed)));
}

void take_camera_pictures(OnnxFile& file, const InputOptions& options) {
  take_pictures_without_batch(file);
  take_grey_pictures(file, options.color);
  take_single_pictures(file, options);
}

}  // namespace camd::infer
