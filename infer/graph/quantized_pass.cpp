#include "infer/graph/quantized_pass.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "infer/graph/rewriting.hpp"

namespace camd::infer {
namespace {

constexpr float kMostSteps = 65536.0F;  // of 16 bits

// Where the values of a tensor lie: multiples of `scale` from `low` to `high`.
struct Grid {
  float scale = 0.0F, low = 0.0F, high = 0.0F;
  friend bool operator==(const Grid&, const Grid&) = default;
};

// The one input whose values the op only moves or chooses among; none where it does more.
ValueId moved_by(const Graph& graph, const Op& op) {
  if (op.activation.function != Function::kNone || op.inputs.empty()) return kNoValue;
  const auto constant = [&](ValueId id) { return id == kNoValue || graph.is_constant(id); };
  if (!std::all_of(op.inputs.begin() + 1, op.inputs.end(), constant)) return kNoValue;
  return only_moves(op.operation) ? op.inputs[0] : kNoValue;
}

// Looks at the ops that make a value.
class Makers {
 public:
  explicit Makers(const Graph& graph) : graph_(graph), maker_(producers(graph)) {}

  [[nodiscard]] const Op* made_by(ValueId id) const {
    const int p = id == kNoValue ? -1 : maker_[at(id)];
    return p < 0 ? nullptr : &graph_.ops[at(p)];
  }
  // The Binary with one number on its right (or on either side) that makes the value; steps over it to the other side.
  [[nodiscard]] std::optional<float> step_over(ValueId& id, Binary::Kind kind) const {
    const Op* op = made_by(id);
    return op == nullptr ? std::nullopt : number_of(*op, kind, id);
  }
  [[nodiscard]] std::optional<float> number_of(const Op& op, Binary::Kind kind, ValueId& other) const {
    const auto* b = std::get_if<Binary>(&op.operation);
    if (b == nullptr || b->kind != kind || op.activation.function != Function::kNone) return std::nullopt;
    const bool commutes = kind == Binary::Kind::kAdd || kind == Binary::Kind::kMul;
    for (const std::size_t side : {std::size_t{1}, std::size_t{0}}) {
      const auto number = scalar(graph_, op.inputs[side]);
      if (!number || (side == 0 && !commutes) || graph_.shape(op.inputs[1 - side]) != graph_.shape(op.output)) continue;
      other = op.inputs[1 - side];
      return number;
    }
    return std::nullopt;
  }
  [[nodiscard]] const Activation* function_over(ValueId& id, Function function) const {
    const Op* op = made_by(id);
    const auto* u = op == nullptr ? nullptr : std::get_if<Unary>(&op->operation);
    if (u == nullptr || u->function.function != function) return nullptr;
    id = op->inputs[0];
    return &u->function;
  }

 private:
  const Graph& graph_;
  std::vector<int> maker_;
};

// Graphs of QLinearConv and its kind move values between the two halves of a pair: clip(round(x / scale) + zero) goes
// through a MaxPool, say, before (v - zero) * scale. Here what only moves values comes behind both halves, so that they
// stand next to each other.
class HalvesOfPairs {
 public:
  explicit HalvesOfPairs(Graph& graph) : graph_(graph), makers_(graph), root_(graph.values.size(), kNoValue) {}

  void run() {
    // The makers look at the graph as it was.
    for (const Op& op : graph_.ops) {
      const ValueId from = moved_by(graph_, op);
      if (from != kNoValue) root_[at(op.output)] = root_[at(from)];
      if (first_half(op)) root_[at(op.output)] = op.output;
      const ValueId steps = steps_of(op);
      if (steps == kNoValue) {
        ops_.push_back(op);
      } else if (root_[at(steps)] == steps) {
        numbers_.emplace(steps, op.output);
        ops_.push_back(op);
      } else {
        join(steps, op);
      }
    }
    graph_.ops = std::move(ops_);
    for (Shape& shape : shapes_) {
      graph_.values.emplace_back();
      graph_.values.back().shape = std::move(shape);
    }
  }

 private:
  struct Half {
    float scale = 0.0F, zero = 0.0F;
    friend bool operator==(const Half&, const Half&) = default;
  };

  // clip(round(x / scale) + zero)
  [[nodiscard]] std::optional<Half> first_half(const Op& op) const {
    const auto* clip = std::get_if<Unary>(&op.operation);
    if (clip == nullptr || clip->function.function != Function::kClip) return std::nullopt;
    Half half;
    ValueId id = op.inputs[0];
    half.zero = makers_.step_over(id, Binary::Kind::kAdd).value_or(0.0F);
    if (makers_.function_over(id, Function::kRound) == nullptr) return std::nullopt;
    const auto scale = makers_.step_over(id, Binary::Kind::kDiv);
    if (!scale) return std::nullopt;
    half.scale = *scale;
    return half;
  }

  // v, where the op is (v - zero) * scale and v comes from a first half with the same numbers; kNoValue for others.
  [[nodiscard]] ValueId steps_of(const Op& op) const {
    ValueId id = kNoValue;
    const auto scale = makers_.number_of(op, Binary::Kind::kMul, id);
    if (!scale) return kNoValue;
    const Half half{*scale, makers_.step_over(id, Binary::Kind::kSub).value_or(0.0F)};
    const Op* first = id == kNoValue ? nullptr : makers_.made_by(root_[at(id)]);
    return first != nullptr && first_half(*first) == half ? id : kNoValue;
  }

  ValueId add(Op op, Shape shape) {
    op.output = static_cast<ValueId>(graph_.values.size() + shapes_.size());
    shapes_.push_back(std::move(shape));
    ops_.push_back(std::move(op));
    return ops_.back().output;
  }

  // The numbers that the root's steps stand for. Where no op makes them yet, copies of the ops of `second` do.
  ValueId numbers_of_root(ValueId root, const Op& second) {
    const auto found = numbers_.find(root);
    if (found != numbers_.end()) return found->second;
    const Shape shape = graph_.shape(root);
    ValueId value = root;
    const std::size_t side = scalar(graph_, second.inputs[1]) ? 0 : 1;  // of the value; the scale is the other
    ValueId id = second.inputs[side];
    const Op* taken = makers_.made_by(id);
    if (makers_.step_over(id, Binary::Kind::kSub)) {
      Op difference = *taken;
      difference.inputs[0] = root;
      value = add(std::move(difference), shape);
    }
    Op product = second;
    product.inputs[side] = value;
    return numbers_[root] = add(std::move(product), shape);
  }

  // The moves that lead to `steps` again, of numbers; the last of them makes what `second` made.
  void join(ValueId steps, const Op& second) {
    std::vector<const Op*> moves;
    ValueId from = steps;
    do {
      moves.push_back(makers_.made_by(from));
      from = moved_by(graph_, *moves.back());
    } while (from != root_[at(steps)] && numbers_.count(from) == 0);
    ValueId numbers = from == root_[at(steps)] ? numbers_of_root(from, second) : numbers_.at(from);
    for (std::size_t i = moves.size(); i-- > 0;) {
      Op move = *moves[i];
      const ValueId made = move.output;
      move.inputs[0] = numbers;
      if (i == 0) {
        move.output = numbers = second.output;
        ops_.push_back(std::move(move));
      } else {
        numbers = add(std::move(move), graph_.shape(made));
      }
      numbers_.emplace(made, numbers);
    }
  }

  Graph& graph_;
  Makers makers_;
  std::vector<ValueId> root_;           // per value: the first half that it comes from by moves alone
  std::vector<Op> ops_;                 // the new ones
  std::vector<Shape> shapes_;           // of new values
  std::map<ValueId, ValueId> numbers_;  // by value of steps, where an op makes them
};

// A pair as lowering writes it: ((clip(round(x / scale) + zero, bounds)) - zero) * scale.
struct Pair {
  ValueId x = kNoValue;
  ValueId rounded = kNoValue;
  ValueId scale = kNoValue;
  Grid grid;
};

class QuantizationPass {
 public:
  explicit QuantizationPass(Graph& graph)
      : graph_(graph), makers_(graph), alias_(graph.values.size()), grids_(graph.values.size()) {
    std::iota(alias_.begin(), alias_.end(), 0);
  }

  void run() {
    for (Op& op : graph_.ops) {
      for (ValueId& id : op.inputs) {
        if (id != kNoValue) id = alias_[at(id)];
      }
      if (const auto pair = pair_of(op)) {
        replace(op, *pair);
      } else {
        grids_[at(op.output)] = grid_behind(op);
      }
    }
    for (ValueId& id : graph_.outputs) id = alias_[at(id)];
  }

 private:
  [[nodiscard]] std::optional<Pair> pair_of(const Op& op) const {
    ValueId id = kNoValue;
    const auto scale = makers_.number_of(op, Binary::Kind::kMul, id);
    if (!scale || !(*scale > 0) || !std::isfinite(*scale)) return std::nullopt;
    Pair pair;
    pair.scale = op.inputs[scalar(graph_, op.inputs[1]) ? 1 : 0];
    const float taken = makers_.step_over(id, Binary::Kind::kSub).value_or(0.0F);
    const Activation* bounds = makers_.function_over(id, Function::kClip);
    if (bounds == nullptr) return std::nullopt;
    const float added = makers_.step_over(id, Binary::Kind::kAdd).value_or(0.0F);
    pair.rounded = id;
    if (added != taken || makers_.function_over(id, Function::kRound) == nullptr) return std::nullopt;
    const auto divisor = makers_.step_over(id, Binary::Kind::kDiv);
    pair.x = id;
    const auto whole = [](float v) { return v == std::nearbyint(v) && std::abs(v) <= kMostSteps; };
    if (divisor != scale || !whole(added) || !whole(bounds->a) || !whole(bounds->b)) return std::nullopt;
    pair.grid = {*scale, (bounds->a - added) * *scale, (bounds->b - added) * *scale};
    return pair;
  }

  void replace(Op& op, const Pair& pair) {
    if (grids_[at(pair.x)] == pair.grid) {  // rounded already
      alias_[at(op.output)] = pair.x;
      return;
    }
    for (const auto& [rounded, grid, result] : done_) {
      if (rounded != pair.rounded || grid != pair.grid) continue;
      alias_[at(op.output)] = result;
      return;
    }
    op.inputs = {pair.rounded, pair.scale};
    op.activation = {Function::kClip, pair.grid.low, pair.grid.high};
    grids_[at(op.output)] = pair.grid;
    done_.push_back({pair.rounded, pair.grid, op.output});
  }

  // The grid on which the result of an op lies that makes no new numbers.
  [[nodiscard]] std::optional<Grid> grid_behind(const Op& op) const {
    if (op.inputs.empty() || op.inputs[0] == kNoValue) return std::nullopt;
    const std::optional<Grid>& grid = grids_[at(op.inputs[0])];
    if (moved_by(graph_, op) != kNoValue) return grid;
    if (std::holds_alternative<Concat>(op.operation)) {
      const bool alike =
          std::all_of(op.inputs.begin(), op.inputs.end(), [&](ValueId id) { return grids_[at(id)] == grid; });
      return alike ? grid : std::nullopt;
    }
    if (const auto* unary = std::get_if<Unary>(&op.operation); unary != nullptr && grid) {
      return unary->function.function == Function::kRelu && grid->low <= 0 && grid->high >= 0 ? grid : std::nullopt;
    }
    return std::nullopt;
  }

  struct Done {
    ValueId rounded;
    Grid grid;
    ValueId result;
  };
  Graph& graph_;
  Makers makers_;
  std::vector<ValueId> alias_;
  std::vector<std::optional<Grid>> grids_;  // per value
  std::vector<Done> done_;
};

// clip(round(relu(x) / scale) * scale): dividing and rounding keep the order, so the bound may come last.
void fold_relus(Graph& graph) {
  const std::vector<int> maker = producers(graph);
  const std::vector<int> uses = use_counts(graph);
  // The op that makes the value for this one reader.
  const auto only = [&](ValueId id) -> Op* {
    return id == kNoValue || maker[at(id)] < 0 || uses[at(id)] != 1 ? nullptr : &graph.ops[at(maker[at(id)])];
  };
  const auto is = [](const Op* op, Function function) {
    const auto* u = op == nullptr ? nullptr : std::get_if<Unary>(&op->operation);
    return u != nullptr && u->function.function == function;
  };
  for (Op& op : graph.ops) {
    const auto* product = std::get_if<Binary>(&op.operation);
    if (product == nullptr || product->kind != Binary::Kind::kMul || op.activation.function != Function::kClip)
      continue;
    const auto scale = scalar(graph, op.inputs[1]);
    const Op* round = only(op.inputs[0]);
    if (!scale || !(*scale > 0) || !is(round, Function::kRound)) continue;
    Op* quotient = only(round->inputs[0]);
    const auto* binary = quotient == nullptr ? nullptr : std::get_if<Binary>(&quotient->operation);
    if (binary == nullptr || binary->kind != Binary::Kind::kDiv || scalar(graph, quotient->inputs[1]) != scale)
      continue;
    const Op* relu = only(quotient->inputs[0]);
    if (!is(relu, Function::kRelu)) continue;
    quotient->inputs[0] = relu->inputs[0];
    op.activation.a = std::max(op.activation.a, 0.0F);
    op.activation.b = std::max(op.activation.b, op.activation.a);
  }
}

}  // namespace

void simplify_quantization(Graph& graph) {
  HalvesOfPairs(graph).run();
  QuantizationPass(graph).run();
  remove_unused(graph);
  fold_relus(graph);
  remove_unused(graph);
}

}  // namespace camd::infer
