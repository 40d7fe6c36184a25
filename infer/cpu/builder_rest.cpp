// Builder's part for everything but convolutions.
#include <fmt/format.h>

#include <algorithm>

#include "infer/cpu/builder.hpp"

namespace camd::infer::cpu {
namespace {

std::vector<std::int64_t> strides_of(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

// Strides with which a tensor of shape `from` is read as `to`: 0 where it repeats.
std::vector<std::int64_t> broadcast_strides(const Shape& from, const Shape& to) {
  const auto own = strides_of(from);
  std::vector<std::int64_t> strides(to.size(), 0);
  const std::size_t skip = to.size() - from.size();
  for (std::size_t d = 0; d < from.size(); ++d) strides[d + skip] = from[d] == 1 ? 0 : own[d];
  return strides;
}

// One number per channel of a picture [1,C,H,W], as constants have it: [C,1,1], [1,C,1,1] or a single number.
bool per_channel(const Shape& s, std::int64_t channels) {
  if (element_count(s) == 1) return s.size() <= 4;
  if (s.size() != 3 && s.size() != 4) return false;
  const std::size_t c = s.size() - 3;
  return s[c] == channels && element_count(s) == channels;
}

int parts_for(std::int64_t elements, std::int64_t limit, int threads) {
  if (elements < 16384) return 1;
  return number(std::clamp(limit, std::int64_t{1}, std::int64_t{2} * threads));
}

}  // namespace

void Builder::build_pool(const Op& op, const Pool& pool) {
  if (!is_picture(op.inputs[0])) return build_reference(op);
  auto step = std::make_unique<PoolStep>();
  step->kernels = &kernels_;
  step->pool = pool;
  step->in = read_blocked(op.inputs[0]);
  step->out = write_blocked(op.output);
  const int count = blocks(step->out.form.channels);
  step->bands = bands_for(step->out.form.height, count, threads_);
  step->items = count * step->bands;
  PoolStep& added = add(std::move(step), &op);
  touch(added.in);
  touch(added.out);
}

void Builder::build_resize(const Op& op, const Resize& resize) {
  if (!is_picture(op.inputs[0])) return build_reference(op);
  auto step = std::make_unique<ResizeStep>();
  step->kernels = &kernels_;
  step->resize = resize;
  step->in = read_blocked(op.inputs[0]);
  step->out = write_blocked(op.output);
  const int count = blocks(step->out.form.channels);
  step->bands = bands_for(step->out.form.height, count, threads_);
  step->items = count * step->bands;
  ResizeStep& added = add(std::move(step), &op);
  touch(added.in);
  touch(added.out);
}

void Builder::build_unary(const Op& op, const Activation& function) {
  if (prefers_blocked(op.inputs[0])) {
    auto step = std::make_unique<BlockedElementwiseStep>();
    step->kernels = &kernels_;
    step->function = function;
    step->a = read_blocked(op.inputs[0]);
    step->out = write_blocked(op.output);
    step->items = blocks(step->out.form.channels);
    BlockedElementwiseStep& added = add(std::move(step), &op);
    touch(added.a);
    touch(added.out);
    return;
  }
  auto step = std::make_unique<PlainUnaryStep>();
  step->kernels = &kernels_;
  step->function = function;
  step->in = read_plain(op.inputs[0]);
  step->out = write_plain(op.output);
  step->count = at(element_count(shape(op.output)));
  step->items = parts_for(element_count(shape(op.output)), std::int64_t{2} * threads_, threads_);
  PlainUnaryStep& added = add(std::move(step), &op);
  touch(added.in);
  touch(added.out);
}

void Builder::build_binary(const Op& op, const Binary& binary) {
  const ValueId a = op.inputs[0], b = op.inputs[1];
  if (!is_picture(op.output) || (!prefers_blocked(a) && !prefers_blocked(b))) return build_plain_binary(op, binary);
  const std::int64_t channels = shape(op.output)[1];
  const bool same = shape(a) == shape(b) && !graph_.is_constant(a) && !graph_.is_constant(b);
  // The side that has the output's shape comes first in the step; the other has one number per channel.
  const bool swapped = shape(a) != shape(op.output);
  const ValueId full = swapped ? b : a;
  const ValueId side = swapped ? a : b;
  const bool fits = shape(full) == shape(op.output) && per_channel(shape(side), channels) &&
                    (graph_.is_constant(side) || is_picture(side));
  if (!same && (!fits || graph_.is_constant(full))) return build_plain_binary(op, binary);
  auto step = std::make_unique<BlockedElementwiseStep>();
  step->kernels = &kernels_;
  step->kind = same ? BlockedElementwiseStep::Kind::kBinary : BlockedElementwiseStep::Kind::kPerChannel;
  step->operation = binary.kind;
  step->function = op.activation;
  step->swapped = !same && swapped;
  step->a = read_blocked(same ? a : full);
  const bool runtime_side = same || !graph_.is_constant(side);
  if (runtime_side) {
    // One number for all channels exists as a constant only in blocked form.
    if (!same && shape(side)[1] != channels) return build_plain_binary(op, binary);
    step->b = read_blocked(same ? b : side);
  } else {
    std::vector<float> numbers = graph_.value(side).constant->f32;
    if (numbers.size() == 1) numbers.assign(at(channels), numbers[0]);
    step->per_channel = keep(pad_to_blocks(numbers));
  }
  step->out = write_blocked(op.output);
  step->items = blocks(number(channels));
  BlockedElementwiseStep& added = add(std::move(step), &op);
  touch(added.a);
  if (runtime_side) touch(added.b);
  touch(added.out);
}

void Builder::build_plain_binary(const Op& op, const Binary& binary) {
  const Shape& out = shape(op.output);
  auto step = std::make_unique<PlainBinaryStep>();
  step->kernels = &kernels_;
  step->operation = binary.kind;
  step->function = op.activation;
  step->a = read_plain(op.inputs[0]);
  step->b = read_plain(op.inputs[1]);
  step->out = write_plain(op.output);
  const auto sa = broadcast_strides(shape(op.inputs[0]), out);
  const auto sb = broadcast_strides(shape(op.inputs[1]), out);
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
  step->items = parts_for(element_count(out), step->shape[0], threads_);
  PlainBinaryStep& added = add(std::move(step), &op);
  touch(added.a);
  touch(added.b);
  touch(added.out);
}

// ---- Data movement

void Builder::add_copy(const Op& op, const Place& in, std::int64_t in_base, std::vector<std::int64_t> in_strides,
                       const Place& out, std::int64_t out_base, std::vector<std::int64_t> out_strides, Shape to) {
  auto step = std::make_unique<CopyStep>();
  step->in = in;
  step->out = out;
  step->in_base = in_base;
  step->out_base = out_base;
  // Dimensions of one element add nothing; inner ones that both sides walk evenly become one.
  for (std::size_t d = 0; d < to.size(); ++d) {
    if (to[d] == 1) continue;
    const bool merges = !step->shape.empty() && step->in_strides.back() == in_strides[d] * to[d] &&
                        step->out_strides.back() == out_strides[d] * to[d];
    if (merges) {
      step->shape.back() *= to[d];
      step->in_strides.back() = in_strides[d];
      step->out_strides.back() = out_strides[d];
    } else {
      step->shape.push_back(to[d]);
      step->in_strides.push_back(in_strides[d]);
      step->out_strides.push_back(out_strides[d]);
    }
  }
  if (step->shape.empty()) {
    step->shape = {1};
    step->in_strides = step->out_strides = {1};
  }
  if (step->shape.size() > 8) refuse(op, "its tensors have too many dimensions");
  CopyStep& added = add(std::move(step), &op);
  touch(added.in);
  touch(added.out);
}

void Builder::add_channels(const Op& op, const std::vector<ValueId>& sources, std::vector<ChannelsStep::From> from) {
  auto step = std::make_unique<ChannelsStep>();
  for (const ValueId id : sources) step->sources.push_back(read_blocked(id));
  step->from = std::move(from);
  step->out = write_blocked(op.output);
  step->items = blocks(step->out.form.channels);
  ChannelsStep& added = add(std::move(step), &op);
  for (BlockedPlace& source : added.sources) touch(source);
  touch(added.out);
}

void Builder::build_concat(const Op& op, const Concat& concat) {
  const bool any_blocked =
      std::any_of(op.inputs.begin(), op.inputs.end(), [&](ValueId id) { return prefers_blocked(id); });
  const bool all_made =
      std::none_of(op.inputs.begin(), op.inputs.end(), [&](ValueId id) { return graph_.is_constant(id); });
  if (is_picture(op.output) && concat.axis == 1 && any_blocked && all_made) {
    std::vector<ChannelsStep::From> from;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      for (int c = 0; c < number(shape(op.inputs[i])[1]); ++c) from.push_back({static_cast<int>(i), c});
    }
    add_channels(op, op.inputs, std::move(from));
    return;
  }
  const auto strides = strides_of(shape(op.output));
  std::int64_t base = 0;
  for (const ValueId id : op.inputs) {
    const Place in = read_plain(id);
    add_copy(op, in, 0, strides_of(shape(id)), write_plain(op.output), base, strides, shape(id));
    base += shape(id)[at(concat.axis)] * strides[at(concat.axis)];
  }
}

void Builder::build_slice(const Op& op, const Slice& slice) {
  const Shape& in = shape(op.inputs[0]);
  const Shape& out = shape(op.output);
  if (prefers_blocked(op.inputs[0]) && is_picture(op.output) && in[2] == out[2] && in[3] == out[3] &&
      slice.start[2] == 0 && slice.start[3] == 0 && (slice.step[2] == 1 || in[2] == 1) &&
      (slice.step[3] == 1 || in[3] == 1)) {
    std::vector<ChannelsStep::From> from;
    for (std::int64_t c = 0; c < out[1]; ++c) from.push_back({0, number(slice.start[1] + c * slice.step[1])});
    add_channels(op, {op.inputs[0]}, std::move(from));
    return;
  }
  auto strides = strides_of(in);
  std::int64_t base = 0;
  for (std::size_t d = 0; d < in.size(); ++d) {
    base += slice.start[d] * strides[d];
    strides[d] *= slice.step[d];
  }
  const Place from = read_plain(op.inputs[0]);
  add_copy(op, from, base, strides, write_plain(op.output), 0, strides_of(out), out);
}

void Builder::build_gather(const Op& op, const Gather& gather) {
  if (prefers_blocked(op.inputs[0]) && gather.axis == 1) {
    std::vector<ChannelsStep::From> from;
    for (const std::int64_t c : gather.indices) from.push_back({0, number(c)});
    add_channels(op, {op.inputs[0]}, std::move(from));
    return;
  }
  build_reference(op);
}

void Builder::build_transpose(const Op& op, const Transpose& transpose) {
  if (prefers_blocked(op.inputs[0]) && transpose.permutation == std::vector<int>{0, 2, 3, 1}) {
    auto step = std::make_unique<ToPixelsStep>();
    step->in = read_blocked(op.inputs[0]);
    step->out = write_plain(op.output);
    step->items = parts_for(element_count(shape(op.output)), step->in.form.height, threads_);
    ToPixelsStep& added = add(std::move(step), &op);
    touch(added.in);
    touch(added.out);
    return;
  }
  const auto own = strides_of(shape(op.inputs[0]));
  std::vector<std::int64_t> strides;
  for (const int p : transpose.permutation) strides.push_back(own[at(p)]);
  const Place in = read_plain(op.inputs[0]);
  add_copy(op, in, 0, strides, write_plain(op.output), 0, strides_of(shape(op.output)), shape(op.output));
}

void Builder::build_reshape(const Op& op) {
  const Place in = read_plain(op.inputs[0]);
  const Place out = write_plain(op.output);
  if (group_of(op.inputs[0]) == group_of(op.output)) return;  // the same memory
  const std::int64_t count = element_count(shape(op.output));
  add_copy(op, in, 0, {1}, out, 0, {1}, {count});
}

// ---- The rest

void Builder::build_softmax(const Op& op, const Softmax& softmax) {
  auto step = std::make_unique<SoftmaxStep>();
  const Shape& s = shape(op.output);
  step->in = read_plain(op.inputs[0]);
  step->out = write_plain(op.output);
  step->log = softmax.log;
  for (std::size_t d = 0; d < s.size(); ++d) {
    (d < at(softmax.axis) ? step->outer : d == at(softmax.axis) ? step->size : step->inner) *= s[d];
  }
  step->items = parts_for(element_count(s), step->outer, threads_);
  SoftmaxStep& added = add(std::move(step), &op);
  touch(added.in);
  touch(added.out);
}

void Builder::build_matmul(const Op& op) {
  const Shape& a = shape(op.inputs[0]);
  const Shape& b = shape(op.inputs[1]);
  const Shape& out = shape(op.output);
  const std::int64_t m = out[out.size() - 2], n = out.back(), k = a.back();
  const std::int64_t batch = element_count(out) / (m * n);
  const auto batch_step = [&](const Shape& s, std::int64_t each, bool& fits) {
    const std::int64_t own = element_count(s) / each;
    fits = fits && (own == 1 || own == batch);
    return own == 1 ? std::int64_t{0} : each;
  };
  bool fits = true;
  auto step = std::make_unique<MatMulStep>();
  step->a_batch = batch_step(a, m * k, fits);
  step->b_batch = batch_step(b, k * n, fits);
  const bool has_bias = op.inputs.size() > 2 && op.inputs[2] != kNoValue;
  if (has_bias) {
    const Shape& s = shape(op.inputs[2]);
    const auto strides = broadcast_strides(s, out);
    for (std::size_t d = 0; d + 2 < out.size(); ++d) fits = fits && strides[d] == 0;
    step->bias_row = at(strides[out.size() - 2]);
    step->bias_step = number(strides.back());
  }
  if (!fits) return build_reference(op);
  step->kernels = &kernels_;
  step->function = op.activation;
  step->has_bias = has_bias;
  step->m = number(m);
  step->k = number(k);
  step->n = number(n);
  step->batch = number(batch);
  step->a = read_plain(op.inputs[0]);
  step->b = read_plain(op.inputs[1]);
  if (has_bias) step->bias = read_plain(op.inputs[2]);
  step->out = write_plain(op.output);
  step->bands = number(std::clamp(m / 4, std::int64_t{1}, std::int64_t{2} * threads_));
  step->items = step->batch * step->bands;
  MatMulStep& added = add(std::move(step), &op);
  touch(added.a);
  touch(added.b);
  if (has_bias) touch(added.bias);
  touch(added.out);
}

void Builder::build_reduce(const Op& op, const Reduce& reduce) {
  const bool over_picture = reduce.axes == std::vector<int>{2, 3};
  const bool pools = reduce.kind == Reduce::Kind::kMean || reduce.kind == Reduce::Kind::kMax;
  if (!over_picture || !pools || !prefers_blocked(op.inputs[0])) return build_reference(op);
  const Shape& in = shape(op.inputs[0]);
  Pool pool;
  pool.kind = reduce.kind == Reduce::Kind::kMean ? Pool::Kind::kAverage : Pool::Kind::kMax;
  pool.kernel = pool.stride = {number(in[2]), number(in[3])};
  build_pool(op, pool);
}

void Builder::build_reference(const Op& op) {
  auto step = std::make_unique<ReferenceStep>();
  step->op = op;
  step->out_shape = shape(op.output);
  for (const ValueId id : op.inputs) {
    step->present.push_back(id != kNoValue);
    step->in_shapes.push_back(id == kNoValue ? Shape{} : shape(id));
    step->in.push_back(id == kNoValue ? Place{Place::Kind::kConstant, 0, 0, nullptr} : read_plain(id));
  }
  step->out = write_plain(op.output);
  ReferenceStep& added = add(std::move(step), &op);
  for (Place& place : added.in) touch(place);
  touch(added.out);
}

}  // namespace camd::infer::cpu
