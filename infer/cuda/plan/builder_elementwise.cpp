// PlanBuilder: the step of an elementwise operator and of those in front of it that are computed where they are read.
#include <algorithm>
#include <map>

#include "infer/cuda/plan/builder.hpp"

namespace camd::infer::cuda {
namespace {

// Numbers the values of a program, from the operator that makes y back to the values that lie in memory.
class ElementwiseProgram {
 public:
  ElementwiseProgram(const Graph& graph, const std::map<ValueId, int>& computed) : graph_(graph), computed_(computed) {}

  // Behind all that it reads.
  int add(const Op& op) {
    ElementwiseOp made;
    made.a = number_of(op.inputs[0]);
    if (const auto* binary = std::get_if<Binary>(&op.operation)) {
      made.kind = binary->kind;
      made.b = number_of(op.inputs[1]);
      made.activation = op.activation;
    } else {
      made.activation = std::get<Unary>(op.operation).function;
    }
    origin_ += (origin_.empty() ? "" : " + ") + op.origin;
    ops_.push_back(made);
    return kMostElementwiseInputs + static_cast<int>(ops_.size()) - 1;
  }

  [[nodiscard]] const std::vector<ValueId>& inputs() const { return inputs_; }
  [[nodiscard]] const std::vector<ElementwiseOp>& ops() const { return ops_; }
  [[nodiscard]] const std::string& origin() const { return origin_; }

 private:
  std::int8_t number_of(ValueId id) {
    const auto known = numbers_.find(id);
    if (known != numbers_.end()) return known->second;
    const auto computed = computed_.find(id);
    int number = static_cast<int>(inputs_.size());
    if (computed != computed_.end())
      number = add(graph_.ops[static_cast<std::size_t>(computed->second)]);
    else
      inputs_.push_back(id);
    return numbers_[id] = static_cast<std::int8_t>(number);
  }

  const Graph& graph_;
  const std::map<ValueId, int>& computed_;
  std::map<ValueId, std::int8_t> numbers_;
  std::vector<ValueId> inputs_;
  std::vector<ElementwiseOp> ops_;
  std::string origin_;
};

}  // namespace

void PlanBuilder::emit_elementwise(const Op& op) {
  ElementwiseProgram program(graph_, fusion_.computed_where_read);
  (void)program.add(op);
  const Shape& out = shape(op.output);
  ElementwiseArguments a;
  bool as_image = false;
  for (const ValueId id : program.inputs()) {
    as_image = as_image || (!graph_.is_constant(id) && has_image(id));
    a.x[a.input_count++] = broadcast(id, out);
  }
  for (const ElementwiseOp& one : program.ops()) a.ops[a.op_count++] = one;
  a.y = make_result(op.output, as_image);
  a.rank = static_cast<int>(out.size());
  std::copy(out.begin(), out.end(), a.shape);
  add_step(a, program.origin());
}

}  // namespace camd::infer::cuda
