#include "infer/onnx/functions.hpp"

#include <fmt/format.h>
#include <google/protobuf/unknown_field_set.h>

#include <unordered_map>
#include <utility>

#include "base/error.hpp"

namespace camd::infer {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
using Attributes = std::unordered_map<std::string, onnx::AttributeProto>;  // by name

// Of the function and of the nodes that call it.
std::string key_of(const std::string& domain, const std::string& name) {
  return (domain == "ai.onnx" ? "" : domain) + '\n' + name;
}

// Attributes with the values that they have where a call says none. Debian's onnx is older than that field.
Attributes defaults_of(const onnx::FunctionProto& function) {
  constexpr int kAttributeProto = 11;  // onnx.proto: FunctionProto.attribute_proto
  Attributes defaults;
  const google::protobuf::UnknownFieldSet& fields = function.unknown_fields();
  for (int i = 0; i < fields.field_count(); ++i) {
    const google::protobuf::UnknownField& field = fields.field(i);
    onnx::AttributeProto attribute;
    if (field.number() != kAttributeProto || field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) {
      continue;
    }
    if (attribute.ParseFromString(field.length_delimited())) defaults[attribute.name()] = attribute;
  }
  return defaults;
}

// What all calls come to. A short file may ask for much: a long name, or a large attribute, in each of many nodes.
struct Budget {
  const std::string& path;
  int nodes = 0;
  std::size_t bytes = 0;

  void spend(std::size_t more) {
    bytes += more;
    if (nodes <= kMaxInlinedNodes && bytes <= kMaxInlinedBytes) return;
    throw base::Error(base::ErrorKind::kModel,
                      fmt::format("{}: the model's own functions come to more than {} nodes or {} bytes where they are "
                                  "called",
                                  path, kMaxInlinedNodes, kMaxInlinedBytes));
  }
};

// What names and attributes inside a function mean in one call of it.
struct Call {
  Budget& budget;
  std::string prefix;
  std::unordered_map<std::string, std::string> names;  // of its inputs and outputs
  Attributes attributes;

  void rename(std::string& name) const {
    if (name.empty()) return;
    const auto outside = names.find(name);
    budget.spend(outside == names.end() ? prefix.size() : outside->second.size());
    name = outside == names.end() ? prefix + name : outside->second;
  }
  // NOLINTNEXTLINE(misc-no-recursion): protobuf has refused messages nested deeper than 64
  void apply(onnx::NodeProto& node) const {
    for (std::string& name : *node.mutable_input()) rename(name);
    for (std::string& name : *node.mutable_output()) rename(name);
    if (!node.name().empty()) {
      budget.spend(prefix.size());
      node.set_name(prefix + node.name());
    }
    onnx::NodeProto bound;
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.ref_attr_name().empty()) {
        if (attribute.has_g()) apply(*attribute.mutable_g());
        for (onnx::GraphProto& graph : *attribute.mutable_graphs()) apply(graph);
        bound.add_attribute()->Swap(&attribute);
      } else if (const auto given = attributes.find(attribute.ref_attr_name()); given != attributes.end()) {
        budget.spend(given->second.ByteSizeLong());
        onnx::AttributeProto& value = *bound.add_attribute();
        value = given->second;
        value.set_name(attribute.name());
      }  // else it is as if the attribute did not stand there
    }
    node.mutable_attribute()->Swap(bound.mutable_attribute());
  }
  // NOLINTNEXTLINE(misc-no-recursion): as above
  void apply(onnx::GraphProto& graph) const {
    for (auto* values : {graph.mutable_input(), graph.mutable_output(), graph.mutable_value_info()}) {
      for (onnx::ValueInfoProto& value : *values) rename(*value.mutable_name());
    }
    for (onnx::TensorProto& tensor : *graph.mutable_initializer()) rename(*tensor.mutable_name());
    for (onnx::NodeProto& node : *graph.mutable_node()) apply(node);
  }
};

class Inliner {
 public:
  Inliner(const std::string& path, const onnx::ModelProto& model) : path_(path), budget_{path} {
    for (const onnx::FunctionProto& function : model.functions()) {
      if (!functions_.emplace(key_of(function.domain(), function.name()), &function).second) {
        refuse(function, "is there twice");
      }
    }
  }

  // NOLINTNEXTLINE(misc-no-recursion): protobuf has refused messages nested deeper than 64
  void expand(onnx::GraphProto& graph, int depth) {
    Nodes nodes;
    nodes.Swap(graph.mutable_node());
    for (onnx::NodeProto& node : nodes) put(node, depth, *graph.mutable_node());
  }

 private:
  [[noreturn]] void refuse(const onnx::FunctionProto& function, const std::string& cause) const {
    throw base::Error(base::ErrorKind::kModel,
                      fmt::format("{}: the model's own function '{}' {}", path_, printable(function.name()), cause));
  }

  // NOLINTNEXTLINE(misc-no-recursion): no deeper than kMaxCallDepth
  void put(onnx::NodeProto& node, int depth, Nodes& to) {
    const auto called = functions_.find(key_of(node.domain(), node.op_type()));
    if (called != functions_.end()) return put_body(*called->second, node, depth + 1, to);
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) expand(*attribute.mutable_g(), depth);
      for (onnx::GraphProto& graph : *attribute.mutable_graphs()) expand(graph, depth);
    }
    to.Add()->Swap(&node);
  }

  // NOLINTNEXTLINE(misc-no-recursion): as above
  void put_body(const onnx::FunctionProto& function, const onnx::NodeProto& node, int depth, Nodes& to) {
    if (depth > kMaxCallDepth) refuse(function, fmt::format("is called {} calls deep or calls itself", kMaxCallDepth));
    if (node.input_size() > function.input_size() || node.output_size() > function.output_size()) {
      refuse(function, fmt::format("has inputs and outputs {} and {}, but {} gives it {} and {}", function.input_size(),
                                   function.output_size(), node_text(node), node.input_size(), node.output_size()));
    }
    constexpr std::size_t kForEach = 64;  // bytes of a name in the tables below
    ++budget_.nodes;
    budget_.spend(kForEach * static_cast<std::size_t>(function.input_size() + function.output_size()) +
                  function.unknown_fields().SpaceUsedLong() + node.ByteSizeLong() + function.name().size());
    Call call{budget_, fmt::format("{}_{}/", function.name(), ++calls_), {}, defaults_of(function)};
    for (const onnx::AttributeProto& attribute : node.attribute()) call.attributes[attribute.name()] = attribute;
    for (int i = 0; i < function.input_size(); ++i) {
      call.names[function.input(i)] = i < node.input_size() ? node.input(i) : "";
    }
    for (int i = 0; i < function.output_size(); ++i) {
      const std::string& inside = function.output(i);
      if (i >= node.output_size() || node.output(i).empty()) continue;  // nobody reads it
      if (const auto given = call.names.find(inside); given != call.names.end()) {
        onnx::NodeProto& copy = *to.Add();
        copy.set_op_type("Identity");
        copy.add_input(given->second);
        copy.add_output(node.output(i));
      } else {
        call.names[inside] = node.output(i);
      }
    }
    for (const onnx::NodeProto& inner : function.node()) {
      ++budget_.nodes;
      budget_.spend(inner.ByteSizeLong());
      onnx::NodeProto one = inner;
      call.apply(one);
      put(one, depth, to);
    }
  }

  const std::string& path_;
  std::unordered_map<std::string, const onnx::FunctionProto*> functions_;
  Budget budget_;
  int calls_ = 0;
};

// An operator means what it did in the opset, and a graph has one.
void require_opset(const std::string& path, const onnx::ModelProto& model) {
  const auto opset = [](const auto& imports) {
    std::int64_t version = 0;
    for (const auto& set : imports) {
      if (set.domain().empty() || set.domain() == "ai.onnx") version = set.version();
    }
    return version;
  };
  const std::int64_t of_model = opset(model.opset_import());
  for (const onnx::FunctionProto& function : model.functions()) {
    const std::int64_t own = opset(function.opset_import());
    if (own == 0 || own == of_model) continue;
    throw base::Error(base::ErrorKind::kModel,
                      fmt::format("{}: the model's own function '{}' is written for opset {} and the model for {}, "
                                  "camd takes one opset for all; export the model with its functions inlined",
                                  path, printable(function.name()), own, of_model));
  }
}

}  // namespace

void inline_functions(const std::string& path, onnx::ModelProto& model) {
  if (model.functions_size() == 0) return;
  require_opset(path, model);
  Inliner(path, model).expand(*model.mutable_graph(), 0);
  model.clear_functions();
}

}  // namespace camd::infer
