// Which channels a bottleneck reads and keeps, and whether it fits a kernel.
#include "infer/cuda/plan/bottlenecks.hpp"

#include <algorithm>
#include <map>

#include "infer/cuda/kernels/tiles.hpp"
#include "infer/cuda/plan/fusion.hpp"

namespace camd::infer::cuda {
namespace {

const Op& op(const Graph& graph, int i) { return graph.ops[static_cast<std::size_t>(i)]; }

// Of 8 channels each. Others have no weights but 0: selections of channels were folded into the weights.
std::vector<std::uint16_t> groups_with_weights(const Graph& graph, const Op& front) {
  const Shape& shape = graph.shape(front.inputs[1]);
  const auto rows = static_cast<std::size_t>(shape[0]), width = static_cast<std::size_t>(shape[1]);
  const std::vector<float>& weights = graph.value(front.inputs[1]).constant->f32;
  std::vector<std::uint16_t> groups;
  for (std::size_t first = 0; first < width; first += 8) {
    bool used = false;
    for (std::size_t n = 0; n < rows && !used; ++n) {
      const auto row = weights.begin() + static_cast<std::ptrdiff_t>(n * width);
      used = std::any_of(row + static_cast<std::ptrdiff_t>(first),
                         row + static_cast<std::ptrdiff_t>(std::min(first + 8, width)), [](float w) { return w != 0; });
    }
    if (used) groups.push_back(static_cast<std::uint16_t>(first / 8));
  }
  if (groups.empty()) groups.push_back(0);
  return groups;
}

}  // namespace

std::optional<std::vector<std::int64_t>> selected_channels(const Graph& graph, const Op& op) {
  if (op.activation.function != Function::kNone || op.inputs.empty()) return {};
  const Shape &from = graph.shape(op.inputs[0]), &to = graph.shape(op.output);
  if (from.size() != 4 || to.size() != 4 || from[0] != 1) return {};
  if (const auto* gather = std::get_if<Gather>(&op.operation))
    return gather->axis == 1 ? std::optional(gather->indices) : std::nullopt;
  const auto* slice = std::get_if<Slice>(&op.operation);
  if (slice == nullptr || from[2] != to[2] || from[3] != to[3]) return {};
  for (const std::size_t d : {std::size_t{0}, std::size_t{2}, std::size_t{3}}) {
    if (slice->start[d] != 0 || slice->step[d] != 1) return {};
  }
  std::vector<std::int64_t> channels;
  for (std::int64_t i = 0; i < to[1]; ++i) channels.push_back(slice->start[1] + i * slice->step[1]);
  return channels;
}

std::optional<Bottleneck> describe_bottleneck(const Graph& graph, int front, int deep, int point, int kept,
                                              std::size_t shared_bytes) {
  const auto image = [&](ValueId id) {
    const Shape& s = graph.shape(id);
    Image made;
    made.h = static_cast<int>(s[2]);
    made.w = static_cast<int>(s[3]);
    made.c = static_cast<int>(s[1]);
    return made;
  };
  Bottleneck found;
  found.front = front;
  found.point = point;
  found.kept = kept;
  BottleneckArguments& a = found.sizes;
  const ValueId x = op(graph, front).inputs[0];
  a.x = image(x);
  a.y = image(op(graph, point).output);
  a.c = static_cast<int>(graph.shape(op(graph, deep).output)[1]);
  const auto& depthwise = std::get<Conv>(op(graph, deep).operation);
  a.stride = depthwise.stride.y;
  a.pad_top = depthwise.pads.top;
  a.pad_left = depthwise.pads.left;
  a.adds_x = residual_of(op(graph, point)) != kNoValue;
  const bool like_x = a.y.h == a.x.h && a.y.w == a.x.w;
  if (a.adds_x && (residual_of(op(graph, point)) != x || !like_x || a.y.c != a.x.c || a.stride != 1)) return {};
  found.table = groups_with_weights(graph, op(graph, front));
  if (a.adds_x) {
    found.table.clear();
    for (int group = 0; group < (a.x.c + 7) / 8; ++group) found.table.push_back(static_cast<std::uint16_t>(group));
  }
  a.front_groups = static_cast<int>(found.table.size());
  if (kept >= 0) {
    if (a.stride != 1 || !like_x) return {};
    const std::vector<std::int64_t> channels = *selected_channels(graph, op(graph, kept));
    std::map<std::int64_t, int> place;  // of a group of x, among those that are kept
    for (const std::int64_t channel : channels) place.emplace(channel / 8, 0);
    for (auto& [group, at] : place) {
      at = a.kept_groups++;
      found.table.push_back(static_cast<std::uint16_t>(group));
    }
    for (std::size_t i = 0; i < (channels.size() + 7) / 8 * 8; ++i) {
      const std::int64_t channel = channels[i < channels.size() ? i : 0];
      found.table.push_back(static_cast<std::uint16_t>(place.at(channel / 8) * 8 + channel % 8));
    }
    a.kept = image(op(graph, kept).output);
  }
  // The chosen tile does not depend on where the images lie.
  BottleneckArguments placed = a;
  if (kept >= 0) placed.kept.data = &placed;
  a.tile = choose_tile(placed, shared_bytes);
  if (a.tile < 0) return {};
  return found;
}

}  // namespace camd::infer::cuda
