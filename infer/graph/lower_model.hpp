// lower_model(): from an ONNX file to a Graph, and which operators it takes.
//
// Threads: functions of their arguments, [any].
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "infer/graph/graph.hpp"

namespace camd::infer {

struct OnnxFile;

// Which fusions the engine can run. All other passes always run.
struct LowerOptions {
  bool optimize = true;         // false: constants are folded, no pass runs (what passes are tested against)
  bool fuse_activation = true;  // Op::activation of Conv, ConvTranspose, MatMul, Binary
  bool fuse_residual = true;    // Conv's residual
};

// [setup] Lowers the model for the input shape `input` [1,3,H,W] and runs the passes: constants and shapes folded,
// batch normalisation and other per-channel arithmetic folded into convolutions, padding folded into convolutions,
// activations and residuals fused, no-ops removed, chains of data movement that only permute channels made one Gather.
// Throws Error(kModel) in one line: file, operator and node that the set above cannot express, and why.
// Memory: the weights once, plus what folding makes; folding refuses results over kMaxFoldedElements.
[[nodiscard]] Graph lower_model(const OnnxFile& file, const TensorSpec& input, const LowerOptions& options = {});

struct LoweredShapes {
  std::map<std::string, Shape> shapes;  // of every tensor that is made at run time, by its name in the file
  std::vector<int> lost;                // nodes, by their index in the file, that cannot be lowered or need one such
  std::string refused;                  // what the first of them says
  std::set<std::string> whole;          // of `shapes`: those that hold whole numbers or truths
  // What the lost nodes read that is known beforehand, by its name in the file.
  std::map<std::string, std::shared_ptr<const Constant>> constants;
};
// [setup] As far as lower_model() would get if it left out the nodes that it cannot lower and those that need them.
// Throws Error(kModel) where there are too many nodes.
[[nodiscard]] LoweredShapes lowered_shapes(const OnnxFile& file, const TensorSpec& input);

// out[m,n] = a[m,k] * b[k,n] + bias, all row-major. The bias is one number a column, or one a row, or null.
struct Product {
  const float* a;
  const float* b;
  const float* bias;
  bool bias_of_rows;
  float* out;
  int m, k, n;
};

struct FoldOptions {
  double most_steps = kMaxFoldingSteps;
  std::int64_t most_elements = kMaxFoldedElements;  // of one constant
  void (*product)(const Product&) = nullptr;        // null: as the reference does it, in f64
};

// [any] Computes a graph all of whose inputs are known. `file` has nodes and outputs only; what they read and no node
// makes is in `known`. Returns the outputs, in order: f32, or i64 for whole numbers and truths. The bounds of folding
// hold, but for those that are given. Throws Error(kModel).
[[nodiscard]] std::vector<std::shared_ptr<const Constant>> fold_graph(
    const OnnxFile& file, const std::map<std::string, std::shared_ptr<const Constant>>& known,
    const FoldOptions& options = {});

struct OperatorSupport {
  std::string_view type;
  std::string_view limits;  // what of it is not there, in words; empty: nothing
};
// ONNX operators that lower_model() takes, sorted; the manual's table is made from this.
[[nodiscard]] std::vector<OperatorSupport> supported_operators();
[[nodiscard]] bool is_supported_operator(std::string_view type);

}  // namespace camd::infer
