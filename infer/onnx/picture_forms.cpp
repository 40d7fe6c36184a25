// Nodes in front of the graph.
#include "infer/onnx/picture_forms.hpp"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "infer/model.hpp"

namespace camd::infer {
namespace {

constexpr int kChannels = 3;

// Every name that a node reads, those of graphs inside of nodes too, each as `visit` leaves it.
// NOLINTNEXTLINE(misc-no-recursion): protobuf has refused messages nested deeper than 64
void for_each_read(onnx::GraphProto& graph, const std::function<void(std::string&)>& visit) {
  for (auto& node : *graph.mutable_node()) {
    for (auto& name : *node.mutable_input()) visit(name);
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) for_each_read(*attribute.mutable_g(), visit);
      for (auto& inner : *attribute.mutable_graphs()) for_each_read(inner, visit);
    }
  }
}

// The beginning of names that nothing in the graph has: `prefix` with `end` behind it as often as it takes. What nobody
// reads does not matter.
std::string unused_prefix(onnx::GraphProto& graph, std::string prefix, const char* end) {
  bool used = true;
  while (used) {
    prefix += end;
    used = false;
    for_each_read(graph, [&](const std::string& name) { used = used || name.starts_with(prefix); });
    for (const auto& node : graph.node()) {
      for (const auto& name : node.output()) used = used || name.starts_with(prefix);
    }
  }
  return prefix;
}

onnx::NodeProto node(const char* type, std::initializer_list<std::string> inputs, const std::string& output) {
  onnx::NodeProto made;
  made.set_op_type(type);
  for (const std::string& input : inputs) made.add_input(input);
  made.add_output(output);
  return made;
}

onnx::NodeProto with(onnx::NodeProto made, const char* name, std::initializer_list<int> values) {
  auto& attribute = *made.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INTS);
  for (const int value : values) attribute.add_ints(value);
  return made;
}

// The input's readers read `instead`.
void rename_reads(onnx::GraphProto& graph, const std::string& input, const std::string& instead) {
  for_each_read(graph, [&](std::string& name) {
    if (name == input) name = instead;
  });
}

onnx::TensorShapeProto& shape_of_input(onnx::GraphProto& graph, const std::string& input) {
  const auto found = std::find_if(graph.mutable_input()->begin(), graph.mutable_input()->end(),
                                  [&](const onnx::ValueInfoProto& value) { return value.name() == input; });
  return *found->mutable_type()->mutable_tensor_type()->mutable_shape();
}

void put_in_front(onnx::GraphProto& graph, std::vector<onnx::NodeProto> first) {
  for (auto& behind : *graph.mutable_node()) first.push_back(std::move(behind));
  graph.mutable_node()->Assign(first.begin(), first.end());
}

}  // namespace

void take_pictures_without_batch(OnnxFile& file) {
  const ModelDescription model = describe_model(file);
  if (model.inputs.size() != 1 || model.inputs[0].shape.size() != 3) return;
  const Shape& declared = model.inputs[0].shape;
  const auto channels = [](std::int64_t count) { return count == 1 || count == kChannels; };
  if (!channels(declared.front()) && !channels(declared.back())) return;
  const std::string& input = model.inputs[0].name;
  auto& graph = *file.proto.mutable_graph();
  const std::string picture = unused_prefix(graph, input, "/picture"), axes = picture + "/axes";
  rename_reads(graph, input, picture);
  onnx::TensorShapeProto with_batch;
  with_batch.add_dim()->set_dim_value(1);
  with_batch.MergeFrom(shape_of_input(graph, input));
  shape_of_input(graph, input) = with_batch;
  constexpr int kAxesAreAnInput = 13;
  if (file.opset() < kAxesAreAnInput) {
    put_in_front(graph, {with(node("Squeeze", {input}, picture), "axes", {0})});
    return;
  }
  auto& tensor = *graph.add_initializer();
  tensor.set_name(axes);
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.add_dims(1);
  tensor.add_int64_data(0);
  put_in_front(graph, {node("Squeeze", {input, axes}, picture)});
}

void take_grey_pictures(OnnxFile& file, ColorOrder color) {
  const ModelDescription model = describe_model(file);
  if (model.inputs.size() != 1 || model.inputs[0].shape.size() != 4) return;
  const Shape& declared = model.inputs[0].shape;
  const bool last = takes_pixels_last(declared);
  const int channels = last ? 3 : 1;  // the dimension
  if (declared[static_cast<std::size_t>(channels)] != 1) return;
  const std::string& input = model.inputs[0].name;
  auto& graph = *file.proto.mutable_graph();
  const std::string grey = unused_prefix(graph, input, "/grey"), weights = grey + "/weights";
  rename_reads(graph, input, grey);
  shape_of_input(graph, input).mutable_dim(channels)->set_dim_value(kChannels);
  auto& tensor = *graph.add_initializer();
  tensor.set_name(weights);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  for (const int dimension : {1, kChannels, 1, 1}) tensor.add_dims(dimension);
  constexpr float kRed = 0.299F, kGreen = 0.587F, kBlue = 0.114F;
  const bool bgr = color == ColorOrder::kBgr;
  for (const float weight : {bgr ? kBlue : kRed, kGreen, bgr ? kRed : kBlue}) tensor.add_float_data(weight);
  const auto mix = [&](const std::string& from, const std::string& to) {
    return with(node("Conv", {from, weights}, to), "kernel_shape", {1, 1});
  };
  std::vector<onnx::NodeProto> first;
  if (last) {
    first.push_back(with(node("Transpose", {input}, grey + "/planes"), "perm", {0, 3, 1, 2}));
    first.push_back(mix(grey + "/planes", grey + "/plane"));
    first.push_back(with(node("Transpose", {grey + "/plane"}, grey), "perm", {0, 2, 3, 1}));
  } else {
    first.push_back(mix(input, grey));
  }
  put_in_front(graph, std::move(first));
}

}  // namespace camd::infer
