#include "infer/cpu/build_movement.hpp"

#include <algorithm>

#include "infer/cpu/build_tensor.hpp"

namespace camd::infer::cpu {
namespace {

void add_channels(Builder& builder, const Op& op, const std::vector<ValueId>& sources,
                  std::vector<ChannelsStep::From> from) {
  auto step = std::make_unique<ChannelsStep>();
  for (const ValueId id : sources) step->sources.push_back(builder.read_blocked(id));
  step->from = std::move(from);
  step->out = builder.write_blocked(op.output);
  step->items = blocks(step->out.form.channels);
  builder.add(std::move(step), &op, step->sources, step->out);
}

}  // namespace

void build_concat(Builder& builder, const Op& op, const Concat& concat) {
  const bool any_blocked =
      std::any_of(op.inputs.begin(), op.inputs.end(), [&](ValueId id) { return builder.prefers_blocked(id); });
  const bool all_made =
      std::none_of(op.inputs.begin(), op.inputs.end(), [&](ValueId id) { return builder.graph().is_constant(id); });
  if (builder.is_picture(op.output) && concat.axis == 1 && any_blocked && all_made) {
    std::vector<ChannelsStep::From> from;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      for (int c = 0; c < number(builder.shape(op.inputs[i])[1]); ++c) from.push_back({static_cast<int>(i), c});
    }
    add_channels(builder, op, op.inputs, std::move(from));
    return;
  }
  const auto strides = strides_of(builder.shape(op.output));
  std::int64_t base = 0;
  for (const ValueId id : op.inputs) {
    const Place in = builder.read_plain(id);
    builder.add_copy(op, in, 0, strides_of(builder.shape(id)), builder.write_plain(op.output), base, strides,
                     builder.shape(id));
    base += builder.shape(id)[at(concat.axis)] * strides[at(concat.axis)];
  }
}

void build_slice(Builder& builder, const Op& op, const Slice& slice) {
  const Shape& in = builder.shape(op.inputs[0]);
  const Shape& out = builder.shape(op.output);
  if (builder.prefers_blocked(op.inputs[0]) && builder.is_picture(op.output) && in[2] == out[2] && in[3] == out[3] &&
      slice.start[2] == 0 && slice.start[3] == 0 && (slice.step[2] == 1 || in[2] == 1) &&
      (slice.step[3] == 1 || in[3] == 1)) {
    std::vector<ChannelsStep::From> from;
    for (std::int64_t c = 0; c < out[1]; ++c) from.push_back({0, number(slice.start[1] + c * slice.step[1])});
    add_channels(builder, op, {op.inputs[0]}, std::move(from));
    return;
  }
  auto strides = strides_of(in);
  std::int64_t base = 0;
  for (std::size_t d = 0; d < in.size(); ++d) {
    base += slice.start[d] * strides[d];
    strides[d] *= slice.step[d];
  }
  const Place from = builder.read_plain(op.inputs[0]);
  builder.add_copy(op, from, base, strides, builder.write_plain(op.output), 0, strides_of(out), out);
}

void build_gather(Builder& builder, const Op& op, const Gather& gather) {
  if (builder.prefers_blocked(op.inputs[0]) && gather.axis == 1) {
    std::vector<ChannelsStep::From> from;
    for (const std::int64_t c : gather.indices) from.push_back({0, number(c)});
    add_channels(builder, op, {op.inputs[0]}, std::move(from));
    return;
  }
  // A copy for each index, while they are few.
  constexpr std::size_t kMostCopies = 64;
  if (gather.indices.size() <= kMostCopies) {
    const auto in_strides = strides_of(builder.shape(op.inputs[0]));
    const auto out_strides = strides_of(builder.shape(op.output));
    Shape one = builder.shape(op.output);
    one[at(gather.axis)] = 1;
    const Place in = builder.read_plain(op.inputs[0]);
    const Place out = builder.write_plain(op.output);
    for (std::size_t i = 0; i < gather.indices.size(); ++i) {
      builder.add_copy(op, in, gather.indices[i] * in_strides[at(gather.axis)], in_strides, out,
                       static_cast<std::int64_t>(i) * out_strides[at(gather.axis)], out_strides, one);
    }
    return;
  }
  build_reference(builder, op);
}

void build_transpose(Builder& builder, const Op& op, const Transpose& transpose) {
  if (builder.prefers_blocked(op.inputs[0]) && transpose.permutation == std::vector<int>{0, 2, 3, 1}) {
    auto step = std::make_unique<ToPixelsStep>();
    step->in = builder.read_blocked(op.inputs[0]);
    step->out = builder.write_plain(op.output);
    step->items = parts_for(element_count(builder.shape(op.output)), step->in.form.height, builder.threads());
    builder.add(std::move(step), &op, step->in, step->out);
    return;
  }
  const auto own = strides_of(builder.shape(op.inputs[0]));
  std::vector<std::int64_t> strides;
  for (const int p : transpose.permutation) strides.push_back(own[at(p)]);
  const Place in = builder.read_plain(op.inputs[0]);
  builder.add_copy(op, in, 0, strides, builder.write_plain(op.output), 0, strides_of(builder.shape(op.output)),
                   builder.shape(op.output));
}

void build_reshape(Builder& builder, const Op& op) {
  const Place in = builder.read_plain(op.inputs[0]);
  const Place out = builder.write_plain(op.output);
  if (builder.share_storage(op.inputs[0], op.output)) return;  // the same memory
  const std::int64_t count = element_count(builder.shape(op.output));
  builder.add_copy(op, in, 0, {1}, out, 0, {1}, {count});
}

}  // namespace camd::infer::cpu
