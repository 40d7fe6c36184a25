// Lowering: turns the nodes of an ONNX graph into the operators of infer/graph/graph.hpp, one node at a time. A handler
// for each node type does it with the tools below.
//
// Threads: one thread, during lower_model() only. Private to infer/.
// Constants: emit() computes an op at once (infer/graph/reference.hpp) when all its inputs are constants. So arithmetic
// on shapes and the preparation of weights need no code of their own.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "infer/graph/graph.hpp"
#include "infer/graph/lower_model.hpp"
#include "infer/onnx/file.hpp"

namespace camd::infer {

class Lowering {
 public:
  Lowering(const OnnxFile& file, TensorSpec input, const FoldOptions& options = {});
  [[nodiscard]] Graph run();
  // As lowered_shapes().
  [[nodiscard]] LoweredShapes shapes();
  // As fold_graph().
  [[nodiscard]] std::vector<std::shared_ptr<const Constant>> fold(
      const std::map<std::string, std::shared_ptr<const Constant>>& known);

  // The model's file, for messages and for weights beside it.
  [[nodiscard]] const std::string& path() const noexcept { return file_.path; }

  // ---- The current node, for handlers.
  [[nodiscard]] int opset() const noexcept { return opset_; }
  [[nodiscard]] const onnx::NodeProto& node() const noexcept { return *node_; }
  [[nodiscard]] std::size_t input_count() const noexcept { return static_cast<std::size_t>(node_->input_size()); }
  [[nodiscard]] bool has_input(std::size_t i) const noexcept;
  [[nodiscard]] ValueId input(std::size_t i);  // refuses when it is missing
  // The input's constant, or null when the picture decides it.
  [[nodiscard]] const Constant* constant_input(std::size_t i);
  // The same, refusing with "its `what` must be known beforehand" when it is not an i64 constant.
  [[nodiscard]] const std::vector<std::int64_t>& integers_input(std::size_t i, std::string_view what);
  [[nodiscard]] const Constant& weights_input(std::size_t i, std::string_view what);
  [[nodiscard]] std::size_t output_count() const noexcept { return static_cast<std::size_t>(node_->output_size()); }
  // Whether a node or the graph's outputs read output i.
  [[nodiscard]] bool output_wanted(std::size_t i) const;
  void set_output(std::size_t i, ValueId value);
  // Inputs and outputs that are sequences of tensors.
  [[nodiscard]] const std::vector<ValueId>& sequence(std::size_t i) const;  // refuses when the input is none
  void set_sequence(std::size_t i, std::vector<ValueId> parts);
  // Inputs and outputs that may be either.
  using Held = std::variant<ValueId, std::vector<ValueId>>;
  [[nodiscard]] Held held(std::size_t i);
  void hold(std::size_t i, const Held& held);

  // Lowers the current node as if it were of type `type` and had these inputs; its attributes stay. Returns its first
  // output.
  ValueId lower_as(const std::string& type, const std::vector<ValueId>& inputs);
  // Lowers the nodes of a graph inside the current node, whose inputs hold `inputs`; returns what its outputs hold. May
  // be done again and again: it counts as steps of folding, and refuses when the model becomes too large by it.
  [[nodiscard]] std::vector<Held> lower_inner(const onnx::GraphProto& graph, const std::vector<Held>& inputs = {});

  // ---- Attributes of the current node.
  [[nodiscard]] const onnx::AttributeProto* attribute(std::string_view name) const;
  [[nodiscard]] std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
  [[nodiscard]] float number(std::string_view name, float otherwise) const;
  [[nodiscard]] std::string text(std::string_view name, std::string_view otherwise) const;
  [[nodiscard]] std::optional<std::vector<std::int64_t>> integers(std::string_view name) const;

  // ---- Values.
  [[nodiscard]] bool is_known(ValueId id) const { return graph_.is_constant(id); }  // beforehand
  [[nodiscard]] const Constant& constant_of(ValueId id) const { return *graph_.value(id).constant; }
  // Whether the value holds whole numbers or truths: integers in the file, whatever they are stored as.
  [[nodiscard]] bool is_whole(ValueId id) const;
  // The same value as whole numbers, or as numbers.
  [[nodiscard]] ValueId as_whole(ValueId x);
  [[nodiscard]] ValueId as_number(ValueId x);
  [[nodiscard]] ValueId integer(std::int64_t value);  // a constant
  // Values in steps of a quantised network, which the file holds as whole numbers: what is computed of them in that
  // form is cut off to these.
  void mark_steps(ValueId id) { steps_.insert(id); }
  [[nodiscard]] bool is_in_steps(ValueId id) const { return steps_.count(id) > 0; }
  // The element type that the file gives a weight or Constant (onnx::TensorProto::INT8, ...), or `otherwise`.
  [[nodiscard]] int element_type(ValueId id, int otherwise) const;

  // What was made before of these values, as a place to keep it in; kNoValue: nothing yet. Several nodes that take the
  // same numbers out of their steps are then seen to read one value.
  [[nodiscard]] ValueId& made_of(const std::vector<ValueId>& key) {
    return made_of_.try_emplace(key, kNoValue).first->second;
  }

  // ---- Shapes.
  // A copy, because looking up another input may add values and so move this one.
  [[nodiscard]] Shape shape(ValueId id) const { return graph_.shape(id); }
  [[nodiscard]] int rank(ValueId id) const { return static_cast<int>(shape(id).size()); }
  // Axis in [0, rank); refuses when it is out of range.
  [[nodiscard]] int axis(std::int64_t given, int rank) const;
  [[nodiscard]] std::vector<int> axes(const std::vector<std::int64_t>& given, int rank) const;  // ascending, unique
  [[nodiscard]] static std::vector<int> axes_from(int first, int rank);  // first, first + 1, ... rank - 1

  // ---- Making ops. Refuse shapes beyond the bounds.
  ValueId emit(Operation operation, std::vector<ValueId> inputs, Shape shape, Activation activation = {});
  // emit() of an operator on pictures. Engines take one picture at a time, so a batch becomes one op per picture and a
  // Concat of their results.
  ValueId emit_pictures(const Operation& operation, const std::vector<ValueId>& inputs, const Shape& to);
  ValueId constant(Constant constant);
  ValueId constant(float value);  // a scalar
  ValueId constant(const onnx::TensorProto& tensor);
  ValueId reshape(ValueId x, Shape to);
  ValueId transpose(ValueId x, std::vector<int> permutation);
  ValueId slice(ValueId x, std::vector<std::int64_t> start, std::vector<std::int64_t> step, Shape to);
  ValueId unary(ValueId x, Activation function);
  ValueId binary(Binary::Kind kind, ValueId a, ValueId b);
  ValueId reduce(Reduce::Kind kind, ValueId x, std::vector<int> axes);
  ValueId concat(const std::vector<ValueId>& parts, int axis);

  // Elements of one constant that folding may make.
  [[nodiscard]] std::int64_t most_elements() const noexcept { return options_.most_elements; }
  // Refuses when folding has taken too many steps with these.
  void spend(double folding_steps);
  // Throws Error(kModel): "FILE: Conv (node 'x'): why".
  [[noreturn]] void refuse(const std::string& why) const;
  void require(bool condition, const std::string& why) const {
    if (!condition) refuse(why);
  }

 private:
  // Makes the graph's input and counts who reads what. Returns, for each node, whether an output needs it.
  std::vector<bool> begin();
  void lower(const onnx::NodeProto& node);
  [[noreturn]] void refuse_foreign() const;  // the current node's operator is in no table
  void count_reads(const std::vector<bool>& needed);
  [[nodiscard]] ValueId find(const std::string& name);
  [[nodiscard]] Held find_held(const std::string& name);
  void hold(const std::string& name, const Held& held);
  ValueId add_value(Value value);
  [[nodiscard]] bool makes_whole(const Op& op) const;
  [[nodiscard]] ValueId as_operand(ValueId id);
  [[nodiscard]] ValueId made_at_run_time(ValueId constant);
  [[nodiscard]] ValueId let_go_after(const onnx::NodeProto& node, ValueId next, std::vector<ValueId>& large);

  const OnnxFile& file_;
  TensorSpec input_;
  FoldOptions options_;
  int opset_ = 0;
  Graph graph_;
  std::unordered_map<std::string, ValueId> names_;
  std::unordered_map<std::string, std::vector<ValueId>> sequences_;
  std::unordered_map<std::string, const onnx::TensorProto*> initializers_;
  std::vector<std::unique_ptr<onnx::TensorProto>> sizes_;  // of size_input()s, as initializers
  std::unordered_map<ValueId, int> element_types_;         // of weights and Constants
  std::unordered_set<ValueId> steps_;
  std::unordered_set<ValueId> whole_;  // of those made at run time
  std::map<std::vector<ValueId>, ValueId> made_of_;
  std::unordered_map<ValueId, ValueId> operands_;  // f32 constants made of i64 ones, for ops that run
  std::unordered_map<std::string, int> reads_;     // of each name, by needed nodes and outputs
  const onnx::NodeProto* node_ = nullptr;
  std::int64_t constant_elements_ = 0;
  double folding_steps_ = 0;
};

using Handler = void (*)(Lowering&);
// Lowers the nodes of one type. The tables of the families are in lower_NAME.hpp each.
struct HandlerEntry {
  std::string_view type;
  Handler handler;
  std::string_view limits{};  // what of the operator is not there, for the manual; empty: nothing
};
// The entries of all families by their node type.
[[nodiscard]] const std::map<std::string_view, HandlerEntry>& handlers();

// numpy's broadcasting; refuses shapes that do not fit.
[[nodiscard]] Shape broadcast(const Lowering& l, const Shape& a, const Shape& b);

}  // namespace camd::infer
