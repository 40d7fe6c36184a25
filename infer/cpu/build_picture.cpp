#include "infer/cpu/build_picture.hpp"

#include <algorithm>
#include <numeric>

#include "infer/cpu/build_tensor.hpp"

namespace camd::infer::cpu {
namespace {

// A step over the picture's rows: its items are bands of rows of the output's blocks.
template <typename S>
std::unique_ptr<S> rows_step(Builder& builder, const Op& op) {
  auto step = std::make_unique<S>();
  if constexpr (requires { step->kernels; }) step->kernels = &builder.kernels();
  step->in = builder.read_blocked(op.inputs[0]);
  step->out = builder.write_blocked(op.output);
  const int count = blocks(step->out.form.channels);
  step->bands = bands_for(step->out.form.height, count, builder.threads());
  step->items = count * step->bands;
  return step;
}

}  // namespace

void build_pool(Builder& builder, const Op& op, const Pool& pool) {
  if (!builder.is_picture(op.inputs[0])) return build_reference(builder, op);
  auto step = rows_step<PoolStep>(builder, op);
  step->pool = pool;
  builder.add(std::move(step), &op, step->in, step->out);
}

void build_resize(Builder& builder, const Op& op, const Resize& resize) {
  if (!builder.is_picture(op.inputs[0])) return build_reference(builder, op);
  auto step = rows_step<ResizeStep>(builder, op);
  step->resize = resize;
  builder.add(std::move(step), &op, step->in, step->out);
}

void build_pad(Builder& builder, const Op& op, const Pad& pad) {
  const bool around = builder.prefers_blocked(op.inputs[0]) && builder.is_picture(op.output) && pad.before[1] == 0 &&
                      pad.after[1] == 0 && pad.mode == Pad::Mode::kConstant;
  if (!around) return build_reference(builder, op);
  auto step = rows_step<PadStep>(builder, op);
  step->top = static_cast<int>(pad.before[2]);
  step->left = static_cast<int>(pad.before[3]);
  step->value = pad.value;
  builder.add(std::move(step), &op, step->in, step->out);
}

void build_normalization(Builder& builder, const Op& op, const Normalization& normalization) {
  auto step = std::make_unique<NormalizeStep>();
  step->kernels = &builder.kernels();
  step->in = builder.read_blocked(op.inputs[0]);
  step->out = builder.write_blocked(op.output);
  step->arguments.gain = builder.keep(pad_to_blocks(normalization.gain));
  step->arguments.offset = builder.keep(pad_to_blocks(normalization.offset));
  step->arguments.group = normalization.group;
  step->arguments.epsilon = normalization.epsilon;
  step->arguments.activation = op.activation;
  // The fewest blocks in which groups lie whole.
  const int all = blocks(step->out.form.channels);
  step->blocks_each = std::min(std::lcm(normalization.group, kLanes) / kLanes, all);
  step->items = (all + step->blocks_each - 1) / step->blocks_each;
  step->scratch = at(step->blocks_each) * 2 * kLanes;
  builder.add(std::move(step), &op, step->in, step->out);
}

}  // namespace camd::infer::cpu
