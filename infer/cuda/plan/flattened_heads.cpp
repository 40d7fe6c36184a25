// Looks for the heads of YOLO and its like.
#include "infer/cuda/plan/flattened_heads.hpp"

#include <algorithm>
#include <vector>

#include "infer/cuda/plan/fusion.hpp"
#include "infer/graph/rewriting.hpp"

namespace camd::infer::cuda {

std::map<int, ValueId> find_flattened_heads(const Graph& graph) {
  std::map<int, ValueId> found;
  const std::vector<int> makers = producers(graph), uses = use_counts(graph);
  const auto read_once = [&](ValueId id) {
    return uses[static_cast<std::size_t>(id)] == 1 &&
           std::find(graph.outputs.begin(), graph.outputs.end(), id) == graph.outputs.end();
  };
  for (const Op& join : graph.ops) {
    const auto* concat = std::get_if<Concat>(&join.operation);
    if (concat == nullptr || concat->axis != 2) continue;
    for (const ValueId part : join.inputs) {
      const int make = makers[static_cast<std::size_t>(part)];
      if (make < 0 || !read_once(part)) continue;
      const Op& reshape = graph.ops[static_cast<std::size_t>(make)];
      if (!std::holds_alternative<Reshape>(reshape.operation)) continue;
      const ValueId image = reshape.inputs[0];
      const int head = makers[static_cast<std::size_t>(image)];
      if (head < 0 || !read_once(image)) continue;
      if (!std::holds_alternative<Conv>(graph.ops[static_cast<std::size_t>(head)].operation)) continue;
      const Shape &from = graph.shape(image), &to = graph.shape(part);
      if (from.size() == 4 && from[0] == 1 && to == Shape{1, from[1], from[2] * from[3]}) found[head] = part;
    }
  }
  return found;
}

void absorb_flattenings(const Graph& graph, Fusion& fusion) {
  const std::vector<int> makers = producers(graph);
  std::map<int, ValueId> kept;
  for (const TileProgramPlan& program : fusion.programs) {
    for (const int op : program.ops) {
      const auto head = fusion.flattened_heads.find(op);
      // Of convolutions only those of one pixel are heads; all others write images.
      if (head == fusion.flattened_heads.end() || fusion.head_of.count(op) == 0) continue;
      kept.insert(*head);
      fusion.absorbed.insert(makers[static_cast<std::size_t>(head->second)]);
    }
  }
  fusion.flattened_heads = std::move(kept);
}

}  // namespace camd::infer::cuda
