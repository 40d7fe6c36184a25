// PlanBuilder::emit() for the operators that pick elements by numbers from the picture.
#include <algorithm>

#include "infer/cuda/plan/builder.hpp"
#include "infer/cuda/plan/handles.hpp"

namespace camd::infer::cuda {
namespace {

// [outer][size][inner] around `axis`.
template <typename Arguments>
void divide(const Shape& s, int axis, Arguments& a) {
  for (int d = 0; d < static_cast<int>(s.size()); ++d) {
    (d < axis ? a.outer : d > axis ? a.inner : a.size) *= s[static_cast<std::size_t>(d)];
  }
}

}  // namespace

const float* PlanBuilder::plain(ValueId id) {
  if (graph_.is_constant(id)) return constant_floats(id);
  const Form form = tensor(id);
  return static_cast<const float*>(make_handle(form.buffer, form.offset_bytes));
}

float* PlanBuilder::make_plain(ValueId id) {
  const Form form = make_tensor(id, false);
  return static_cast<float*>(make_handle(form.buffer, form.offset_bytes));
}

void PlanBuilder::emit(const Op& op, const TopK& top, int) {
  TopKArguments a;
  a.operation = top;
  a.x = plain(op.inputs[0]);
  a.y = make_plain(op.output);
  divide(shape(op.inputs[0]), top.axis, a);
  add_step(a, op.origin);
}

void PlanBuilder::emit(const Op& op, const Pick&, int) {
  PickArguments a = pick_arguments(op);
  a.y = make_strided(op.output, false);
  add_step(a, op.origin);
}

void PlanBuilder::emit(const Op& op, const Scatter& scatter, int) {
  PickArguments a = pick_arguments(op);
  a.scatter = scatter;
  a.updates = plain(op.inputs[2]);
  a.y = make_strided(op.output, false);
  add_step(a, op.origin);
}

// Without `y`.
PickArguments PlanBuilder::pick_arguments(const Op& op) {
  PickArguments a;
  const Shape &x = shape(op.inputs[0]), &indices = shape(op.inputs[1]);
  a.shape = pick_shape(x, indices);
  a.x = strided(op.inputs[0]);
  a.indices = broadcast(op.inputs[1], {x[0], indices[1], x[2]});
  return a;
}

void PlanBuilder::emit(const Op& op, const CumSum& sum, int) {
  CumSumArguments a;
  a.operation = sum;
  a.x = plain(op.inputs[0]);
  a.y = make_plain(op.output);
  divide(shape(op.inputs[0]), sum.axis, a);
  add_step(a, op.origin);
}

void PlanBuilder::emit(const Op& op, const GridSample& sample, int) {
  const Shape& in = shape(op.inputs[0]);
  const Shape& out = shape(op.output);
  GridSampleArguments a;
  a.operation = sample;
  a.plane = {in[2], in[3], out[2] * out[3]};
  a.planes = in[0] * in[1];
  a.channels = in[1];
  a.x = plain(op.inputs[0]);
  a.grid = plain(op.inputs[1]);
  a.y = make_plain(op.output);
  add_step(a, op.origin);
}

void PlanBuilder::emit(const Op& op, const Select&, int) {
  const Shape& out = shape(op.output);
  SelectArguments a;
  a.condition = broadcast(op.inputs[0], out);
  a.a = broadcast(op.inputs[1], out);
  a.b = broadcast(op.inputs[2], out);
  a.y = make_strided(op.output, false);
  a.rank = static_cast<int>(out.size());
  std::copy(out.begin(), out.end(), a.shape);
  add_step(a, op.origin);
}

}  // namespace camd::infer::cuda
