// Moves elementwise operators to where they cost no kernel of their own.
#include "infer/cuda/plan/elementwise.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "infer/cuda/kernels/elementwise.hpp"
#include "infer/graph/rewriting.hpp"

namespace camd::infer::cuda {
namespace {

bool is_elementwise(const Op& op) {
  return std::holds_alternative<Unary>(op.operation) || std::holds_alternative<Binary>(op.operation);
}

class Mover {
 public:
  explicit Mover(Graph& graph) : graph_(graph) { index(); }

  void run() {
    // Each move looks at the whole graph again, and detectors have a few.
    constexpr int kMostMoves = 64;
    int moves = 0;
    for (int i = 0; i < static_cast<int>(graph_.ops.size()) && moves < kMostMoves; ++i) {
      if (!move_into_convolutions(i) && !move_behind_makers(i)) continue;
      ++moves;
      index();
      --i;  // another op has this number now
    }
  }

 private:
  void index() {
    maker_ = producers(graph_);
    uses_ = use_counts(graph_);
  }
  [[nodiscard]] Op& op(int i) { return graph_.ops[at(i)]; }
  [[nodiscard]] const Op& op(int i) const { return graph_.ops[at(i)]; }
  // What makes the value, where nothing but one operator reads it; else -1.
  [[nodiscard]] int only_for(ValueId id) const { return uses_[at(id)] == 1 ? maker_[at(id)] : -1; }
  // The Concat that makes this input alone for its reader, or -1.
  [[nodiscard]] int concat_of(ValueId id) const {
    const int concat = graph_.is_constant(id) ? -1 : only_for(id);
    return concat >= 0 && std::holds_alternative<Concat>(op(concat).operation) ? concat : -1;
  }
  // The Concat's result is that of op `i` now, which goes.
  void replace(int i, int concat) {
    op(concat).output = op(i).output;
    graph_.ops.erase(graph_.ops.begin() + i);
  }

  // A convolution applies a function for nothing, also where its result is only reshaped in between.
  bool move_into_convolutions(int i) {
    const auto* unary = std::get_if<Unary>(&op(i).operation);
    const int concat = unary == nullptr ? -1 : concat_of(op(i).inputs[0]);
    if (concat < 0) return false;
    std::vector<int> convolutions;
    for (const ValueId in : op(concat).inputs) {
      int make = only_for(in);
      while (make >= 0 && std::holds_alternative<Reshape>(op(make).operation)) make = only_for(op(make).inputs[0]);
      const Conv* conv = make < 0 ? nullptr : std::get_if<Conv>(&op(make).operation);
      if (conv == nullptr || op(make).activation.function != Function::kNone) return false;
      if (residual_of(op(make)) != kNoValue && conv->activation_first) return false;
      convolutions.push_back(make);
    }
    for (const int make : convolutions) op(make).activation = unary->function;
    replace(i, concat);
    return true;
  }

  // An elementwise operator computes another one behind it for nothing.
  bool move_behind_makers(int i) {
    constexpr std::size_t kMostParts = 8;
    if (!is_elementwise(op(i))) return false;
    const auto* binary = std::get_if<Binary>(&op(i).operation);
    const int side = binary != nullptr && graph_.is_constant(op(i).inputs[0]) ? 1 : 0;
    const ValueId joined = op(i).inputs[at(side)];
    const int concat = concat_of(joined);
    if (concat < 0 || op(concat).inputs.size() > kMostParts || graph_.shape(joined) != graph_.shape(op(i).output))
      return false;
    if (binary != nullptr &&
        !repeats_along(op(i).inputs[at(1 - side)], joined, std::get<Concat>(op(concat).operation).axis)) {
      return false;
    }
    std::vector<ValueId> parts = op(concat).inputs;
    for (const ValueId in : parts) {
      const int make = only_for(in);
      if (make < 0 || !is_elementwise(op(make))) return false;
    }
    const Op moved = op(i);
    replace(i, concat);
    std::vector<Op> added;
    for (ValueId& part : parts) {
      Op one = moved;
      one.inputs[at(side)] = part;
      one.output = static_cast<ValueId>(graph_.values.size());
      graph_.values.push_back(Value{graph_.value(moved.output).name, graph_.shape(part), nullptr});
      part = one.output;
      added.push_back(std::move(one));
    }
    op(concat).inputs = parts;
    graph_.ops.insert(graph_.ops.begin() + concat, added.begin(), added.end());
    return true;
  }
  // A constant that is the same for all parts of the concatenation.
  [[nodiscard]] bool repeats_along(ValueId id, ValueId joined, int axis) const {
    if (!graph_.is_constant(id)) return false;
    const Shape& own = graph_.shape(id);
    const std::size_t missing = graph_.shape(joined).size() - own.size();
    return at(axis) < missing || own[at(axis) - missing] == 1;
  }

  Graph& graph_;
  std::vector<int> maker_;
  std::vector<int> uses_;
};

// A step that computes elementwise operators, known by the last of them.
struct Program {
  std::vector<int> ops;
  std::vector<ValueId> inputs;
};

void add_once(std::vector<int>& to, int value) {
  if (std::find(to.begin(), to.end(), value) == to.end()) to.push_back(value);
}

class Joiner {
 public:
  Joiner(const Graph& graph, Fusion& fusion)
      : graph_(graph),
        fusion_(fusion),
        readers_(graph.values.size()),
        programs_(graph.ops.size()),
        computed_by_(graph.ops.size()),
        output_(graph.values.size(), false) {
    for (int i = 0; i < static_cast<int>(graph.ops.size()); ++i) {
      for (const ValueId in : op(i).inputs) {
        if (in != kNoValue) add_once(readers_[at(in)], i);
      }
    }
    for (const ValueId id : graph.outputs) output_[at(id)] = true;
  }

  // From the last operator to the first: of what reads a value it is known by then who computes it.
  void run() {
    for (int i = static_cast<int>(graph_.ops.size()); i-- > 0;) {
      if (!is_elementwise(op(i)) || fusion_.absorbed.count(i) != 0 || fusion_.sums.count(op(i).output) != 0) continue;
      if (fusion_.layer_norm_of.count(i) != 0 || fusion_.resized_sums.count(i) != 0 || fusion_.excited_by.count(i) != 0)
        continue;
      std::vector<int>& own = computed_by_[at(i)];
      own = those_that_read(i);
      const bool joined = !own.empty() && std::all_of(own.begin(), own.end(), [&](int p) { return takes(p, i); });
      if (!joined) {
        own = {i};
        programs_[at(i)] = {{i}, {}};
        add_inputs(programs_[at(i)], i);
        continue;
      }
      for (const int p : own) programs_[at(p)] = with(p, i);
      computed_.push_back(i);
    }
    for (const int i : computed_) {
      fusion_.computed_where_read[op(i).output] = i;
      fusion_.absorbed.insert(i);
    }
  }

 private:
  [[nodiscard]] const Op& op(int i) const { return graph_.ops[at(i)]; }

  // The programs that read what op `i` makes; none where something else reads it too.
  [[nodiscard]] std::vector<int> those_that_read(int i) const {
    std::vector<int> found;
    if (output_[at(op(i).output)]) return {};
    for (const int reader : readers_[at(op(i).output)]) {
      const std::vector<int>& by = computed_by_[at(reader)];
      if (by.empty() || graph_.shape(op(reader).output) != graph_.shape(op(i).output)) return {};
      for (const int p : by) add_once(found, p);
      constexpr std::size_t kMostTimes = 2;  // each computes it again
      if (found.size() > kMostTimes) return {};
    }
    return found;
  }
  void add_inputs(Program& to, int i) const {
    for (const ValueId in : op(i).inputs) add_once(to.inputs, in);
  }
  [[nodiscard]] Program with(int program, int i) const {
    Program larger = programs_[at(program)];
    larger.ops.push_back(i);
    larger.inputs.erase(std::remove(larger.inputs.begin(), larger.inputs.end(), op(i).output), larger.inputs.end());
    add_inputs(larger, i);
    return larger;
  }
  [[nodiscard]] bool takes(int program, int i) const {
    const Program larger = with(program, i);
    return larger.ops.size() <= kMostElementwiseOps && larger.inputs.size() <= kMostElementwiseInputs;
  }

  const Graph& graph_;
  Fusion& fusion_;
  std::vector<std::vector<int>> readers_;
  std::vector<Program> programs_;              // by the last op
  std::vector<std::vector<int>> computed_by_;  // by op: the programs that compute it; none where it is not elementwise
  std::vector<bool> output_;
  std::vector<int> computed_;
};

}  // namespace

void move_before_concats(Graph& graph) { Mover(graph).run(); }

void find_computed_where_read(const Graph& graph, Fusion& fusion) { Joiner(graph, fusion).run(); }

}  // namespace camd::infer::cuda
