#include "infer/graph/quantized_pass.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "infer/graph/rewriting.hpp"

namespace camd::infer {
namespace {

constexpr float kMostSteps = 65536.0F;  // of 16 bits

// Where the values of a tensor lie: multiples of `scale` from `low` to `high`.
struct Grid {
  float scale = 0.0F, low = 0.0F, high = 0.0F;
  friend bool operator==(const Grid&, const Grid&) = default;
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
      : graph_(graph), maker_(producers(graph)), alias_(graph.values.size()), grids_(graph.values.size()) {
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

  [[nodiscard]] std::optional<Pair> pair_of(const Op& op) const {
    ValueId id = kNoValue;
    const auto scale = number_of(op, Binary::Kind::kMul, id);
    if (!scale || !(*scale > 0) || !std::isfinite(*scale)) return std::nullopt;
    Pair pair;
    pair.scale = op.inputs[scalar(graph_, op.inputs[1]) ? 1 : 0];
    const float taken = step_over(id, Binary::Kind::kSub).value_or(0.0F);
    const Activation* bounds = function_over(id, Function::kClip);
    if (bounds == nullptr) return std::nullopt;
    const float added = step_over(id, Binary::Kind::kAdd).value_or(0.0F);
    pair.rounded = id;
    if (added != taken || function_over(id, Function::kRound) == nullptr) return std::nullopt;
    const auto divisor = step_over(id, Binary::Kind::kDiv);
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
    const bool moves = std::holds_alternative<Reshape>(op.operation) ||
                       std::holds_alternative<Transpose>(op.operation) || std::holds_alternative<Slice>(op.operation) ||
                       std::holds_alternative<Gather>(op.operation);
    if (moves) return grid;
    if (std::holds_alternative<Concat>(op.operation)) {
      const bool alike =
          std::all_of(op.inputs.begin(), op.inputs.end(), [&](ValueId id) { return grids_[at(id)] == grid; });
      return alike ? grid : std::nullopt;
    }
    if (const auto* pool = std::get_if<Pool>(&op.operation)) {
      return pool->kind == Pool::Kind::kMax ? grid : std::nullopt;
    }
    if (const auto* resize = std::get_if<Resize>(&op.operation)) {
      const auto nearest = [](const ResizeAxis& axis) {
        return axis.taps == 1 && std::all_of(axis.weight.begin(), axis.weight.end(), [](float w) { return w == 1; });
      };
      return nearest(resize->x) && nearest(resize->y) ? grid : std::nullopt;
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
  std::vector<int> maker_;
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
  QuantizationPass(graph).run();
  remove_unused(graph);
  fold_relus(graph);
  remove_unused(graph);
}

}  // namespace camd::infer
