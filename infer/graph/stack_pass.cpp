#include "infer/graph/stack_pass.hpp"

#include <optional>
#include <utility>

#include "infer/graph/rewriting.hpp"

namespace camd::infer {
namespace {

constexpr std::size_t kMostParts = 8;  // beyond that one pass over the stack is cheaper than one for each part

class StackPass {
 public:
  explicit StackPass(Graph& graph) : graph_(graph), maker_(producers(graph)), uses_(use_counts(graph)) {}

  bool run() {
    bool changed = false;
    before_ = std::move(graph_.ops);
    graph_.ops.clear();
    for (Op& op : before_) {
      const auto stack = stack_of(op);
      if (stack) {
        unstack(op, *stack);
        changed = true;
      }
      graph_.ops.push_back(op);
    }
    if (changed) remove_unused(graph_);
    return changed;
  }

 private:
  struct Stack {
    Binary::Kind kind = Binary::Kind::kAdd;
    std::vector<ValueId> parts;
    std::vector<float> weights;  // empty: 1
  };

  // Ops move into the graph while they are visited, so they are looked up where they were.
  [[nodiscard]] const Op* made(ValueId id) const {
    const int p = id == kNoValue ? -1 : maker_[at(id)];
    return p < 0 ? nullptr : &before_[at(p)];
  }
  [[nodiscard]] const Op* read_once(ValueId id) const { return uses_[at(id)] == 1 ? made(id) : nullptr; }

  [[nodiscard]] static std::optional<Binary::Kind> pairwise(Reduce::Kind kind) {
    switch (kind) {
      case Reduce::Kind::kSum: return Binary::Kind::kAdd;
      case Reduce::Kind::kMax: return Binary::Kind::kMax;
      case Reduce::Kind::kMin: return Binary::Kind::kMin;
      default: return std::nullopt;
    }
  }

  [[nodiscard]] std::optional<Stack> stack_of(const Op& op) const {
    const auto* reduce = std::get_if<Reduce>(&op.operation);
    const auto kind = reduce == nullptr ? std::nullopt : pairwise(reduce->kind);
    if (!kind || reduce->axes.size() != 1) return std::nullopt;
    Stack stack{*kind, {}, {}};
    const int axis = reduce->axes[0];
    const Op* source = read_once(op.inputs[0]);
    if (source != nullptr && std::holds_alternative<Binary>(source->operation)) {
      if (!read_weights(*source, at(axis), stack)) return std::nullopt;
      source = read_once(graph_.is_constant(source->inputs[0]) ? source->inputs[1] : source->inputs[0]);
    }
    const auto* concat = source == nullptr ? nullptr : std::get_if<Concat>(&source->operation);
    if (concat == nullptr || concat->axis != axis || source->inputs.size() > kMostParts) return std::nullopt;
    for (const ValueId id : source->inputs) {
      if (graph_.is_constant(id) || graph_.shape(id)[at(axis)] != 1) return std::nullopt;
      stack.parts.push_back(id);
    }
    look_through_reshapes(stack);
    return stack;
  }

  // The Binary as one factor for each element of the axis.
  [[nodiscard]] bool read_weights(const Op& op, std::size_t axis, Stack& stack) const {
    const auto line = channel_line(graph_, op, axis);
    if (!line || std::get<Binary>(op.operation).kind != Binary::Kind::kMul) return false;
    for (const double gain : line->gain) stack.weights.push_back(static_cast<float>(gain));
    return true;
  }

  // The parts before they got the axis to be stacked on.
  void look_through_reshapes(Stack& stack) const {
    std::vector<ValueId> sources;
    for (const ValueId id : stack.parts) {
      const Op* reshape = made(id);
      if (reshape == nullptr || !std::holds_alternative<Reshape>(reshape->operation)) return;
      sources.push_back(reshape->inputs[0]);
      if (graph_.is_constant(sources.back()) || graph_.shape(sources.back()) != graph_.shape(sources[0])) return;
    }
    stack.parts = std::move(sources);
  }

  ValueId add(Operation operation, std::vector<ValueId> inputs, const Shape& shape, const Op& like) {
    Op op = like;
    op.operation = std::move(operation);
    op.inputs = std::move(inputs);
    op.output = static_cast<ValueId>(graph_.values.size());
    op.activation = {};
    Value value;
    value.shape = shape;
    graph_.values.push_back(std::move(value));
    graph_.ops.push_back(op);
    return op.output;
  }

  // Adds all but the last op; `op` becomes that.
  void unstack(Op& op, const Stack& stack) {
    const Shape shape = graph_.shape(stack.parts[0]);
    ValueId sum = kNoValue;
    for (std::size_t i = 0; i < stack.parts.size(); ++i) {
      ValueId part = stack.parts[i];
      if (!stack.weights.empty()) {
        part = add(Binary{Binary::Kind::kMul}, {part, add_constant(graph_, {1}, {stack.weights[i]})}, shape, op);
      }
      sum = i == 0 ? part : add(Binary{stack.kind}, {sum, part}, shape, op);
    }
    op.operation = Reshape{};
    op.inputs = {sum};
  }

  Graph& graph_;
  std::vector<int> maker_;
  std::vector<int> uses_;
  std::vector<Op> before_;
};

}  // namespace

bool unstack_reductions(Graph& graph) { return StackPass(graph).run(); }

}  // namespace camd::infer
