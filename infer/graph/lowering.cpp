#include "infer/graph/lowering.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <unordered_set>

#include "base/error.hpp"
#include "infer/graph/folding.hpp"
#include "infer/graph/lower_control.hpp"
#include "infer/graph/lower_einsum.hpp"
#include "infer/graph/lower_elementwise.hpp"
#include "infer/graph/lower_fused.hpp"
#include "infer/graph/lower_indexing.hpp"
#include "infer/graph/lower_movement.hpp"
#include "infer/graph/lower_network.hpp"
#include "infer/graph/lower_normalization.hpp"
#include "infer/graph/lower_quantized.hpp"
#include "infer/graph/lower_resize.hpp"
#include "infer/graph/lower_sampling.hpp"
#include "infer/graph/lower_selection.hpp"
#include "infer/graph/lower_sequence.hpp"
#include "infer/graph/read_tensor.hpp"
#include "infer/graph/rewriting.hpp"
#include "infer/onnx/cut.hpp"
#include "infer/onnx/input.hpp"

namespace camd::infer {
namespace {

using base::Error;
using base::ErrorKind;

}  // namespace

const std::map<std::string_view, HandlerEntry>& handlers() {
  static const std::map<std::string_view, HandlerEntry> kHandlers = [] {
    std::map<std::string_view, HandlerEntry> table;
    for (const auto* family :
         {&network_handlers(), &normalization_handlers(), &quantized_handlers(), &resize_handlers(),
          &elementwise_handlers(), &movement_handlers(), &indexing_handlers(), &selection_handlers(),
          &sampling_handlers(), &einsum_handlers(), &control_handlers(), &fused_handlers(), &sequence_handlers()}) {
      for (const HandlerEntry& entry : *family) table.emplace(entry.type, entry);
    }
    return table;
  }();
  return kHandlers;
}

Lowering::Lowering(const OnnxFile& file, TensorSpec input, const FoldOptions& options)
    : file_(file), input_(std::move(input)), options_(options), opset_(file.opset()) {
  const onnx::GraphProto& graph = file.proto.graph();
  for (const auto& tensor : graph.initializer()) initializers_.emplace(tensor.name(), &tensor);
  for (const auto& declared : graph.input()) {
    if (initializers_.count(declared.name()) > 0 || input_.shape.size() != 4) continue;
    auto size = size_input(declared, input_.shape);
    if (!size) continue;
    sizes_.push_back(std::make_unique<onnx::TensorProto>(std::move(*size)));
    initializers_.emplace(declared.name(), sizes_.back().get());
  }
}

// ---- Names and values

ValueId Lowering::add_value(Value value) {
  graph_.values.push_back(std::move(value));
  return static_cast<ValueId>(graph_.values.size()) - 1;
}

ValueId Lowering::find(const std::string& name) {
  if (const auto known = names_.find(name); known != names_.end()) return known->second;
  if (const auto weight = initializers_.find(name); weight != initializers_.end()) {
    const ValueId id = constant(*weight->second);
    graph_.values[static_cast<std::size_t>(id)].name = name;
    names_.emplace(name, id);
    return id;
  }
  refuse(fmt::format("'{}' is not made before it is read", printable(name)));
}

bool Lowering::has_input(std::size_t i) const noexcept {
  return i < input_count() && !node_->input(static_cast<int>(i)).empty();
}

ValueId Lowering::input(std::size_t i) {
  if (!has_input(i)) refuse(fmt::format("its input {} is missing", i));
  return find(node_->input(static_cast<int>(i)));
}

const Constant* Lowering::constant_input(std::size_t i) { return graph_.value(input(i)).constant.get(); }

const std::vector<std::int64_t>& Lowering::integers_input(std::size_t i, std::string_view what) {
  const Constant* c = constant_input(i);
  if (c == nullptr) refuse(fmt::format("its {} depends on the picture, camd needs it beforehand", what));
  if (c->type != DataType::kI64) refuse(fmt::format("its {} is not of an integer type", what));
  return c->i64;
}

const Constant& Lowering::weights_input(std::size_t i, std::string_view what) {
  const Constant* c = constant_input(i);
  if (c == nullptr) refuse(fmt::format("its {} depends on the picture, camd needs it beforehand", what));
  if (c->type != DataType::kF32) refuse(fmt::format("its {} is not of a floating type", what));
  return *c;
}

bool Lowering::output_wanted(std::size_t i) const {
  if (i >= output_count() || node_->output(static_cast<int>(i)).empty()) return false;
  const auto read = reads_.find(node_->output(static_cast<int>(i)));
  return read != reads_.end() && read->second > 0;
}

void Lowering::set_output(std::size_t i, ValueId value) {
  if (i >= output_count() || node_->output(static_cast<int>(i)).empty()) return;
  const std::string& name = node_->output(static_cast<int>(i));
  names_[name] = value;
  Value& v = graph_.values[static_cast<std::size_t>(value)];
  if (v.name.empty()) v.name = name;
}

int Lowering::element_type(ValueId id, int otherwise) const {
  const auto known = element_types_.find(id);
  return known == element_types_.end() ? otherwise : known->second;
}

// ---- Attributes

const onnx::AttributeProto* Lowering::attribute(std::string_view name) const {
  for (const auto& a : node_->attribute()) {
    if (a.name() == name) return &a;
  }
  return nullptr;
}

std::int64_t Lowering::integer(std::string_view name, std::int64_t otherwise) const {
  const auto* a = attribute(name);
  return a != nullptr && a->has_i() ? a->i() : otherwise;
}

float Lowering::number(std::string_view name, float otherwise) const {
  const auto* a = attribute(name);
  return a != nullptr && a->has_f() ? a->f() : otherwise;
}

std::string Lowering::text(std::string_view name, std::string_view otherwise) const {
  const auto* a = attribute(name);
  return a != nullptr && a->has_s() ? a->s() : std::string(otherwise);
}

std::optional<std::vector<std::int64_t>> Lowering::integers(std::string_view name) const {
  const auto* a = attribute(name);
  if (a == nullptr) return std::nullopt;
  return std::vector<std::int64_t>(a->ints().begin(), a->ints().end());
}

int Lowering::axis(std::int64_t given, int rank) const {
  const std::int64_t positive = given < 0 ? given + rank : given;
  if (positive < 0 || positive >= rank) refuse(fmt::format("axis {} is outside a tensor of rank {}", given, rank));
  return static_cast<int>(positive);
}

std::vector<int> Lowering::axes_from(int first, int rank) {
  std::vector<int> axes;
  for (int i = first; i < rank; ++i) axes.push_back(i);
  return axes;
}

std::vector<int> Lowering::axes(const std::vector<std::int64_t>& given, int rank) const {
  std::vector<int> result;
  result.reserve(given.size());
  for (const std::int64_t a : given) result.push_back(axis(a, rank));
  std::sort(result.begin(), result.end());
  require(std::adjacent_find(result.begin(), result.end()) == result.end(), "an axis is given twice");
  return result;
}

// ---- Making ops

ValueId Lowering::emit(Operation operation, std::vector<ValueId> inputs, Shape shape, Activation activation) {
  std::int64_t count = 1;
  for (const std::int64_t d : shape) {
    require(d >= 0, fmt::format("its output would be {}", to_string(shape)));
    require(d == 0 || count <= kMaxValueElements / d,
            fmt::format("its output {} has more than {} elements", to_string(shape), kMaxValueElements));
    count *= d;
  }
  bool folds = true;
  for (const ValueId id : inputs) {
    if (id == kNoValue) continue;
    folds = folds && graph_.is_constant(id);
  }
  Op op{std::move(operation), std::move(inputs), kNoValue, activation, node_ != nullptr ? node_text(*node_) : ""};
  if (folds) {
    // What moves the numbers of a weight makes no more than the file holds.
    std::int64_t held = options_.most_elements;
    for (const ValueId id : op.inputs) held = std::max(held, id == kNoValue ? 0 : element_count(graph_.shape(id)));
    require(count <= held, fmt::format("folding it would make a constant of {} elements", count));
    spend(folding_steps(graph_, op, shape, options_));
    std::vector<const Constant*> constants;
    for (const ValueId id : op.inputs) constants.push_back(id == kNoValue ? nullptr : graph_.value(id).constant.get());
    try {
      return constant(infer::fold(op, constants, shape, options_));
    } catch (const Error& error) {
      throw Error(ErrorKind::kModel, fmt::format("{}: {}", file_.path, error.what()));
    }
  }
  require(count > 0, fmt::format("its output {} has no elements", to_string(shape)));
  const bool whole = makes_whole(op);
  for (ValueId& id : op.inputs) {
    if (id != kNoValue) id = as_operand(id);
  }
  op.output = add_value({"", std::move(shape), nullptr});
  if (whole) whole_.insert(op.output);
  if (only_moves(op.operation) && is_in_steps(op.inputs[0])) steps_.insert(op.output);
  graph_.ops.push_back(std::move(op));
  return graph_.ops.back().output;
}

bool Lowering::is_whole(ValueId id) const {
  return graph_.is_constant(id) ? graph_.value(id).constant->type == DataType::kI64 : whole_.count(id) > 0;
}

// Whether what the op makes of whole numbers is whole again, or is a position or a truth.
bool Lowering::makes_whole(const Op& op) const {
  const auto all = [&](std::initializer_list<std::size_t> inputs) {
    return std::all_of(inputs.begin(), inputs.end(), [&](std::size_t i) { return is_whole(op.inputs[i]); });
  };
  if (const auto* u = std::get_if<Unary>(&op.operation)) {
    const Function f = u->function.function;
    const bool keeps = f == Function::kRelu || f == Function::kClip || f == Function::kAbs || f == Function::kNegate ||
                       f == Function::kSign;
    return f == Function::kTruncate || (keeps && all({0}));
  }
  if (const auto* b = std::get_if<Binary>(&op.operation)) return is_comparison(b->kind) || all({0, 1});
  if (std::holds_alternative<TopK>(op.operation)) return true;
  if (std::holds_alternative<Select>(op.operation)) return all({1, 2});
  if (std::holds_alternative<Scatter>(op.operation)) return all({0, 2});
  if (std::holds_alternative<Concat>(op.operation)) {
    return std::all_of(op.inputs.begin(), op.inputs.end(), [&](ValueId id) { return is_whole(id); });
  }
  const bool moves = std::holds_alternative<Transpose>(op.operation) || std::holds_alternative<Reshape>(op.operation) ||
                     std::holds_alternative<Slice>(op.operation) || std::holds_alternative<Gather>(op.operation) ||
                     std::holds_alternative<Pad>(op.operation) || std::holds_alternative<Reduce>(op.operation) ||
                     std::holds_alternative<Pick>(op.operation) || std::holds_alternative<CumSum>(op.operation);
  return moves && all({0});
}

// Ops that run read f32 only.
ValueId Lowering::as_operand(ValueId id) {
  if (!graph_.is_constant(id) || graph_.value(id).constant->type == DataType::kF32) return id;
  if (const auto made = operands_.find(id); made != operands_.end()) return made->second;
  const Constant& c = *graph_.value(id).constant;
  const ValueId operand = constant(Constant{DataType::kF32, c.shape, {c.i64.begin(), c.i64.end()}, {}});
  operands_.emplace(id, operand);
  return operand;
}

ValueId Lowering::as_whole(ValueId x) {
  if (is_whole(x)) return x;
  const Constant* c = graph_.value(x).constant.get();
  if (c == nullptr) return unary(x, {Function::kTruncate, 0, 0});
  Constant result{DataType::kI64, c->shape, {}, {}};
  // ONNX leaves open what becomes of numbers that no integer holds. A box without an area has such a one where its size
  // decides in which map of features it is looked for, and is left out later.
  constexpr float kMost = 9.0e18F;
  for (const float v : c->f32) {
    result.i64.push_back(v == v ? static_cast<std::int64_t>(std::clamp(v, -kMost, kMost)) : 0);
  }
  return constant(std::move(result));
}

ValueId Lowering::as_number(ValueId x) {
  if (!is_whole(x)) return x;
  return graph_.is_constant(x) ? as_operand(x) : unary(x, {});
}

ValueId Lowering::integer(std::int64_t value) { return constant(Constant{DataType::kI64, {}, {}, {value}}); }

void Lowering::spend(double folding_steps) {
  folding_steps_ += folding_steps;
  require(folding_steps_ <= options_.most_steps, "folding the model's constants up to here takes too long");
}

ValueId Lowering::emit_pictures(const Operation& operation, const std::vector<ValueId>& inputs, const Shape& to) {
  const ValueId x = inputs[0];
  const Shape in = shape(x);
  if (in[0] == 1 || graph_.is_constant(x)) return emit(operation, inputs, to);
  constexpr std::int64_t kLargestBatch = 64;
  require(in[0] <= kLargestBatch, fmt::format("its batch of {} is more than {}", in[0], kLargestBatch));
  Shape one_in = in;
  Shape one_out = to;
  one_in[0] = one_out[0] = 1;
  std::vector<ValueId> pictures;
  for (std::int64_t n = 0; n < in[0]; ++n) {
    std::vector<ValueId> of_one = inputs;
    std::vector<std::int64_t> start(in.size(), 0);
    start[0] = n;
    of_one[0] = slice(x, start, std::vector<std::int64_t>(in.size(), 1), one_in);
    pictures.push_back(emit(operation, of_one, one_out));
  }
  return concat(pictures, 0);
}

ValueId Lowering::constant(Constant c) {
  constant_elements_ += element_count(c.shape);
  require(constant_elements_ <= kMaxConstantElements,
          fmt::format("the model's constants up to here have more than {} elements", kMaxConstantElements));
  Shape shape = c.shape;
  return add_value({"", std::move(shape), std::make_shared<const Constant>(std::move(c))});
}

ValueId Lowering::constant(const onnx::TensorProto& tensor) {
  const ValueId id = constant(read_tensor(*this, tensor));
  element_types_.emplace(id, tensor.data_type());
  return id;
}

ValueId Lowering::constant(float value) { return constant(Constant{DataType::kF32, {}, {value}, {}}); }

ValueId Lowering::reshape(ValueId x, Shape to) {
  if (to == shape(x)) return x;
  std::int64_t count = 1;
  for (const std::int64_t d : to) {
    require(d >= 0 && (d == 0 || count <= kMaxValueElements / d), "the new shape is out of bounds");
    count *= d;
  }
  require(count == element_count(shape(x)),
          fmt::format("{} cannot take the shape {}", to_string(shape(x)), to_string(to)));
  return emit(Reshape{}, {x}, std::move(to));
}

ValueId Lowering::transpose(ValueId x, std::vector<int> permutation) {
  Shape to;
  std::vector<bool> seen(shape(x).size(), false);
  require(permutation.size() == seen.size(), "its permutation does not fit its input");
  for (const int p : permutation) {
    require(p >= 0 && p < rank(x) && !seen[static_cast<std::size_t>(p)], "its permutation is none");
    seen[static_cast<std::size_t>(p)] = true;
    to.push_back(shape(x)[static_cast<std::size_t>(p)]);
  }
  return emit(Transpose{std::move(permutation)}, {x}, std::move(to));
}

ValueId Lowering::slice(ValueId x, std::vector<std::int64_t> start, std::vector<std::int64_t> step, Shape to) {
  // No part of it: the same for every picture. Exporters slice columns that a network may have, and this one has not.
  if (element_count(to) == 0) return constant(Constant{is_whole(x) ? DataType::kI64 : DataType::kF32, to, {}, {}});
  return emit(Slice{std::move(start), std::move(step)}, {x}, std::move(to));
}

ValueId Lowering::unary(ValueId x, Activation function) { return emit(Unary{function}, {x}, shape(x)); }

ValueId Lowering::binary(Binary::Kind kind, ValueId a, ValueId b) {
  return emit(Binary{kind}, {a, b}, broadcast(*this, shape(a), shape(b)));
}

ValueId Lowering::reduce(Reduce::Kind kind, ValueId x, std::vector<int> axes) {
  Shape to = shape(x);
  for (const int a : axes) to[static_cast<std::size_t>(a)] = 1;
  return emit(Reduce{kind, std::move(axes)}, {x}, std::move(to));
}

ValueId Lowering::concat(const std::vector<ValueId>& parts, int axis) {
  Shape to = shape(parts[0]);
  const auto i = static_cast<std::size_t>(axis);
  for (std::size_t p = 1; p < parts.size(); ++p) {
    Shape other = shape(parts[p]);
    require(other.size() == to.size(), "its inputs differ in rank");
    const std::int64_t size = other[i];
    other[i] = to[i];
    require(other == to, fmt::format("{} and {} differ beside axis {}", to_string(shape(parts[0])),
                                     to_string(shape(parts[p])), axis));
    require(size <= kMaxValueElements, "its output is too large");
    to[i] += size;
  }
  return parts.size() == 1 ? parts[0] : emit(Concat{axis}, parts, std::move(to));
}

void Lowering::refuse(const std::string& why) const {
  throw Error(ErrorKind::kModel, node_ == nullptr ? fmt::format("{}: {}", file_.path, why)
                                                  : fmt::format("{}: {}: {}", file_.path, node_text(*node_), why));
}

void Lowering::refuse_foreign() const { refuse("camd's own engines do not have this operator"); }

// ---- The whole graph

void Lowering::lower(const onnx::NodeProto& node) {
  const onnx::NodeProto* const around = node_;
  node_ = &node;
  const auto handler = handlers().find(node.op_type());
  if (handler == handlers().end()) refuse_foreign();
  handler->second.handler(*this);
  for (std::size_t o = 0; o < output_count(); ++o) {
    const std::string& name = node.output(static_cast<int>(o));
    if (output_wanted(o) && names_.count(name) == 0 && sequences_.count(name) == 0) {
      refuse(fmt::format("its output {} is not supported", o));
    }
  }
  node_ = around;
}

ValueId Lowering::lower_as(const std::string& type, const std::vector<ValueId>& inputs) {
  const onnx::NodeProto* const around = node_;
  onnx::NodeProto node = *node_;
  node.set_op_type(type);
  node.clear_input();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    // A name that no file can hold.
    const std::string name = fmt::format("{}{}", '\0', i);
    names_[name] = inputs[i];
    node.add_input(name);
  }
  node_ = &node;
  require(node.output_size() > 0, "it has no output");
  handlers().at(type).handler(*this);
  const ValueId made = find(node.output(0));
  node_ = around;
  return made;
}

void Lowering::count_reads(const std::vector<bool>& needed) {
  const onnx::GraphProto& graph = file_.proto.graph();
  for (const auto& output : graph.output()) ++reads_[output.name()];
  for (int i = 0; i < graph.node_size(); ++i) {
    if (needed[static_cast<std::size_t>(i)]) {
      for_each_read(graph.node(i), [this](const std::string& name) { ++reads_[name]; });
    }
  }
}

std::vector<bool> Lowering::begin() {
  const onnx::GraphProto& graph = file_.proto.graph();
  graph_.input = add_value({input_.name, input_.shape, nullptr});
  names_.emplace(input_.name, graph_.input);
  std::vector<bool> needed = needed_nodes(graph);
  count_reads(needed);
  for (const auto& declared : graph.input()) {
    if (declared.name() == input_.name && takes_pixels_last(declared_shape(declared)) && input_.shape.size() == 4 &&
        input_.shape[1] == 3) {
      names_[input_.name] = transpose(graph_.input, {0, 2, 3, 1});
    }
  }
  const auto count = std::count(needed.begin(), needed.end(), true);
  require(count <= kMaxNodes, fmt::format("the model has {} nodes, camd takes at most {}", count, kMaxNodes));
  return needed;
}

LoweredShapes Lowering::shapes() {
  const onnx::GraphProto& graph = file_.proto.graph();
  const std::vector<bool> needed = begin();
  LoweredShapes result;
  for (int i = 0; i < graph.node_size(); ++i) {
    if (!needed[static_cast<std::size_t>(i)]) continue;
    try {
      lower(graph.node(i));
    } catch (const Error& error) {
      node_ = nullptr;
      result.lost.push_back(i);
      if (result.refused.empty()) result.refused = error.what();
    }
  }
  for (const auto& node : graph.node()) {
    for (const auto& name : node.output()) {
      const auto known = names_.find(name);
      if (known == names_.end() || graph_.is_constant(known->second)) continue;
      result.shapes[name] = shape(known->second);
      if (is_whole(known->second)) result.whole.insert(name);
    }
  }
  const auto keep_constant = [&](const std::string& name) {
    const bool weight = initializers_.count(name) > 0;
    if (names_.count(name) == 0 && !weight) return;
    try {
      const ValueId id = find(name);
      if (graph_.is_constant(id)) result.constants[name] = graph_.value(id).constant;
    } catch (const Error&) {
      return;  // a weight that cannot be read
    }
  };
  for (const int i : result.lost) for_each_read(graph.node(i), keep_constant);
  return result;
}

// What a second stage of a detector makes of each of a thousand boxes is some 50 MB a tensor: lets those go that no
// node will read. `large`: those that are still there; `next`: the first value that the node may have made.
ValueId Lowering::let_go_after(const onnx::NodeProto& node, ValueId next, std::vector<ValueId>& large) {
  constexpr std::int64_t kLarge = 1 << 16;
  const auto end = static_cast<ValueId>(graph_.values.size());
  bool changed = false;
  for (ValueId id = next; id < end; ++id) {
    if (!graph_.is_constant(id) || element_count(graph_.shape(id)) < kLarge) continue;
    large.push_back(id);
    changed = true;
  }
  for_each_read(node, [&](const std::string& name) {
    const auto made = names_.find(name);
    if (--reads_[name] > 0 || made == names_.end()) return;
    changed = changed || std::find(large.begin(), large.end(), made->second) != large.end();
  });
  if (!changed) return end;
  std::unordered_set<ValueId> held;
  for (const auto& [name, id] : names_) {
    const auto left = reads_.find(name);
    if (left != reads_.end() && left->second > 0) held.insert(id);
  }
  for (const auto& [name, parts] : sequences_) held.insert(parts.begin(), parts.end());
  for (const auto& [of, id] : made_of_) held.insert(id);
  for (const auto& [of, id] : operands_) held.insert(id);
  large.erase(std::remove_if(large.begin(), large.end(),
                             [&](ValueId id) {
                               if (held.count(id) > 0) return false;
                               constant_elements_ -= element_count(graph_.shape(id));
                               graph_.values[static_cast<std::size_t>(id)].constant.reset();
                               return true;
                             }),
              large.end());
  return end;
}

std::vector<std::shared_ptr<const Constant>> Lowering::fold(
    const std::map<std::string, std::shared_ptr<const Constant>>& known) {
  const onnx::GraphProto& graph = file_.proto.graph();
  count_reads(std::vector<bool>(static_cast<std::size_t>(graph.node_size()), true));
  for (const auto& [name, constant] : known) names_.emplace(name, add_value({name, constant->shape, constant}));
  auto next = static_cast<ValueId>(graph_.values.size());
  std::vector<ValueId> large;
  for (const auto& node : graph.node()) {
    lower(node);
    next = let_go_after(node, next, large);
  }
  std::vector<std::shared_ptr<const Constant>> results;
  for (const auto& output : graph.output()) results.push_back(graph_.value(find(output.name())).constant);
  return results;
}

// Outputs that do not depend on the picture, as anchors or strides that an exporter handed on, are made by an op as all
// others are: a choice between the constant and itself, by a value of the first output that does depend on it.
ValueId Lowering::made_at_run_time(ValueId constant) {
  ValueId x = graph_.input;
  for (const auto& output : file_.proto.graph().output()) {
    const ValueId id = find(output.name());
    if (graph_.is_constant(id) || element_count(shape(id)) == 0) continue;
    x = id;
    break;
  }
  const std::vector<std::int64_t> first(shape(x).size(), 0), step(shape(x).size(), 1);
  const ValueId one = slice(x, first, step, Shape(shape(x).size(), 1));
  const ValueId number = as_operand(constant);
  const Shape to = shape(constant);
  return emit(Select{}, {reshape(one, Shape(to.size(), 1)), number, number}, to);
}

Graph Lowering::run() {
  const onnx::GraphProto& graph = file_.proto.graph();
  const std::vector<bool> needed = begin();
  // What no engine has speaks against the model before what a tail could do (NonZero, NonMaxSuppression).
  for (int i = 0; i < graph.node_size(); ++i) {
    node_ = &graph.node(i);
    if (needed[static_cast<std::size_t>(i)] && !is_supported_operator(node_->op_type())) refuse_foreign();
  }
  node_ = nullptr;
  for (int i = 0; i < graph.node_size(); ++i) {
    if (needed[static_cast<std::size_t>(i)]) lower(graph.node(i));
  }
  std::int64_t output_elements = 0;
  for (const auto& output : graph.output()) {
    ValueId id = find(output.name());
    if (graph_.is_constant(id)) {
      require(element_count(shape(id)) > 0, fmt::format("output '{}' has no elements", printable(output.name())));
      id = made_at_run_time(id);
      graph_.values[static_cast<std::size_t>(id)].name = output.name();
    } else if (id == graph_.input) {
      graph_.ops.push_back({Reshape{}, {id}, add_value({output.name(), shape(id), nullptr}), {}, "output"});
      id = graph_.ops.back().output;
    }
    output_elements += element_count(shape(id));
    require(output_elements <= kMaxOutputElements,
            fmt::format("its outputs have more than {} elements", kMaxOutputElements));
    graph_.outputs.push_back(id);
  }
  return std::move(graph_);
}

Shape broadcast(const Lowering& l, const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int64_t da = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t db = i < b.size() ? b[b.size() - 1 - i] : 1;
    l.require(da == db || da == 1 || db == 1,
              fmt::format("{} and {} do not broadcast to one shape", to_string(a), to_string(b)));
    result[result.size() - 1 - i] = da == 1 ? db : da;
  }
  return result;
}

}  // namespace camd::infer
