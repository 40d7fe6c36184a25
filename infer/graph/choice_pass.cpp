#include "infer/graph/choice_pass.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "infer/graph/rewriting.hpp"

namespace camd::infer {
namespace {

class ChoicePass {
 public:
  explicit ChoicePass(Graph& graph) : graph_(graph), maker_(producers(graph)), uses_(use_counts(graph)) {}

  void run() {
    before_ = std::move(graph_.ops);
    graph_.ops.clear();
    bool changed = false;
    for (Op& op : before_) {
      for (ValueId& in : op.inputs) {
        if (const auto other = instead_.find(in); other != instead_.end()) in = other->second;
      }
      const ValueId rows = rows_of(op);
      const bool moves = rows != kNoValue && worth(op.inputs[0]);
      if (rows == kNoValue || (!moves && is_output(op.output))) {
        graph_.ops.push_back(op);
        continue;
      }
      changed = true;
      origin_ = op.origin;
      const ValueId made = moves ? chosen(op.inputs[0], rows) : pick(op.inputs[0], rows);
      instead_[op.output] = made;
      // The network's output keeps its name. Nobody else reads it (rows_of()), and what makes it was added last.
      if (is_output(op.output)) graph_.ops.back().output = op.output;
    }
    if (changed) remove_unused(graph_);
  }

 private:
  [[nodiscard]] const Op* made(ValueId id) const {
    if (id == kNoValue || at(id) >= maker_.size()) return nullptr;  // none, or made by this pass
    const int p = maker_[at(id)];
    return p < 0 ? nullptr : &before_[at(p)];
  }
  [[nodiscard]] bool is_output(ValueId id) const {
    return std::find(graph_.outputs.begin(), graph_.outputs.end(), id) != graph_.outputs.end();
  }
  [[nodiscard]] const Op* read_once(ValueId id) const {
    const Op* op = made(id);
    return op != nullptr && uses_[at(id)] == 1 && !is_output(id) ? op : nullptr;
  }

  // The numbers [1, n, 1] by which a Pick chooses whole rows; none for other ops. A network's output that others read
  // as well stays as it is.
  [[nodiscard]] ValueId rows_of(const Op& op) const {
    if (!std::holds_alternative<Pick>(op.operation) || graph_.is_constant(op.inputs[0])) return kNoValue;
    if (graph_.shape(op.inputs[0])[0] != 1 || (is_output(op.output) && uses_[at(op.output)] != 1)) return kNoValue;
    ValueId numbers = op.inputs[1];
    // Repeated for each column, as GatherElements wants them.
    if (const Op* repeat = made(numbers); repeat != nullptr) {
      const auto* gather = std::get_if<Gather>(&repeat->operation);
      const Shape& from = graph_.shape(repeat->inputs[0]);
      if (gather != nullptr && gather->axis == 2 && from.size() == 3 && from[2] == 1) numbers = repeat->inputs[0];
    }
    const Shape& shape = graph_.shape(numbers);
    return shape.size() == 3 && shape[0] == 1 && shape[2] == 1 ? numbers : kNoValue;
  }

  // How the value of an op depends on its rows.
  enum class Input : std::uint8_t { kSameForAll, kByRow, kOther };
  [[nodiscard]] Input input(ValueId id, std::int64_t rows) const {
    if (id == kNoValue) return Input::kSameForAll;
    const Shape& s = graph_.shape(id);
    if (s.size() < 2 || (s.size() <= 3 && s[s.size() - 2] == 1)) return Input::kSameForAll;
    return s.size() == 3 && s[0] == 1 && s[1] == rows ? Input::kByRow : Input::kOther;
  }
  // Whether each row of the result comes from the same row of what is read.
  [[nodiscard]] bool by_rows(const Op& op) const {
    const Shape& shape = graph_.shape(op.output);
    if (shape.size() != 3 || shape[0] != 1) return false;
    if (std::holds_alternative<MatMul>(op.operation)) {
      return graph_.is_constant(op.inputs[1]) && graph_.shape(op.inputs[1]).size() == 2 &&
             input(op.inputs[0], shape[1]) == Input::kByRow &&
             (op.inputs[2] == kNoValue || input(op.inputs[2], shape[1]) == Input::kSameForAll);
    }
    if (!std::holds_alternative<Binary>(op.operation) && !std::holds_alternative<Unary>(op.operation)) return false;
    return std::all_of(op.inputs.begin(), op.inputs.end(),
                       [&](ValueId in) { return input(in, shape[1]) != Input::kOther; });
  }
  // A product is saved.
  [[nodiscard]] bool worth(ValueId id) const {
    const Op* op = read_once(id);
    if (op == nullptr || !by_rows(*op)) return false;
    if (std::holds_alternative<MatMul>(op->operation)) return true;
    return std::any_of(op->inputs.begin(), op->inputs.end(), [&](ValueId in) { return in != kNoValue && worth(in); });
  }

  ValueId add(Op op, Shape shape) {
    op.output = static_cast<ValueId>(graph_.values.size());
    Value value;
    value.shape = std::move(shape);
    graph_.values.push_back(std::move(value));
    graph_.ops.push_back(std::move(op));
    return graph_.ops.back().output;
  }
  ValueId pick(ValueId id, ValueId rows) {
    const auto known = picked_.find({id, rows});
    if (known != picked_.end()) return known->second;
    Op op;
    op.operation = Pick{};
    op.inputs = {id, rows};
    op.origin = origin_;
    return picked_[{id, rows}] = add(std::move(op), {1, graph_.shape(rows)[1], graph_.shape(id)[2]});
  }
  // The value's rows that are chosen.
  ValueId chosen(ValueId id, ValueId rows) {
    const Op* source = read_once(id);
    if (source == nullptr || !by_rows(*source)) return pick(id, rows);
    Op op = *source;
    const Shape whole = graph_.shape(id);
    for (ValueId& in : op.inputs) {
      if (input(in, whole[1]) == Input::kByRow) in = chosen(in, rows);
    }
    return add(std::move(op), {1, graph_.shape(rows)[1], whole[2]});
  }

  Graph& graph_;
  std::vector<int> maker_;
  std::vector<int> uses_;
  std::vector<Op> before_;
  std::map<std::pair<ValueId, ValueId>, ValueId> picked_;  // by value and numbers
  std::map<ValueId, ValueId> instead_;
  std::string origin_;  // of the Pick that moves
};

}  // namespace

void choose_rows_first(Graph& graph) { ChoicePass(graph).run(); }

}  // namespace camd::infer
