#include "infer/graph/lower_model.hpp"

#include "infer/graph/lowering.hpp"
#include "infer/graph/passes.hpp"
#include "infer/onnx/file.hpp"

namespace camd::infer {

Graph lower_model(const OnnxFile& file, const TensorSpec& input, const LowerOptions& options) {
  Graph graph = Lowering(file, input).run();
  run_passes(graph, options);
  // A pass may have found the same value under another name.
  const auto& outputs = file.proto.graph().output();
  for (int i = 0; i < outputs.size(); ++i) {
    const ValueId id = graph.outputs[static_cast<std::size_t>(i)];
    graph.values[static_cast<std::size_t>(id)].name = outputs[i].name();
  }
  return graph;
}

LoweredShapes lowered_shapes(const OnnxFile& file, const TensorSpec& input) { return Lowering(file, input).shapes(); }

std::vector<std::shared_ptr<const Constant>> fold_graph(
    const OnnxFile& file, const std::map<std::string, std::shared_ptr<const Constant>>& known,
    const FoldOptions& options) {
  return Lowering(file, {}, options).fold(known);
}

std::vector<OperatorSupport> supported_operators() {
  std::vector<OperatorSupport> operators;
  for (const auto& [type, entry] : handlers()) operators.push_back({type, entry.limits});
  return operators;
}

bool is_supported_operator(std::string_view type) { return handlers().count(type) > 0; }

}  // namespace camd::infer
