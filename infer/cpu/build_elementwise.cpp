#include "infer/cpu/build_elementwise.hpp"

#include <algorithm>

namespace camd::infer::cpu {
namespace {

// One number per channel of a picture [1,C,H,W], as constants have it: [C,1,1], [1,C,1,1] or a single number.
bool per_channel(const Shape& s, std::int64_t channels) {
  if (element_count(s) == 1) return s.size() <= 4;
  if (s.size() != 3 && s.size() != 4) return false;
  const std::size_t c = s.size() - 3;
  return s[c] == channels && element_count(s) == channels;
}

void build_plain_binary(Builder& builder, const Op& op, const Binary& binary) {
  const Shape& out = builder.shape(op.output);
  auto step = std::make_unique<PlainBinaryStep>();
  step->kernels = &builder.kernels();
  step->operation = binary.kind;
  step->function = op.activation;
  step->requantize = builder.requantize_of(op);
  step->a = builder.read_plain(op.inputs[0]);
  step->b = builder.read_plain(op.inputs[1]);
  step->out = builder.write_plain(op.output);
  const auto sa = broadcast_strides(builder.shape(op.inputs[0]), out);
  const auto sb = broadcast_strides(builder.shape(op.inputs[1]), out);
  // Neighbouring dimensions that both inputs walk through evenly become one.
  step->shape = {1};
  step->a_strides = step->b_strides = {0};
  bool first = true;
  for (std::size_t d = 0; d < out.size(); ++d) {
    if (out[d] == 1) continue;
    if (!first && step->a_strides.back() == sa[d] * out[d] && step->b_strides.back() == sb[d] * out[d]) {
      step->shape.back() *= out[d];
      step->a_strides.back() = sa[d];
      step->b_strides.back() = sb[d];
    } else if (first) {
      step->shape = {out[d]};
      step->a_strides = {sa[d]};
      step->b_strides = {sb[d]};
    } else {
      step->shape.push_back(out[d]);
      step->a_strides.push_back(sa[d]);
      step->b_strides.push_back(sb[d]);
    }
    first = false;
  }
  step->items = parts_for(element_count(out), step->shape[0], builder.threads());
  builder.add(std::move(step), &op, step->a, step->b, step->out);
}

}  // namespace

void build_unary(Builder& builder, const Op& op, const Activation& function) {
  if (builder.prefers_blocked(op.inputs[0])) {
    auto step = std::make_unique<BlockedElementwiseStep>();
    step->kernels = &builder.kernels();
    step->function = function;
    step->requantize = builder.requantize_of(op);
    step->a = builder.read_blocked(op.inputs[0]);
    step->out = builder.write_blocked(op.output);
    step->items = blocks(step->out.form.channels);
    builder.add(std::move(step), &op, step->a, step->out);
    return;
  }
  auto step = std::make_unique<PlainUnaryStep>();
  step->kernels = &builder.kernels();
  step->function = function;
  step->requantize = builder.requantize_of(op);
  step->in = builder.read_plain(op.inputs[0]);
  step->out = builder.write_plain(op.output);
  step->count = at(element_count(builder.shape(op.output)));
  step->items =
      parts_for(element_count(builder.shape(op.output)), std::int64_t{2} * builder.threads(), builder.threads());
  builder.add(std::move(step), &op, step->in, step->out);
}

void build_binary(Builder& builder, const Op& op, const Binary& binary) {
  const ValueId first = op.inputs[0], second = op.inputs[1];
  if (!builder.is_picture(op.output) || (!builder.prefers_blocked(first) && !builder.prefers_blocked(second)))
    return build_plain_binary(builder, op, binary);
  const std::int64_t channels = builder.shape(op.output)[1];
  const bool same = builder.shape(first) == builder.shape(second) && !builder.graph().is_constant(first) &&
                    !builder.graph().is_constant(second);
  // The side that has the output's shape comes first in the step; the other has one number per channel.
  const bool swapped = builder.shape(first) != builder.shape(op.output);
  const ValueId full = swapped ? second : first;
  const ValueId side = swapped ? first : second;
  const bool fits = builder.shape(full) == builder.shape(op.output) && per_channel(builder.shape(side), channels) &&
                    (builder.graph().is_constant(side) || builder.is_picture(side));
  if (!same && (!fits || builder.graph().is_constant(full))) return build_plain_binary(builder, op, binary);
  auto step = std::make_unique<BlockedElementwiseStep>();
  step->kernels = &builder.kernels();
  step->kind = same ? BlockedElementwiseStep::Kind::kBinary : BlockedElementwiseStep::Kind::kPerChannel;
  step->operation = binary.kind;
  step->function = op.activation;
  step->requantize = builder.requantize_of(op);
  step->swapped = !same && swapped;
  step->a = builder.read_blocked(same ? first : full);
  const bool runtime_side = same || !builder.graph().is_constant(side);
  if (runtime_side) {
    // One number for all channels exists as a constant only in blocked form.
    if (!same && builder.shape(side)[1] != channels) return build_plain_binary(builder, op, binary);
    step->b = builder.read_blocked(same ? second : side);
  } else {
    std::vector<float> numbers = builder.constant(side).f32;
    if (numbers.size() == 1) numbers.assign(at(channels), numbers[0]);
    step->per_channel = builder.keep(pad_to_blocks(numbers));
  }
  step->out = builder.write_blocked(op.output);
  step->items = blocks(number(channels));
  builder.add(std::move(step), &op, step->a, step->b, step->out);
}

}  // namespace camd::infer::cpu
