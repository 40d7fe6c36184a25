// Looks for sums of two images of which one was resized for them alone, as pyramids have them.
#include "infer/cuda/plan/resized_sums.hpp"

#include <algorithm>
#include <vector>

#include "infer/cuda/plan/fusion.hpp"
#include "infer/graph/rewriting.hpp"

namespace camd::infer::cuda {

void find_resized_sums(const Graph& graph, Fusion& fusion) {
  const std::vector<int> makers = producers(graph), uses = use_counts(graph);
  const auto in_f32 = [&](int op) { return !fusion.f32_ops.empty() && fusion.f32_ops[static_cast<std::size_t>(op)]; };
  const auto is_output = [&](ValueId id) {
    return std::find(graph.outputs.begin(), graph.outputs.end(), id) != graph.outputs.end();
  };
  for (int i = 0; i < static_cast<int>(graph.ops.size()); ++i) {
    const Op& sum = graph.ops[static_cast<std::size_t>(i)];
    const auto* binary = std::get_if<Binary>(&sum.operation);
    if (binary == nullptr || binary->kind != Binary::Kind::kAdd || sum.activation.function != Function::kNone) continue;
    const Shape& shape = graph.shape(sum.output);
    if (shape.size() != 4 || shape[0] != 1 || fusion.absorbed.count(i) != 0 || fusion.sums.count(sum.output) != 0)
      continue;
    for (const std::size_t side : {0, 1}) {
      const ValueId resized = sum.inputs[side], other = sum.inputs[1 - side];
      const int make = makers[static_cast<std::size_t>(resized)];
      if (make < 0 || uses[static_cast<std::size_t>(resized)] != 1 || is_output(resized)) continue;
      const Op& op = graph.ops[static_cast<std::size_t>(make)];
      const bool alike = graph.shape(resized) == shape && graph.shape(other) == shape && !graph.is_constant(other);
      if (!std::holds_alternative<Resize>(op.operation) || op.activation.function != Function::kNone || !alike)
        continue;
      if (in_f32(make) != in_f32(i) || fusion.absorbed.count(make) != 0 || fusion.enlargements.count(make) != 0)
        continue;
      fusion.resized_sums[i] = {make, other};
      fusion.absorbed.insert(make);
      break;
    }
  }
}

}  // namespace camd::infer::cuda
