#include "infer/graph/graph.hpp"

namespace camd::infer {

std::string_view kind_name(const Operation& operation) noexcept {
  constexpr std::string_view kNames[] = {"Conv",    "ConvTranspose", "MatMul", "Pool",      "Resize",  "Concat",
                                         "Softmax", "Unary",         "Binary", "Transpose", "Reshape", "Slice",
                                         "Gather",  "Pad",           "Reduce", "TopK",      "Pick",    "Scatter",
                                         "CumSum",  "GridSample",    "Select"};
  static_assert(std::size(kNames) == std::variant_size_v<Operation>);
  return kNames[operation.index()];
}

std::int64_t multiply_adds(const Graph& graph, const Op& op) noexcept {
  const std::int64_t outputs = element_count(graph.shape(op.output));
  if (std::holds_alternative<Conv>(op.operation)) {
    const Shape& w = graph.shape(op.inputs[1]);
    return outputs * w[1] * w[2] * w[3];
  }
  if (std::holds_alternative<ConvTranspose>(op.operation)) {
    const Shape& w = graph.shape(op.inputs[1]);
    return element_count(graph.shape(op.inputs[0])) * w[1] * w[2] * w[3];
  }
  return std::holds_alternative<MatMul>(op.operation) ? outputs * graph.shape(op.inputs[0]).back() : 0;
}

std::int64_t multiply_adds(const Graph& graph) noexcept {
  std::int64_t sum = 0;
  for (const Op& op : graph.ops) sum += multiply_adds(graph, op);
  return sum;
}

std::vector<int> use_counts(const Graph& graph) {
  std::vector<int> counts(graph.values.size(), 0);
  for (const Op& op : graph.ops) {
    for (const ValueId id : op.inputs) {
      if (id != kNoValue) ++counts[static_cast<std::size_t>(id)];
    }
  }
  for (const ValueId id : graph.outputs) ++counts[static_cast<std::size_t>(id)];
  return counts;
}

}  // namespace camd::infer
