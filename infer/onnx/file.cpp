#include "infer/onnx/file.hpp"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <unordered_set>

#include "base/error.hpp"
#include "base/model_format.hpp"
#include "base/sha256.hpp"
#include "infer/onnx/cut.hpp"
#include "infer/onnx/functions.hpp"
#include "infer/onnx/wire.hpp"

namespace camd::infer {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& cause) {
  throw base::Error(base::ErrorKind::kModel, fmt::format("{}: {}", path, cause));
}

std::string read_bytes(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) refuse(path, "no such model file");
  if (!std::filesystem::is_regular_file(status)) refuse(path, "not a regular file, so not a model");
  const auto size = std::filesystem::file_size(path, error);
  if (error) refuse(path, fmt::format("cannot read the model: {}", error.message()));
  if (size == 0) refuse(path, "the model file is empty");
  if (size > kMaxModelBytes) {
    refuse(path, fmt::format("the model has {} bytes, camd reads at most {}", size, kMaxModelBytes));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(path, fmt::format("cannot read the model: {}", std::strerror(errno)));
  std::string bytes(static_cast<std::size_t>(size), '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (static_cast<std::size_t>(file.gcount()) != bytes.size()) refuse(path, "the model changed while it was read");
  return bytes;
}

// Bytes that an initializer's typed fields hold for one element, as onnx.proto's TensorProto lays them out.
std::int64_t typed_elements(const onnx::TensorProto& tensor) {
  using T = onnx::TensorProto;
  switch (tensor.data_type()) {
    case T::FLOAT: return tensor.float_data_size();
    case T::DOUBLE: return tensor.double_data_size();
    case T::INT64: return tensor.int64_data_size();
    case T::UINT32:
    case T::UINT64: return tensor.uint64_data_size();
    case T::INT32:
    case T::INT16:
    case T::INT8:
    case T::UINT8:
    case T::UINT16:
    case T::BOOL:
    case T::FLOAT16:
    case T::BFLOAT16: return tensor.int32_data_size();
    case T::STRING: return tensor.string_data_size();
    default: return -1;
  }
}

void check_tensor(const std::string& path, const onnx::TensorProto& tensor, std::string_view owner) {
  std::int64_t count = 1;
  for (const std::int64_t dimension : tensor.dims()) {
    if (dimension < 0) refuse(path, fmt::format("{} has a negative dimension", owner));
    if (dimension > 0 && count > kMaxTensorElements / dimension) {
      refuse(path, fmt::format("{} has more than {} elements", owner, kMaxTensorElements));
    }
    count *= dimension;
  }
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) return;  // looked at by whoever reads it
  const std::size_t size = onnx_type_size(tensor.data_type());
  if (size == 0 && tensor.data_type() != onnx::TensorProto::STRING) {
    refuse(path, fmt::format("{} is of unknown type {}", owner, tensor.data_type()));
  }
  if (tensor.has_raw_data()) {
    const std::size_t bytes = onnx_tensor_bytes(tensor.data_type(), static_cast<std::size_t>(count));
    if (tensor.raw_data().size() != bytes) {
      refuse(path, fmt::format("{} needs {} bytes, the file holds {}", owner, bytes, tensor.raw_data().size()));
    }
  } else if (typed_elements(tensor) != count) {
    refuse(path, fmt::format("{} needs {} elements, the file holds {}", owner, count, typed_elements(tensor)));
  }
}

using Names = std::unordered_set<std::string_view>;  // of the file, which outlives them

// Names that nodes of a graph may read: its own and those of the graphs around it. A chain and not a copy, so that a
// file full of nested graphs costs no more than its size.
struct Scope {
  const Scope* outer = nullptr;
  Names names;

  [[nodiscard]] bool has(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->outer) {
      if (scope->names.count(name) > 0) return true;
    }
    return false;
  }
};

// Every name that some node of the graph makes, to tell "never" from "later".
Names all_outputs(const onnx::GraphProto& graph) {
  Names names;
  for (const auto& node : graph.node()) names.insert(node.output().begin(), node.output().end());
  return names;
}

// ONNX Runtime's own operators, as its quantizer and its optimisers write them.
bool is_of_runtime(const onnx::NodeProto& node) {
  static const std::unordered_set<std::string_view> kTypes = {"Attention",
                                                              "BiasGelu",
                                                              "DequantizeLinear",
                                                              "FastGelu",
                                                              "FusedConv",
                                                              "FusedMatMul",
                                                              "Gelu",
                                                              "MultiHeadAttention",
                                                              "NhwcMaxPool",
                                                              "QGemm",
                                                              "QuantizeLinear",
                                                              "QuickGelu",
                                                              "SkipLayerNormalization",
                                                              "SkipSimplifiedLayerNormalization"};
  return node.domain() == "com.microsoft" &&
         (node.op_type().starts_with("QLinear") || kTypes.count(node.op_type()) > 0);
}

// Of the blocked weights and pictures that ONNX Runtime keeps for itself.
bool is_for_one_processor(const std::string& domain) {
  return domain.starts_with("com.microsoft.nchwc") || domain.starts_with("com.ms.");
}

// Gives each operator of a foreign domain that domain's name as well, so that nothing takes it for a standard one. What
// reads the graph finds out whether it needs the operator.
// NOLINTNEXTLINE(misc-no-recursion): protobuf has refused messages nested deeper than 64
void name_foreign_operators(onnx::GraphProto& graph) {
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    const bool standard = node.domain().empty() || node.domain() == "ai.onnx";
    if (!standard && !is_of_runtime(node)) node.set_op_type(node.domain() + "::" + node.op_type());
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) name_foreign_operators(*attribute.mutable_g());
      for (onnx::GraphProto& inner : *attribute.mutable_graphs()) name_foreign_operators(inner);
    }
  }
}

// NOLINTNEXTLINE(misc-no-recursion): protobuf has refused messages nested deeper than 64
void check_graph(const std::string& path, const onnx::GraphProto& graph, const Scope* outer) {
  Scope known{outer, {}};
  for (const auto& input : graph.input()) known.names.insert(input.name());
  for (const auto& tensor : graph.initializer()) {
    check_tensor(path, tensor, fmt::format("weight '{}'", printable(tensor.name())));
    known.names.insert(tensor.name());
  }
  for (const auto& tensor : graph.sparse_initializer()) {
    refuse(path, fmt::format("sparse weight '{}' is not supported", printable(tensor.values().name())));
  }
  const Names later = all_outputs(graph);
  Names made;
  for (const auto& node : graph.node()) {
    if (is_for_one_processor(node.domain())) {
      refuse(path,
             fmt::format("{}: ONNX Runtime made this file for one machine's processor; take the model that it was "
                         "made from, or save it with GraphOptimizationLevel.ORT_ENABLE_EXTENDED",
                         node_text(node)));
    }
    for (const auto& name : node.input()) {
      if (name.empty() || known.has(name)) continue;
      refuse(path, fmt::format("{} reads '{}', which {}", node_text(node), printable(name),
                               later.count(name) > 0 ? "is made only after it (a cycle)" : "nothing makes"));
    }
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_t()) {
        check_tensor(path, attribute.t(), fmt::format("'{}' of {}", printable(attribute.name()), node_text(node)));
      }
      if (attribute.has_g()) check_graph(path, attribute.g(), &known);
      for (const auto& inner : attribute.graphs()) check_graph(path, inner, &known);
    }
    for (const auto& name : node.output()) {
      if (name.empty()) continue;
      if (!made.insert(name).second) {
        refuse(path, fmt::format("{} makes '{}' a second time", node_text(node), printable(name)));
      }
      known.names.insert(name);
    }
  }
  for (const auto& output : graph.output()) {
    if (!known.has(output.name())) {
      refuse(path, fmt::format("output '{}' is made by no node", printable(output.name())));
    }
  }
}

// What a file is that a download or a clone has left in the model's place; empty: perhaps a model.
std::string_view other_content(std::string_view bytes) {
  const auto begins = [&](std::string_view text) {
    return bytes.size() >= text.size() && std::equal(text.begin(), text.end(), bytes.begin(), [](char a, char b) {
             return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b - 'A' + 'a') : b);
           });
  };
  if (begins("version https://git-lfs")) {
    return "a pointer of Git LFS and not the model itself: fetch it with git lfs pull";
  }
  if (begins("<!doctype html") || begins("<html")) {
    return "a web page and not a model: download the file itself, as what a site links to as \"raw\"";
  }
  if (begins("pk\x03\x04")) return "a zip archive and not a model: take the .onnx file out of it, or export to one";
  return {};
}

}  // namespace

int OnnxFile::opset() const {
  int version = 0;
  for (const auto& set : proto.opset_import()) {
    if (set.domain().empty() || set.domain() == "ai.onnx") {
      const auto limit = static_cast<std::int64_t>(std::numeric_limits<int>::max());
      version = static_cast<int>(std::min(std::max<std::int64_t>(set.version(), 0), limit));
    }
  }
  return version;
}

OnnxFile parse_onnx(std::string_view bytes, const std::string& path, const std::vector<std::string>& cut_at) {
  if (bytes.empty()) refuse(path, "the model file is empty");
  if (const std::string_view other = other_content(bytes); !other.empty()) refuse(path, std::string(other));
  if (const std::string cause = check_onnx_wire(bytes, kMaxModelFields); !cause.empty()) refuse(path, cause);
  OnnxFile file;
  file.path = path;
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  {
    // protobuf writes its own lines to stderr; ours says all there is to say.
    const google::protobuf::LogSilencer silence;
    if (!file.proto.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
      refuse(path, "not an ONNX file, or damaged: its messages cannot be read");
    }
  }
  if (!file.proto.has_graph() || file.proto.graph().node_size() == 0) {
    refuse(path, "not an ONNX model: it holds no graph with nodes");
  }
  inline_functions(path, file.proto);
  name_foreign_operators(*file.proto.mutable_graph());
  if (file.opset() < 1) refuse(path, "the model does not say which operator set of ai.onnx it uses");
  order_nodes(*file.proto.mutable_graph());
  if (!cut_at.empty()) cut_graph(path, *file.proto.mutable_graph(), cut_at);
  if (file.proto.graph().output_size() == 0) refuse(path, "the model has no output");
  check_graph(path, file.proto.graph(), nullptr);
  file.sha256 = base::sha256(bytes);
  return file;
}

OnnxFile read_onnx_file(const std::string& path, const std::vector<std::string>& cut_at) {
  const std::string_view format = base::foreign_model_format(std::filesystem::path(path).extension().string());
  if (!format.empty()) {
    refuse(path, fmt::format("a model of {}, and camd reads ONNX: export it to a file that ends in .onnx{}", format,
                             format == "PyTorch" ? " (one of Ultralytics: yolo export format=onnx model=FILE)" : ""));
  }
  return parse_onnx(read_bytes(path), path, cut_at);
}

std::string printable(std::string_view name) {
  constexpr std::size_t kLongest = 96;
  std::string text;
  for (const char c : name.substr(0, kLongest)) text += c >= ' ' && c < '\x7f' ? c : '?';
  if (name.size() > kLongest) text += "...";
  return text;
}

std::string node_text(const onnx::NodeProto& node) {
  if (!node.name().empty()) return fmt::format("{} (node '{}')", printable(node.op_type()), printable(node.name()));
  const std::string output = node.output_size() > 0 ? node.output(0) : "";
  return fmt::format("{} (node that makes '{}')", printable(node.op_type()), printable(output));
}

Shape declared_shape(const onnx::ValueInfoProto& value) {
  Shape shape;
  for (const auto& dimension : value.type().tensor_type().shape().dim()) {
    shape.push_back(dimension.has_dim_value() && dimension.dim_value() > 0 ? dimension.dim_value() : -1);
  }
  return shape;
}

std::string onnx_type_name(int type) {
  return onnx::TensorProto::DataType_IsValid(type)
             ? onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(type))
             : fmt::format("{}", type);
}

std::size_t onnx_type_size(int type) {
  using T = onnx::TensorProto;
  switch (type) {
    case T::FLOAT:
    case T::INT32:
    case T::UINT32: return 4;
    case T::DOUBLE:
    case T::INT64:
    case T::UINT64:
    case T::COMPLEX64: return 8;
    case T::FLOAT16:
    case T::BFLOAT16:
    case T::INT16:
    case T::UINT16: return 2;
    case T::INT8:
    case T::UINT8:
    case T::BOOL: return 1;
    case T::COMPLEX128: return 16;
    case kUint4:
    case kInt4: return 1;  // two share it
    default: return 0;
  }
}

std::size_t onnx_tensor_bytes(int type, std::size_t count) {
  return type == kUint4 || type == kInt4 ? (count + 1) / 2 : count * onnx_type_size(type);
}

}  // namespace camd::infer
