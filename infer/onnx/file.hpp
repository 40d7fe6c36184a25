// An ONNX file as protobuf messages. The bytes are not trusted: reading checks everything that later code relies on.
//
// Threads: [any]; read_onnx_file() [blocks] on file input.
// Invariants of an OnnxFile: there is a graph with nodes, inputs and outputs; nodes are in execution order and every
// name they read is produced before them, once; no node calls a function of the file; an operator of a foreign domain
// is called "domain::Type"; every initializer's dimensions are non-negative, their product is bounded and its bytes are
// all there. Memory is bounded by kMaxModelBytes and kMaxModelFields, whatever the file says.
// Private to infer/: headers outside infer/ do not include this one, so that no other room needs protobuf.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#ifndef ONNX_ML
#define ONNX_ML 1  // NOLINT(readability-identifier-naming): the flavour that Debian's libonnx_proto is built with
#endif
#include <onnx/onnx_pb.h>

#include "infer/tensor.hpp"

namespace camd::infer {

inline constexpr std::size_t kMaxModelBytes = std::size_t{512} << 20;
// Messages and strings in one file. A detector of MobileNet class has some thousands.
inline constexpr std::size_t kMaxModelFields = 1'000'000;
inline constexpr std::int64_t kMaxTensorElements = std::int64_t{1} << 30;

struct OnnxFile {
  std::string path;
  std::string sha256;
  onnx::ModelProto proto;

  // "ai.onnx" opset version.
  [[nodiscard]] int opset() const;
};

// `cut_at`: tensors of the graph that become its outputs, in this order; what only the file's own outputs need is left
// out before anything is checked, inputs included. Empty: the file's own outputs.
// Throws Error(kModel): one line with `path` and the cause.
[[nodiscard]] OnnxFile read_onnx_file(const std::string& path, const std::vector<std::string>& cut_at = {});
// The same from memory; `path` is what messages call it and where external data is looked for.
[[nodiscard]] OnnxFile parse_onnx(std::string_view bytes, const std::string& path,
                                  const std::vector<std::string>& cut_at = {});

// A name from the file, safe to print in one line: control characters become '?', long names are cut.
[[nodiscard]] std::string printable(std::string_view name);
// "Conv (node 'conv1')", or by its first output when the node has no name.
[[nodiscard]] std::string node_text(const onnx::NodeProto& node);
// The shape that the file declares; -1 where it is a name or missing.
[[nodiscard]] Shape declared_shape(const onnx::ValueInfoProto& value);
// "FLOAT", "DOUBLE", ... for messages.
[[nodiscard]] std::string onnx_type_name(int type);
// TensorProto::UINT4 and INT4, which are younger than Debian's onnx: two elements in a byte, the lower half first.
inline constexpr int kUint4 = 21;
inline constexpr int kInt4 = 22;
// Bytes of so many elements as raw data.
[[nodiscard]] std::size_t onnx_tensor_bytes(int type, std::size_t count);
// Bytes of one element, rounded up; 0 for types that have no fixed size or that camd does not know.
[[nodiscard]] std::size_t onnx_type_size(int type);

}  // namespace camd::infer
