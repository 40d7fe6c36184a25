// Goes from what kernels of f16 read back to what makes it.
#include "infer/cuda/plan/halves.hpp"

#include <vector>

#include "infer/graph/rewriting.hpp"

namespace camd::infer::cuda {

void find_halves(const Graph& graph, Fusion& fusion) {
  const std::vector<int> makers = producers(graph);
  std::vector<ValueId> wanted;
  for (int i = 0; i < static_cast<int>(graph.ops.size()); ++i) {
    if (fusion.in_f32(i)) continue;
    const Op& op = graph.ops[at(i)];
    if (std::holds_alternative<Conv>(op.operation)) wanted.push_back(op.inputs[0]);
    if (const auto deformable = fusion.deformable_of.find(i); deformable != fusion.deformable_of.end()) {
      for (const int sample : deformable->second.samples) wanted.push_back(graph.ops[at(sample)].inputs[0]);
    }
    if (const auto attention = fusion.attention_of.find(i); attention != fusion.attention_of.end()) {
      for (const Op* product : {&op, &graph.ops[at(attention->second.scores)]})
        wanted.insert(wanted.end(), product->inputs.begin(), product->inputs.begin() + 2);
    }
  }
  while (!wanted.empty()) {
    const ValueId id = wanted.back();
    wanted.pop_back();
    if (id == kNoValue || graph.is_constant(id) || !fusion.halves.insert(id).second || makers[at(id)] < 0) continue;
    const Op& make = graph.ops[at(makers[at(id)])];
    if (const auto sum = fusion.sums.find(id); sum != fusion.sums.end()) {
      wanted.push_back(sum->second.first);
      wanted.push_back(sum->second.second);
    }
    const bool moves = std::holds_alternative<Reshape>(make.operation) ||
                       std::holds_alternative<Transpose>(make.operation) ||
                       std::holds_alternative<Slice>(make.operation) || std::holds_alternative<Concat>(make.operation);
    if (moves) wanted.insert(wanted.end(), make.inputs.begin(), make.inputs.end());
  }
}

}  // namespace camd::infer::cuda
