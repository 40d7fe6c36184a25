// Finds average pools of whole images with two convolutions of the one pixel that they make, and products of the image
// with what these make.
#include "infer/cuda/plan/squeezes.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "infer/graph/rewriting.hpp"

namespace camd::infer::cuda {
namespace {

// A dense layer of one pixel.
bool is_layer(const Graph& graph, const Op& op) {
  const auto* conv = std::get_if<Conv>(&op.operation);
  const Shape& out = graph.shape(op.output);
  return conv != nullptr && conv->groups == 1 && conv->kernel == Pair2{1, 1} && conv->stride == Pair2{1, 1} &&
         conv->pads == Pads{} && residual_of(op) == kNoValue && out[0] == 1 && out[2] == 1 && out[3] == 1;
}

// The average of all pixels of an image that one block can read.
bool is_mean(const Graph& graph, const Op& op) {
  const auto* pool = std::get_if<Pool>(&op.operation);
  if (pool == nullptr || pool->kind != Pool::Kind::kAverage || pool->pads != Pads{} || pool->dilation != Pair2{1, 1})
    return false;
  const Shape& x = graph.shape(op.inputs[0]);
  return x[0] == 1 && pool->kernel.y == x[2] && pool->kernel.x == x[3] &&
         element_count(x) * static_cast<std::int64_t>(size_of(DataType::kF16)) <= kMostSqueezeBytes &&
         x[1] <= kSqueezeThreads;
}

// The product of the image and its gate.
bool multiplies(const Graph& graph, const Op& op, ValueId image, ValueId gate) {
  const auto* binary = std::get_if<Binary>(&op.operation);
  if (binary == nullptr || binary->kind != Binary::Kind::kMul || op.activation.function != Function::kNone)
    return false;
  const bool both = (op.inputs[0] == image && op.inputs[1] == gate) || (op.inputs[0] == gate && op.inputs[1] == image);
  return both && graph.shape(op.output) == graph.shape(image);
}

// The depthwise convolutions that together add the pixels of `image`, each with its sums; empty where they do not add
// all of its channels.
std::map<int, PixelSums> sums_for(const Graph& graph, const std::vector<int>& makers, ValueId image) {
  const auto depthwise = [&](ValueId id) {
    const int make = graph.is_constant(id) ? -1 : makers[at(id)];
    const auto* conv = make < 0 ? nullptr : std::get_if<Conv>(&graph.ops[at(make)].operation);
    if (conv == nullptr || conv->kernel.y * conv->kernel.x > kDepthwiseTaps) return -1;
    const auto c = static_cast<int>(graph.shape(graph.ops[at(make)].inputs[0])[1]);
    const auto n = static_cast<int>(graph.shape(id)[1]);
    return generic_conv_kind(conv->groups, c, n, false) == GenericConvKind::kDepthwise ? make : -1;
  };
  // The middle tap of a pixel is that pixel of what the convolution reads.
  const auto centred = [&](int i) {
    const auto& conv = std::get<Conv>(graph.ops[at(i)].operation);
    const auto middle = [](int kernel, int dilation, int pad) {
      return kernel % 2 == 1 && pad == kernel / 2 * dilation;
    };
    return conv.stride == Pair2{1, 1} && middle(conv.kernel.y, conv.dilation.y, conv.pads.top) &&
           middle(conv.kernel.x, conv.dilation.x, conv.pads.left) &&
           graph.shape(graph.ops[at(i)].inputs[0])[2] == graph.shape(graph.ops[at(i)].output)[2] &&
           graph.shape(graph.ops[at(i)].inputs[0])[3] == graph.shape(graph.ops[at(i)].output)[3];
  };
  std::vector<ValueId> parts{image};
  if (const int make = makers[at(image)]; make >= 0) {
    const Op& op = graph.ops[at(make)];
    const auto* concat = std::get_if<Concat>(&op.operation);
    if (concat != nullptr && concat->axis == 1 && op.activation.function == Function::kNone) parts = op.inputs;
  }
  std::map<int, PixelSums> found;
  std::vector<std::pair<ValueId, int>> rest;  // parts that no such convolution makes, with their first channel
  int first = 0;
  for (const ValueId part : parts) {
    const int make = depthwise(part);
    if (make < 0 || !found.emplace(make, PixelSums{image, first, -1}).second) rest.emplace_back(part, first);
    first += static_cast<int>(graph.shape(part)[1]);
  }
  for (const auto& [part, from] : rest) {
    const auto reads = [&, id = part](const auto& entry) {
      return entry.second.x_first < 0 && graph.ops[at(entry.first)].inputs[0] == id && centred(entry.first);
    };
    const auto reader = std::find_if(found.begin(), found.end(), reads);
    if (reader == found.end()) return {};
    reader->second.x_first = from;
  }
  return found;
}

}  // namespace

void find_squeezes(const Graph& graph, const PlanOptions& options, Fusion& fusion) {
  const std::vector<int> makers = producers(graph);
  const std::vector<int> uses = use_counts(graph);
  // What alone makes an input of an op.
  const auto before = [&](int i) {
    const ValueId x = graph.ops[at(i)].inputs[0];
    const int make = graph.is_constant(x) || uses[at(x)] != 1 ? -1 : makers[at(x)];
    return make >= 0 && !fusion.in_f32(make) && fusion.absorbed.count(make) == 0 ? make : -1;
  };
  for (int i = 0; i < static_cast<int>(graph.ops.size()); ++i) {
    const Op& second = graph.ops[at(i)];
    if (!is_layer(graph, second) || fusion.in_f32(i) || fusion.absorbed.count(i) != 0) continue;
    const int first = before(i);
    if (first < 0 || !is_layer(graph, graph.ops[at(first)])) continue;
    const int mean = before(first);
    if (mean < 0 || !is_mean(graph, graph.ops[at(mean)])) continue;
    const std::int64_t c = graph.shape(graph.ops[at(mean)].output)[1];
    const std::int64_t hidden = graph.shape(graph.ops[at(first)].output)[1], n = graph.shape(second.output)[1];
    if (hidden * (c + n) > kMostSqueezeBytes) continue;
    const SqueezeMemory memory = squeeze_memory(static_cast<int>(c), static_cast<int>(hidden), static_cast<int>(n));
    if (memory.total() > options.shared_bytes) continue;
    fusion.squeeze_of[i] = {mean, first};
    fusion.absorbed.insert(mean);
    fusion.absorbed.insert(first);
    const ValueId image = graph.ops[at(mean)].inputs[0], gate = second.output;
    fusion.pixel_sums.merge(sums_for(graph, makers, image));
    if (uses[at(gate)] != 1) continue;  // outputs are uses
    for (int j = i + 1; j < static_cast<int>(graph.ops.size()); ++j) {
      if (fusion.in_f32(j) || !multiplies(graph, graph.ops[at(j)], image, gate)) continue;
      fusion.excited_by[j] = i;
      fusion.absorbed.insert(i);
      break;
    }
  }
}

}  // namespace camd::infer::cuda
