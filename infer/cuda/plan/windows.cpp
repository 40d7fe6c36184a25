// Puts small windows into larger ones.
#include "infer/cuda/plan/windows.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "infer/graph/rewriting.hpp"

namespace camd::infer::cuda {
namespace {

constexpr int kWhole = 3;

// Where the small window begins in the large one: so that one pixel of padding lies in front, if that is possible.
int begin_of(int size, int pad) { return std::clamp(1 - pad, 0, kWhole - size); }

bool takes(const Graph& graph, const Op& op) {
  const auto* conv = std::get_if<Conv>(&op.operation);
  if (conv == nullptr || conv->groups != 1 || conv->dilation != Pair2{1, 1}) return false;
  const Pair2 size = conv->kernel;
  if (std::max(size.y, size.x) > kWhole || size == Pair2{1, 1} || size == Pair2{kWhole, kWhole}) return false;
  return graph.is_constant(op.inputs[1]) && graph.value(op.inputs[1]).constant->type == DataType::kF32;
}

void enlarge(Graph& graph, std::size_t index) {
  Conv conv = std::get<Conv>(graph.ops[index].operation);
  const Constant& weights = *graph.value(graph.ops[index].inputs[1]).constant;
  const auto height = at(conv.kernel.y), width = at(conv.kernel.x);
  const int top = begin_of(conv.kernel.y, conv.pads.top), left = begin_of(conv.kernel.x, conv.pads.left);
  const std::int64_t filters = weights.shape[0], channels = weights.shape[1];
  std::vector<float> whole(static_cast<std::size_t>(filters * channels) * kWhole * kWhole, 0.0F);
  for (std::size_t i = 0; i < weights.f32.size(); ++i) {
    const std::size_t window = i / (height * width), y = i / width % height + at(top), x = i % width + at(left);
    whole[(window * kWhole + y) * kWhole + x] = weights.f32[i];
  }
  conv.pads.top += top;
  conv.pads.left += left;
  conv.pads.bottom += kWhole - conv.kernel.y - top;
  conv.pads.right += kWhole - conv.kernel.x - left;
  conv.kernel = {kWhole, kWhole};
  const ValueId made = add_constant(graph, {filters, channels, kWhole, kWhole}, std::move(whole));
  graph.ops[index].inputs[1] = made;
  graph.ops[index].operation = conv;
}

}  // namespace

Graph with_whole_windows(const Graph& graph) {
  Graph changed = graph;
  bool any = false;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (!takes(graph, graph.ops[i])) continue;
    enlarge(changed, i);
    any = true;
  }
  if (any) remove_unused(changed);
  return changed;
}

}  // namespace camd::infer::cuda
