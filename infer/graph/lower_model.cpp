#include "infer/graph/lower_model.hpp"

#include "infer/graph/lowering.hpp"
#include "infer/graph/passes.hpp"

namespace camd::infer {

Graph lower_model(const OnnxFile& file, const TensorSpec& input, const LowerOptions& options) {
  Graph graph = Lowering(file, input).run();
  run_passes(graph, options);
  return graph;
}

LoweredShapes lowered_shapes(const OnnxFile& file, const TensorSpec& input) { return Lowering(file, input).shapes(); }

std::vector<std::shared_ptr<const Constant>> fold_graph(
    const OnnxFile& file, const std::map<std::string, std::shared_ptr<const Constant>>& known) {
  return Lowering(file, {}).fold(known);
}

std::vector<OperatorSupport> supported_operators() {
  std::vector<OperatorSupport> operators;
  for (const auto& [type, entry] : handlers()) operators.push_back({type, entry.limits});
  return operators;
}

bool is_supported_operator(std::string_view type) { return handlers().count(type) > 0; }

}  // namespace camd::infer
