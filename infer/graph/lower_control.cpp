// Handlers of the node types that hold graphs of their own.
#include "infer/graph/lower_control.hpp"

#include <fmt/format.h>

#include <limits>
#include <string_view>
#include <utility>

namespace camd::infer {
namespace {

using Held = Lowering::Held;

const onnx::GraphProto& graph_in(const Lowering& l, std::string_view attribute, std::string_view what) {
  const auto* held = l.attribute(attribute);
  if (held == nullptr || !held->has_g()) l.refuse(fmt::format("its {} is missing", what));
  return held->g();
}

// Exporters write If around what depends on a shape only: shapes are known, and so is the branch.
void conditional(Lowering& l) {
  const Constant* condition = l.constant_input(0);
  if (condition == nullptr || condition->i64.size() != 1) l.refuse("its condition depends on the picture");
  const bool holds = condition->i64[0] != 0;
  const std::vector<Held> results = l.lower_inner(graph_in(l, holds ? "then_branch" : "else_branch", "branch"));
  l.require(results.size() == l.output_count(), "its branch has another number of outputs");
  for (std::size_t i = 0; i < results.size(); ++i) l.hold(i, results[i]);
}

// What every turn of a loop makes, one behind the other along a new first dimension.
ValueId scanned(Lowering& l, const std::vector<ValueId>& turns, const onnx::ValueInfoProto& declared) {
  if (turns.empty()) {
    Shape none{0};
    for (const auto& dimension : declared.type().tensor_type().shape().dim()) none.push_back(dimension.dim_value());
    for (const std::int64_t size : none) l.require(size >= 0, "its output has a negative dimension");
    const int type = declared.type().tensor_type().elem_type();
    const bool whole =
        type == onnx::TensorProto::INT64 || type == onnx::TensorProto::INT32 || type == onnx::TensorProto::BOOL;
    return l.constant(Constant{whole ? DataType::kI64 : DataType::kF32, std::move(none), {}, {}});
  }
  std::vector<ValueId> rows;
  for (const ValueId turn : turns) {
    Shape row = l.shape(turn);
    row.insert(row.begin(), 1);
    rows.push_back(l.reshape(turn, std::move(row)));
  }
  return l.concat(rows, 0);
}

// onnx.ai/onnx/operators/onnx__Loop.html: the graph's inputs are the number of the turn, the condition, and what is
// handed from turn to turn; its outputs the condition, what is handed on, and what is collected. How often it runs must
// be known, so that its turns can be lowered one after the other. PyTorch writes loops over parts of a tensor so.
void loop(Lowering& l) {
  constexpr std::int64_t kMostTurns = 4096;
  std::int64_t turns = std::numeric_limits<std::int64_t>::max();
  if (l.has_input(0)) {
    const auto& given = l.integers_input(0, "number of turns");
    l.require(given.size() == 1, "its number of turns is not one number");
    turns = given[0];
  }
  const onnx::GraphProto& graph = graph_in(l, "body", "graph");
  const auto goes_on = [&](const Held& condition) {
    const auto* value = std::get_if<ValueId>(&condition);
    const bool known = value != nullptr && l.is_known(*value) && l.constant_of(*value).i64.size() == 1;
    l.require(known, "its condition depends on the picture");
    return l.constant_of(*value).i64[0] != 0;
  };
  std::vector<Held> handed;
  for (std::size_t i = 2; i < l.input_count(); ++i) handed.push_back(l.held(i));
  const std::size_t outputs = l.output_count();
  l.require(outputs >= handed.size() && graph.output_size() == static_cast<int>(outputs) + 1,
            "its graph has another number of outputs");
  std::vector<std::vector<ValueId>> collected(outputs - handed.size());
  Held condition = l.has_input(1) ? l.held(1) : Held{l.integer(1)};
  for (std::int64_t turn = 0; turn < turns && goes_on(condition); ++turn) {
    l.require(turn < kMostTurns, fmt::format("it takes more than {} turns", kMostTurns));
    std::vector<Held> inputs{l.integer(turn), condition};
    inputs.insert(inputs.end(), handed.begin(), handed.end());
    std::vector<Held> results = l.lower_inner(graph, inputs);
    condition = std::move(results[0]);
    for (std::size_t i = 0; i < handed.size(); ++i) handed[i] = std::move(results[1 + i]);
    for (std::size_t i = 0; i < collected.size(); ++i) {
      const auto* value = std::get_if<ValueId>(&results[1 + handed.size() + i]);
      l.require(value != nullptr, "it collects sequences");
      collected[i].push_back(*value);
    }
  }
  for (std::size_t i = 0; i < handed.size(); ++i) l.hold(i, handed[i]);
  for (std::size_t i = 0; i < collected.size(); ++i) {
    const auto& declared = graph.output(static_cast<int>(1 + handed.size() + i));
    l.set_output(handed.size() + i, scanned(l, collected[i], declared));
  }
}

}  // namespace

Lowering::Held Lowering::find_held(const std::string& name) {
  if (const auto known = sequences_.find(name); known != sequences_.end()) return known->second;
  return find(name);
}

void Lowering::hold(const std::string& name, const Held& held) {
  if (const auto* parts = std::get_if<std::vector<ValueId>>(&held)) {
    sequences_[name] = *parts;
  } else {
    names_[name] = std::get<ValueId>(held);
  }
}

Lowering::Held Lowering::held(std::size_t i) {
  if (!has_input(i)) refuse(fmt::format("its input {} is missing", i));
  return find_held(node_->input(static_cast<int>(i)));
}

void Lowering::hold(std::size_t i, const Held& held) {
  if (const auto* parts = std::get_if<std::vector<ValueId>>(&held)) {
    set_sequence(i, *parts);
  } else {
    set_output(i, std::get<ValueId>(held));
  }
}

std::vector<Lowering::Held> Lowering::lower_inner(const onnx::GraphProto& graph, const std::vector<Held>& inputs) {
  constexpr double kStepsOfNode = 1000;  // or of what it is handed: some microseconds
  constexpr std::size_t kMostOps = std::size_t{4} * kMaxNodes;
  double steps = kStepsOfNode * (1 + graph.node_size() + graph.input_size());
  for (const Held& held : inputs) {  // copied some times
    if (const auto* parts = std::get_if<std::vector<ValueId>>(&held)) steps += static_cast<double>(parts->size());
  }
  spend(steps);
  require(graph_.ops.size() <= kMostOps,
          fmt::format("with the graphs inside of nodes the model has more than {} operators", kMostOps));
  require(graph.input_size() == static_cast<int>(inputs.size()),
          fmt::format("its graph has {} inputs, {} are given", graph.input_size(), inputs.size()));
  for (int i = 0; i < graph.input_size(); ++i) hold(graph.input(i).name(), inputs[static_cast<std::size_t>(i)]);
  for (const auto& tensor : graph.initializer()) {
    initializers_.insert_or_assign(tensor.name(), &tensor);
    names_.erase(tensor.name());  // a sibling's graph may use the same name
  }
  for (const auto& node : graph.node()) lower(node);
  std::vector<Held> results;
  for (const auto& output : graph.output()) results.push_back(find_held(output.name()));
  return results;
}

const std::vector<HandlerEntry>& control_handlers() {
  static const std::vector<HandlerEntry> kTable = {
      {"If", conditional, "conditions on the picture: on the host, after what runs on the device"},
      {"Loop", loop, "how often it runs must be known, or it runs on the host, after what runs on the device"}};
  return kTable;
}

}  // namespace camd::infer
