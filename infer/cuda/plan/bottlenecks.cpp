// Which channels a bottleneck reads and keeps, and whether it fits a kernel.
#include "infer/cuda/plan/bottlenecks.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "infer/cuda/kernels/tiles.hpp"
#include "infer/cuda/plan/fusion.hpp"
#include "infer/graph/rewriting.hpp"

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

// The channels of the input that the op takes, one for each of its own; nothing where it is no Gather or Slice of
// channels.
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

// Nothing where one kernel for them does not fit or does not pay. `kept`: -1, or an op that selected_channels() takes.
std::optional<Bottleneck> describe(const Graph& graph, int front, int deep, int point, int kept,
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
      found.table.push_back(static_cast<std::uint16_t>(std::int64_t{8} * place.at(channel / 8) + channel % 8));
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

class Finder {
 public:
  Finder(Graph& graph, std::size_t shared_bytes, const ConvolutionKinds& kinds, Fusion& fusion)
      : graph_(graph),
        shared_bytes_(shared_bytes),
        kinds_(kinds),
        fusion_(fusion),
        uses_(use_counts(graph)),
        maker_(producers(graph)) {}

  void run() {
    for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) {
      if (!kinds_.pointwise(i)) continue;
      const int deep = kinds_.depthwise_before(i);
      const int front = deep < 0 ? -1 : maker(op(graph_, deep).inputs[0]);
      // One that has a depthwise convolution in front goes with that.
      if (front < 0 || !kinds_.pointwise(front) || kinds_.depthwise_before(front) >= 0) continue;
      const Op& first = op(graph_, front);
      if (residual_of(first) != kNoValue || !read_once(first.output) || !graph_.is_constant(first.inputs[1])) continue;
      const int kept = kept_beside(i, first.inputs[0]);
      auto found = describe(graph_, front, deep, i, kept, shared_bytes_);
      if (!found && kept >= 0) found = describe(graph_, front, deep, i, -1, shared_bytes_);
      if (!found) continue;
      if (found->kept >= 0) {
        Op& selection = graph_.ops[static_cast<std::size_t>(found->kept)];
        selection.operation = Gather{1, *selected_channels(graph_, selection)};
        fusion_.absorbed.insert(found->kept);
      }
      fusion_.absorbed.insert({front, deep});
      fusion_.depthwise_of[i] = deep;
      fusion_.bottlenecks[i] = std::move(*found);
    }
  }

 private:
  [[nodiscard]] int maker(ValueId id) const { return maker_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] bool is_output(ValueId id) const {
    return std::find(graph_.outputs.begin(), graph_.outputs.end(), id) != graph_.outputs.end();
  }
  [[nodiscard]] bool read_once(ValueId id) const { return uses_[static_cast<std::size_t>(id)] == 1 && !is_output(id); }
  // A selection of channels of x that nothing but a concatenation with the result of convolution `point` reads, or -1.
  [[nodiscard]] int kept_beside(int point, ValueId x) const {
    const ValueId made = op(graph_, point).output;
    for (int join = 0; join < static_cast<int>(graph_.ops.size()); ++join) {
      const auto* concat = std::get_if<Concat>(&op(graph_, join).operation);
      const std::vector<ValueId>& parts = op(graph_, join).inputs;
      if (concat == nullptr || concat->axis != 1 || kinds_.in_f32(join)) continue;
      if (!read_once(made) || std::find(parts.begin(), parts.end(), made) == parts.end()) continue;
      for (const ValueId part : parts) {
        const int make = maker(part);
        if (make < 0 || !read_once(part) || kinds_.in_f32(make) || fusion_.absorbed.count(make) != 0) continue;
        const std::vector<ValueId>& reads = op(graph_, make).inputs;
        if (!reads.empty() && reads[0] == x && selected_channels(graph_, op(graph_, make))) return make;
      }
    }
    return -1;
  }

  Graph& graph_;
  const std::size_t shared_bytes_;
  const ConvolutionKinds& kinds_;
  Fusion& fusion_;
  const std::vector<int> uses_;
  const std::vector<int> maker_;
};

}  // namespace

void find_bottlenecks(Graph& graph, std::size_t shared_bytes, const ConvolutionKinds& kinds, Fusion& fusion) {
  Finder(graph, shared_bytes, kinds, fusion).run();
}

}  // namespace camd::infer::cuda
