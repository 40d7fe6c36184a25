#include "infer/graph/movement_pass.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "infer/graph/reference.hpp"
#include "infer/graph/rewriting.hpp"

namespace camd::infer {
namespace {

using Indices = std::vector<std::int64_t>;

// Tracing costs a copy of the value per step, once, at set-up: values above the first bound are not traced, and when
// the second is used up no more chains are.
constexpr std::int64_t kMaxTracedElements = std::int64_t{1} << 22;
constexpr std::int64_t kMaxTracedChannels = std::int64_t{1} << 16;
constexpr std::int64_t kMaxTracedInAll = std::int64_t{1} << 26;

bool moves_one_input(const Op& op) {
  return std::holds_alternative<Reshape>(op.operation) || std::holds_alternative<Transpose>(op.operation) ||
         std::holds_alternative<Slice>(op.operation) || std::holds_alternative<Gather>(op.operation);
}

bool changes_nothing(const Graph& graph, const Op& op) {
  if (op.inputs[0] == kNoValue || graph.is_constant(op.inputs[0])) return false;
  const Shape& in = graph.shape(op.inputs[0]);
  if (in != graph.shape(op.output)) return false;
  if (std::holds_alternative<Reshape>(op.operation)) return true;
  if (std::holds_alternative<Concat>(op.operation)) return op.inputs.size() == 1;
  if (const auto* t = std::get_if<Transpose>(&op.operation)) {
    return std::is_sorted(t->permutation.begin(), t->permutation.end());
  }
  if (const auto* s = std::get_if<Slice>(&op.operation)) {
    for (std::size_t d = 0; d < in.size(); ++d) {
      if (s->start[d] != 0 || (s->step[d] != 1 && in[d] != 1)) return false;
    }
    return true;
  }
  if (const auto* g = std::get_if<Gather>(&op.operation)) {
    for (std::size_t i = 0; i < g->indices.size(); ++i) {
      if (g->indices[i] != static_cast<std::int64_t>(i)) return false;
    }
    return true;
  }
  if (const auto* r = std::get_if<Resize>(&op.operation)) return r->x.repeat == 1 && r->y.repeat == 1;
  if (const auto* u = std::get_if<Unary>(&op.operation)) {
    const Activation& f = u->function;
    return f.function == Function::kNone ||
           (f.function == Function::kClip && std::isinf(f.a) && std::isinf(f.b) && f.a < 0 && f.b > 0);
  }
  return false;
}

// The channels that an op over axis 1 alone reads; empty for any other op.
Indices selected_channels(const Graph& graph, const Op& op) {
  const Shape& out = graph.shape(op.output);
  if (out.size() != 4 || out[1] > kMaxTracedChannels) return {};
  if (const auto* g = std::get_if<Gather>(&op.operation)) return g->axis == 1 ? g->indices : Indices{};
  const auto* s = std::get_if<Slice>(&op.operation);
  if (s == nullptr) return {};
  const Shape& in = graph.shape(op.inputs[0]);
  for (const std::size_t d : {std::size_t{0}, std::size_t{2}, std::size_t{3}}) {
    if (s->start[d] != 0 || (s->step[d] != 1 && in[d] != 1) || in[d] != out[d]) return {};
  }
  Indices channels;
  for (std::int64_t i = 0; i < out[1]; ++i) channels.push_back(s->start[1] + i * s->step[1]);
  return channels;
}

// Channels as a Slice when they are evenly spaced, else as a Gather.
Operation select(const Indices& channels) {
  const std::int64_t step = channels.size() > 1 ? channels[1] - channels[0] : 1;
  bool even = step != 0;
  for (std::size_t i = 1; i < channels.size(); ++i) even = even && channels[i] - channels[i - 1] == step;
  if (even) return Slice{{0, channels[0], 0, 0}, {1, step, 1, 1}};
  return Gather{1, channels};
}

class MovementPass {
 public:
  explicit MovementPass(Graph& graph) : graph_(graph), maker_(graph.values.size(), -1) {
    for (std::size_t i = 0; i < graph.ops.size(); ++i) maker_[at(graph.ops[i].output)] = static_cast<int>(i);
    alias_.resize(graph.values.size());
    std::iota(alias_.begin(), alias_.end(), 0);
  }

  // Ops are in order, so one sweep sees every op with its inputs already simplified.
  void run() {
    for (Op& op : graph_.ops) {
      for (ValueId& id : op.inputs) {
        if (id != kNoValue) id = alias_[at(id)];
      }
      merge(op);
      take_from_part(op);
      to_channels(op);
      const bool output_of_input = op.inputs[0] == graph_.input && is_output(op.output);
      if (changes_nothing(graph_, op) && !output_of_input) alias_[at(op.output)] = op.inputs[0];
    }
    for (ValueId& id : graph_.outputs) id = alias_[at(id)];
    remove_unused(graph_);
  }

 private:
  [[nodiscard]] bool is_output(ValueId id) const {
    return std::find(graph_.outputs.begin(), graph_.outputs.end(), id) != graph_.outputs.end();
  }
  [[nodiscard]] const Op* made_by(ValueId id) const {
    const int p = maker_[at(id)];
    return p < 0 ? nullptr : &graph_.ops[at(p)];
  }

  // Neighbours of one kind become one; a transposition of single dimensions becomes a Reshape.
  void merge(Op& op) {
    if (!moves_one_input(op)) return;
    if (auto* t = std::get_if<Transpose>(&op.operation)) {
      const Op* before = made_by(op.inputs[0]);
      if (const auto* u = before == nullptr ? nullptr : std::get_if<Transpose>(&before->operation)) {
        for (int& p : t->permutation) p = u->permutation[at(p)];
        op.inputs[0] = before->inputs[0];
      }
      int last = -1;
      bool ordered = true;
      for (const int p : t->permutation) {
        if (graph_.shape(op.inputs[0])[at(p)] == 1) continue;
        ordered = ordered && p > last;
        last = p;
      }
      if (ordered) op.operation = Reshape{};
    }
    if (std::holds_alternative<Reshape>(op.operation)) {
      const Op* before = made_by(op.inputs[0]);
      if (before != nullptr && std::holds_alternative<Reshape>(before->operation)) op.inputs[0] = before->inputs[0];
    }
    const Indices channels = selected_channels(graph_, op);
    const Op* before = channels.empty() ? nullptr : made_by(op.inputs[0]);
    if (before == nullptr) return;
    const Indices earlier = selected_channels(graph_, *before);
    if (earlier.empty()) return;
    Indices composed;
    for (const std::int64_t c : channels) composed.push_back(earlier[static_cast<std::size_t>(c)]);
    op.operation = select(composed);
    op.inputs[0] = before->inputs[0];
  }

  // A Slice of one part of a Concat is one of the part itself: decoders stack what each layer found, and read the last.
  void take_from_part(Op& op) {
    auto* slice = std::get_if<Slice>(&op.operation);
    const Op* before = slice == nullptr ? nullptr : made_by(op.inputs[0]);
    const auto* concat = before == nullptr ? nullptr : std::get_if<Concat>(&before->operation);
    if (concat == nullptr) return;
    const std::size_t axis = at(concat->axis);
    const std::int64_t count = graph_.shape(op.output)[axis];
    const std::int64_t one = slice->start[axis], other = one + (count - 1) * slice->step[axis];
    if (count < 1) return;
    std::int64_t first = 0;
    for (const ValueId part : before->inputs) {
      const std::int64_t size = graph_.shape(part)[axis];
      if (std::min(one, other) >= first && std::max(one, other) < first + size) {
        slice->start[axis] -= first;
        op.inputs[0] = alias_[at(part)];
        return;
      }
      first += size;
    }
  }

  // Finds a picture further up from which the chain ending in `op` only picks channels.
  void to_channels(Op& op) {
    const Shape& out = graph_.shape(op.output);
    if (out.size() != 4 || out[0] != 1 || !moves_one_input(op) || !selected_channels(graph_, op).empty()) return;
    std::vector<const Op*> chain = {&op};
    for (int steps = 0; steps < 8; ++steps) {
      const ValueId x = chain.back()->inputs[0];
      const Shape& in = graph_.shape(x);
      if (element_count(in) > kMaxTracedElements) return;
      const bool same_picture = in.size() == 4 && in[0] == 1 && in[2] == out[2] && in[3] == out[3];
      if (same_picture && chain.size() > 1) {
        if (const Indices channels = trace(chain, x); !channels.empty()) {
          op.operation = select(channels);
          op.inputs = {x};
          return;
        }
      }
      const Op* before = made_by(x);
      if (before == nullptr || !moves_one_input(*before)) return;
      chain.push_back(before);
    }
  }

  // Runs the chain on element numbers and looks which channel each output channel is. Empty: not whole channels.
  [[nodiscard]] Indices trace(const std::vector<const Op*>& chain, ValueId x) {
    traced_ += element_count(graph_.shape(x)) * static_cast<std::int64_t>(chain.size());
    if (traced_ > kMaxTracedInAll) return {};
    Constant numbers{DataType::kI64, graph_.shape(x), {}, {}};
    numbers.i64.resize(static_cast<std::size_t>(element_count(numbers.shape)));
    std::iota(numbers.i64.begin(), numbers.i64.end(), 0);
    for (std::size_t i = chain.size(); i-- > 0;) {
      numbers = evaluate(*chain[i], {&numbers}, graph_.shape(chain[i]->output));
    }
    const std::int64_t plane = numbers.shape[2] * numbers.shape[3];
    Indices channels;
    for (std::int64_t c = 0; c < numbers.shape[1]; ++c) {
      const std::int64_t first = numbers.i64[static_cast<std::size_t>(c * plane)];
      if (first % plane != 0) return {};
      for (std::int64_t i = 0; i < plane; ++i) {
        if (numbers.i64[static_cast<std::size_t>(c * plane + i)] != first + i) return {};
      }
      channels.push_back(first / plane);
    }
    return channels;
  }

  Graph& graph_;
  std::vector<int> maker_;
  std::vector<ValueId> alias_;
  std::int64_t traced_ = 0;
};

}  // namespace

void simplify_movement(Graph& graph) { MovementPass(graph).run(); }

}  // namespace camd::infer
