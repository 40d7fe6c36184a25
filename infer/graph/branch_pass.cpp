#include "infer/graph/branch_pass.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "infer/graph/rewriting.hpp"

namespace camd::infer {
namespace {

// A convolution with its numbers.
struct Branch {
  ValueId x = kNoValue;
  Conv conv;
  Shape shape;  // of the weights
  std::vector<double> weight, bias;
};

class Joiner {
 public:
  explicit Joiner(Graph& graph) : graph_(graph), maker_(producers(graph)), uses_(use_counts(graph)) {}

  bool run() {
    bool changed = false;
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) changed = join(static_cast<int>(i)) || changed;
    if (changed) remove_unused(graph_);
    return changed;
  }

 private:
  // The op that makes the value for one reader alone, without an activation.
  [[nodiscard]] const Op* made(ValueId id) const {
    if (id == kNoValue || maker_[at(id)] < 0 || uses_[at(id)] != 1) return nullptr;
    const Op& op = graph_.ops[at(maker_[at(id)])];
    return op.activation.function == Function::kNone ? &op : nullptr;
  }

  [[nodiscard]] std::optional<Branch> convolution(ValueId id) const {
    const Op* op = made(id);
    const auto* conv = op == nullptr ? nullptr : std::get_if<Conv>(&op->operation);
    if (conv == nullptr || (op->inputs.size() > 3 && op->inputs[3] != kNoValue)) return std::nullopt;
    const Constant& weight = *graph_.value(op->inputs[1]).constant;
    const Constant& bias = *graph_.value(op->inputs[2]).constant;
    return Branch{
        op->inputs[0], *conv, weight.shape, {weight.f32.begin(), weight.f32.end()}, {bias.f32.begin(), bias.f32.end()}};
  }

  // x * gain + offset per channel as a convolution of one tap, in groups as `other` has them.
  [[nodiscard]] std::optional<Branch> line(ValueId id, const Branch& other) const {
    const Shape& out = graph_.shape(id);
    const auto channels = at(static_cast<int>(out[1]));
    std::vector<double> gain(channels, 1.0), offset(channels, 0.0);
    ValueId x = id;
    while (x != other.x) {
      const Op* op = made(x);
      const auto before = op == nullptr ? std::nullopt : channel_line(graph_, *op, 1);
      if (!before) return std::nullopt;
      for (std::size_t c = 0; c < channels; ++c) {
        offset[c] += gain[c] * before->offset[c];
        gain[c] *= before->gain[c];
      }
      x = graph_.is_constant(op->inputs[0]) ? op->inputs[1] : op->inputs[0];
    }
    // The value itself is what Conv's residual is for, and costs half precision no digits there.
    if (x == id || graph_.shape(x) != out) return std::nullopt;
    Branch branch{x, Conv{}, {out[1], out[1] / other.conv.groups, 1, 1}, {}, std::move(offset)};
    branch.conv.kernel = {1, 1};
    branch.conv.groups = other.conv.groups;
    const auto each = at(static_cast<int>(branch.shape[1]));
    branch.weight.assign(channels * each, 0.0);
    for (std::size_t c = 0; c < channels; ++c) branch.weight[c * each + c % each] = gain[c];
    return branch;
  }

  // Adds the small window's weights to those of the large one that they lie on.
  static bool add(Branch& large, const Branch& small) {
    const bool one = small.conv.kernel == Pair2{1, 1};
    if (large.x != small.x || large.conv.groups != small.conv.groups || large.conv.stride != small.conv.stride ||
        (!one && large.conv.dilation != small.conv.dilation)) {
      return false;
    }
    const int down = large.conv.pads.top - small.conv.pads.top, across = large.conv.pads.left - small.conv.pads.left;
    if (down < 0 || across < 0 || down % large.conv.dilation.y != 0 || across % large.conv.dilation.x != 0)
      return false;
    const std::int64_t top = down / large.conv.dilation.y, left = across / large.conv.dilation.x;
    const Shape& to = large.shape;
    const Shape& from = small.shape;
    if (from[0] != to[0] || from[1] != to[1] || top + from[2] > to[2] || left + from[3] > to[3]) return false;
    std::size_t i = 0;
    for (std::int64_t plane = 0; plane < from[0] * from[1]; ++plane) {
      for (std::int64_t y = 0; y < from[2]; ++y) {
        for (std::int64_t x = 0; x < from[3]; ++x, ++i) {
          large.weight[static_cast<std::size_t>((plane * to[2] + top + y) * to[3] + left + x)] += small.weight[i];
        }
      }
    }
    for (std::size_t c = 0; c < small.bias.size(); ++c) large.bias[c] += small.bias[c];
    return true;
  }

  bool join(int i) {
    Op& sum = graph_.ops[at(i)];
    const auto* binary = std::get_if<Binary>(&sum.operation);
    if (binary == nullptr || binary->kind != Binary::Kind::kAdd) return false;
    const Shape& out = graph_.shape(sum.output);
    if (out.size() != 4 || graph_.shape(sum.inputs[0]) != out || graph_.shape(sum.inputs[1]) != out) return false;
    std::optional<Branch> first = convolution(sum.inputs[0]), second = convolution(sum.inputs[1]);
    if (!first && second) first = line(sum.inputs[0], *second);
    if (!second && first) second = line(sum.inputs[1], *first);
    if (!first || !second) return false;
    if (!add(*first, *second)) {
      if (!add(*second, *first)) return false;
      first.swap(second);
    }
    const auto outputs = static_cast<std::int64_t>(first->bias.size());
    sum.operation = first->conv;
    sum.inputs = {first->x, add_constant(graph_, first->shape, {first->weight.begin(), first->weight.end()}),
                  add_constant(graph_, {outputs}, {first->bias.begin(), first->bias.end()}), kNoValue};
    // Constants are values as well, and nobody asks who makes or reads those.
    maker_.resize(graph_.values.size(), -1);
    uses_.resize(graph_.values.size(), 1);
    return true;
  }

  Graph& graph_;
  std::vector<int> maker_, uses_;
};

}  // namespace

bool join_branches(Graph& graph) { return Joiner(graph).run(); }

}  // namespace camd::infer
