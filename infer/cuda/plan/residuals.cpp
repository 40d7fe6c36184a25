// Takes residuals out of depthwise convolutions that would wait for them.
#include "infer/cuda/plan/residuals.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "infer/cuda/plan/fusion.hpp"
#include "infer/graph/rewriting.hpp"

namespace camd::infer::cuda {
namespace {

// Whether `id` is made of `other`, or is it.
bool depends(const Graph& graph, const std::vector<int>& makers, ValueId id, ValueId other) {
  std::vector<ValueId> open{id};
  std::vector<bool> seen(graph.values.size(), false);
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    if (value == other) return true;
    if (value == kNoValue || seen[at(value)] || makers[at(value)] < 0) continue;
    seen[at(value)] = true;
    const auto& in = graph.ops[at(makers[at(value)])].inputs;
    open.insert(open.end(), in.begin(), in.end());
  }
  return false;
}

// One convolution that tile programs know, and nothing else, reads the value as its image.
bool feeds_a_program(const Graph& graph, ValueId id) {
  int readers = 0;
  for (const Op& op : graph.ops) {
    const auto count = static_cast<int>(std::count(op.inputs.begin(), op.inputs.end(), id));
    if (count == 0) continue;
    readers += count;
    const auto* conv = std::get_if<Conv>(&op.operation);
    if (conv == nullptr || conv->groups != 1 || op.inputs[0] != id) return false;
    if (conv->kernel != Pair2{1, 1} && conv->kernel != Pair2{3, 3}) return false;
  }
  return readers == 1 && std::find(graph.outputs.begin(), graph.outputs.end(), id) == graph.outputs.end();
}

}  // namespace

void part_residuals(Graph& graph) {
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    const auto* conv = std::get_if<Conv>(&op.operation);
    const ValueId sum = op.output, residual = residual_of(op);
    if (conv == nullptr || conv->groups == 1 || residual == kNoValue || graph.is_constant(residual)) continue;
    const Shape shape = graph.shape(sum);
    const bool last = conv->activation_first || op.activation.function == Function::kNone;
    if (!last || shape[0] != 1 || shape[1] % 8 != 0 || graph.shape(residual) != shape) continue;
    if (!feeds_a_program(graph, sum) || depends(graph, producers(graph), op.inputs[0], residual)) continue;
    const auto own = static_cast<ValueId>(graph.values.size());
    graph.values.push_back(Value{graph.value(sum).name + " before its sum", shape, nullptr});
    Op add;
    add.operation = Binary{Binary::Kind::kAdd};
    add.inputs = {own, residual};
    add.output = sum;
    add.origin = op.origin;
    graph.ops[i].output = own;
    graph.ops[i].inputs.resize(3);
    graph.ops.insert(graph.ops.begin() + static_cast<std::ptrdiff_t>(i) + 1, std::move(add));
  }
}

}  // namespace camd::infer::cuda
