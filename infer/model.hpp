// What a model file says about itself. The model is not run.
//
// Threads: [any]; describe_model() reads the file and [blocks].
#pragma once

#include <string>
#include <vector>

#include "infer/tensor.hpp"

namespace camd::infer {

struct OnnxFile;

struct OperatorUse {
  std::string domain;  // "" is ai.onnx
  std::string type;    // "Conv"
  int count = 0;
};

struct ModelDescription {
  std::string path;
  std::string sha256;  // lower-case hex of the file
  std::string producer;
  int ir_version = 0;
  int opset = 0;                   // of ai.onnx
  std::vector<TensorSpec> inputs;  // the graph's inputs minus its initializers (ONNX IR < 4 lists weights as inputs)
  std::vector<TensorSpec> size_inputs;  // those of them that camd fills itself (infer/onnx/input.hpp), not in `inputs`
  std::vector<TensorSpec> outputs;      // in the graph's order
  std::vector<OperatorUse> operators;   // sorted by type
  std::int64_t parameter_count = 0;
};

// Whether an input that is declared so takes its channels last, [1,H,W,3] or [1,H,W,1], as models from TensorFlow do.
// Engines of our own turn it round in the graph: what they are fed is planar either way. [any]
[[nodiscard]] bool takes_pixels_last(const Shape& declared) noexcept;

// Reads an ONNX file (github.com/onnx/onnx/blob/main/docs/IR.md). Throws Error(kModel) with one line that names the
// file and the cause: missing, empty, truncated, not ONNX, no input, ...
// `cut_at`: tensors that become the model's outputs, see EngineOptions; empty: its own.
[[nodiscard]] ModelDescription describe_model(const std::string& path, const std::vector<std::string>& cut_at = {});
// The same of a file that was read already (infer/onnx/file.hpp).
[[nodiscard]] ModelDescription describe_model(const OnnxFile& file);

}  // namespace camd::infer
