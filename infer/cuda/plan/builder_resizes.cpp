// PlanBuilder: resizes, and sums with what they make.
#include <string>

#include "infer/cuda/plan/builder.hpp"

namespace camd::infer::cuda {

void PlanBuilder::emit(const Op& op, const Resize&, int) { emit_resize(op, kNoValue, op.output, op.origin); }

void PlanBuilder::emit_resize(const Op& op, ValueId added, ValueId y, const std::string& origin) {
  const auto& resize = std::get<Resize>(op.operation);
  ResizeArguments a;
  if (added != kNoValue) a.added = image(added);
  a.x = image(op.inputs[0]);
  a.type = type_;
  a.row_taps = resize.y.taps;
  a.column_taps = resize.x.taps;
  a.rows = constant(resize.y.index);
  a.row_weights = constant(resize.y.weight);
  a.columns = constant(resize.x.index);
  a.column_weights = constant(resize.x.weight);
  a.y = make_image(y, true);
  add_step(a, origin);
}

}  // namespace camd::infer::cuda
