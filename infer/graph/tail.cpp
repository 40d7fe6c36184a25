#include "infer/graph/tail.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "infer/graph/lower_model.hpp"
#include "infer/onnx/cut.hpp"

namespace camd::infer {
namespace {

// Whether camd has all operators of the node and of the graphs inside it.
// NOLINTNEXTLINE(misc-no-recursion): protobuf has refused messages nested deeper than 64
bool has_operators(const onnx::NodeProto& node) {
  if (!is_supported_operator(node.op_type())) return false;
  for (const auto& attribute : node.attribute()) {
    for (const auto& inner : attribute.g().node()) {
      if (!has_operators(inner)) return false;
    }
  }
  return true;
}

// Names that graphs inside a node make themselves.
// NOLINTNEXTLINE(misc-no-recursion): as above
void names_made_inside(const onnx::NodeProto& node, std::set<std::string>& names) {
  for (const auto& attribute : node.attribute()) {
    for (const auto& input : attribute.g().input()) names.insert(input.name());
    for (const auto& tensor : attribute.g().initializer()) names.insert(tensor.name());
    for (const auto& inner : attribute.g().node()) {
      names.insert(inner.output().begin(), inner.output().end());
      names_made_inside(inner, names);
    }
  }
}

// A weight that the second stage of a detector multiplies with, some ten million numbers, is turned once and not for
// each picture.
void turn_weights(onnx::NodeProto& node, std::map<std::string, std::shared_ptr<const Constant>>& constants) {
  if (node.op_type() != "Gemm" || node.input_size() < 2) return;
  const auto weight = constants.find(node.input(1));
  const auto turn = std::find_if(node.attribute().begin(), node.attribute().end(),
                                 [](const auto& attribute) { return attribute.name() == "transB"; });
  if (weight == constants.end() || turn == node.attribute().end() || turn->i() == 0) return;
  const Constant& from = *weight->second;
  if (from.type != DataType::kF32 || from.shape.size() != 2) return;
  // A name that no file can hold.
  const std::string name = std::string(1, '\0') + node.input(1);
  if (constants.count(name) == 0) {
    Constant to{DataType::kF32, {from.shape[1], from.shape[0]}, std::vector<float>(from.f32.size()), {}};
    const auto rows = static_cast<std::size_t>(from.shape[0]), columns = static_cast<std::size_t>(from.shape[1]);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < columns; ++c) to.f32[c * rows + r] = from.f32[r * columns + c];
    }
    constants[name] = std::make_shared<const Constant>(std::move(to));
  }
  node.set_input(1, name);
  node.mutable_attribute(static_cast<int>(turn - node.attribute().begin()))->set_i(0);
}

}  // namespace

std::vector<std::shared_ptr<const Constant>> Tail::run(const std::vector<Constant>& values,
                                                       const FoldOptions& options) const {
  auto known = constants_;
  for (std::size_t i = 0; i < reads_.size(); ++i) {
    auto value = std::make_shared<Constant>(values[i]);
    if (whole_[i]) {
      for (const float v : value->f32) value->i64.push_back(std::abs(v) < 9e18F ? static_cast<std::int64_t>(v) : 0);
      value->f32.clear();
      value->type = DataType::kI64;
    }
    known[reads_[i]] = std::move(value);
  }
  return fold_graph(file_, known, options);
}

std::optional<SplitModel> split_model(const OnnxFile& file, const TensorSpec& input) {
  LoweredShapes lowered = lowered_shapes(file, input);
  if (lowered.lost.empty()) return std::nullopt;
  const onnx::GraphProto& graph = file.proto.graph();
  SplitModel split;
  const std::string prefix = file.path + ": ";
  split.because = lowered.refused.rfind(prefix, 0) == 0 ? lowered.refused.substr(prefix.size()) : lowered.refused;
  Tail& tail = split.tail;
  tail.file_.path = file.path;
  *tail.file_.proto.mutable_opset_import() = file.proto.opset_import();
  std::set<std::string> made;
  for (const int i : lowered.lost) {
    const onnx::NodeProto& node = graph.node(i);
    if (!has_operators(node)) return std::nullopt;
    *tail.file_.proto.mutable_graph()->add_node() = node;
    made.insert(node.output().begin(), node.output().end());
    names_made_inside(node, made);
  }
  bool fits = true;
  std::vector<std::string> cut;
  const auto read = [&](const std::string& name) {
    if (name.empty() || made.count(name) > 0 || lowered.constants.count(name) > 0) return;
    fits = fits && lowered.shapes.count(name) > 0;
    if (std::find(cut.begin(), cut.end(), name) == cut.end()) cut.push_back(name);
  };
  for (const int i : lowered.lost) for_each_read(graph.node(i), read);
  tail.reads_ = cut;
  for (const std::string& name : cut) tail.whole_.push_back(lowered.whole.count(name) > 0);
  for (const auto& output : graph.output()) {
    if (made.count(output.name()) > 0) {
      *tail.file_.proto.mutable_graph()->add_output() = output;
      tail.makes_.push_back(output.name());
    } else {
      read(output.name());  // the head makes it
    }
  }
  if (!fits || cut.empty() || tail.makes_.empty()) return std::nullopt;
  tail.constants_ = std::move(lowered.constants);
  for (onnx::NodeProto& node : *tail.file_.proto.mutable_graph()->mutable_node()) turn_weights(node, tail.constants_);
  split.head = file;
  cut_graph(file.path, *split.head.proto.mutable_graph(), cut);
  // Engines put out f32, whatever the file says of a tensor inside it.
  for (auto& output : *split.head.proto.mutable_graph()->mutable_output()) {
    output.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  }
  return split;
}

}  // namespace camd::infer
