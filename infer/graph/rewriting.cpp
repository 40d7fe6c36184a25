#include "infer/graph/rewriting.hpp"

#include <algorithm>
#include <memory>
#include <utility>

namespace camd::infer {

std::vector<int> producers(const Graph& graph) {
  std::vector<int> result(graph.values.size(), -1);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) result[at(graph.ops[i].output)] = static_cast<int>(i);
  return result;
}

void erase_marked(Graph& graph, const std::vector<bool>& dead) {
  std::vector<Op> kept;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (!dead[i]) kept.push_back(std::move(graph.ops[i]));
  }
  graph.ops = std::move(kept);
}

std::optional<float> scalar(const Graph& graph, ValueId id) {
  if (id == kNoValue || !graph.is_constant(id)) return std::nullopt;
  const Constant& c = *graph.value(id).constant;
  if (c.type != DataType::kF32 || c.f32.size() != 1) return std::nullopt;
  return c.f32[0];
}

ValueId add_constant(Graph& graph, Shape shape, std::vector<float> values) {
  auto c = std::make_shared<const Constant>(Constant{DataType::kF32, shape, std::move(values), {}});
  graph.values.push_back({"", std::move(shape), std::move(c)});
  return static_cast<ValueId>(graph.values.size()) - 1;
}

std::vector<double> along_axis(const Constant& c, const Shape& shape, std::size_t axis) {
  if (c.type != DataType::kF32 || c.shape.size() > shape.size()) return {};
  const std::size_t skip = shape.size() - c.shape.size();
  for (std::size_t d = 0; d < c.shape.size(); ++d) {
    if (c.shape[d] != 1 && d + skip != axis) return {};
  }
  std::vector<double> values(static_cast<std::size_t>(shape[axis]));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<double>(c.f32.size() == 1 ? c.f32[0] : c.f32[i]);
  }
  return values;
}

bool is_nearest(const Resize& resize) {
  const auto nearest = [](const ResizeAxis& axis) {
    return axis.taps == 1 && std::all_of(axis.weight.begin(), axis.weight.end(), [](float w) { return w == 1; });
  };
  return nearest(resize.x) && nearest(resize.y);
}

bool only_moves(const Operation& operation) {
  const auto* pool = std::get_if<Pool>(&operation);
  const auto* resize = std::get_if<Resize>(&operation);
  return std::holds_alternative<Reshape>(operation) || std::holds_alternative<Transpose>(operation) ||
         std::holds_alternative<Slice>(operation) || std::holds_alternative<Gather>(operation) ||
         (pool != nullptr && pool->kind == Pool::Kind::kMax) || (resize != nullptr && is_nearest(*resize));
}

std::optional<ChannelLine> channel_line(const Graph& graph, const Op& op, std::size_t axis) {
  const auto* binary = std::get_if<Binary>(&op.operation);
  if (binary == nullptr || op.activation.function != Function::kNone) return std::nullopt;
  const bool constant_first = graph.is_constant(op.inputs[0]);
  const ValueId side = op.inputs[constant_first ? 0 : 1];
  if (!graph.is_constant(side) || graph.shape(op.inputs[constant_first ? 1 : 0]) != graph.shape(op.output)) {
    return std::nullopt;
  }
  std::vector<double> c = along_axis(*graph.value(side).constant, graph.shape(op.output), axis);
  if (c.empty()) return std::nullopt;
  ChannelLine line{std::vector<double>(c.size(), 1.0), std::vector<double>(c.size(), 0.0)};
  for (std::size_t i = 0; i < c.size(); ++i) {
    switch (binary->kind) {
      case Binary::Kind::kAdd: line.offset[i] = c[i]; break;
      case Binary::Kind::kMul: line.gain[i] = c[i]; break;
      case Binary::Kind::kSub:
        line.gain[i] = constant_first ? -1.0 : 1.0;
        line.offset[i] = constant_first ? c[i] : -c[i];
        break;
      case Binary::Kind::kDiv:
        if (constant_first) return std::nullopt;
        line.gain[i] = 1.0 / c[i];
        break;
      default: return std::nullopt;
    }
  }
  return line;
}

void remove_unused(Graph& graph) {
  std::vector<bool> wanted(graph.values.size(), false);
  for (const ValueId id : graph.outputs) wanted[at(id)] = true;
  std::vector<bool> dead(graph.ops.size(), false);
  for (std::size_t i = graph.ops.size(); i-- > 0;) {
    dead[i] = !wanted[at(graph.ops[i].output)];
    if (dead[i]) continue;
    for (const ValueId id : graph.ops[i].inputs) {
      if (id != kNoValue) wanted[at(id)] = true;
    }
  }
  erase_marked(graph, dead);
  wanted[at(graph.input)] = true;
  std::vector<ValueId> renumbered(graph.values.size(), kNoValue);
  std::vector<Value> kept;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    if (!wanted[i]) continue;
    renumbered[i] = static_cast<ValueId>(kept.size());
    kept.push_back(std::move(graph.values[i]));
  }
  graph.values = std::move(kept);
  const auto renumber = [&](ValueId& id) {
    if (id != kNoValue) id = renumbered[at(id)];
  };
  renumber(graph.input);
  for (ValueId& id : graph.outputs) renumber(id);
  for (Op& op : graph.ops) {
    renumber(op.output);
    for (ValueId& id : op.inputs) renumber(id);
  }
}

}  // namespace camd::infer
