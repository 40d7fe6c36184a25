#include "infer/cpu/build_elementwise.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

namespace camd::infer::cpu {
namespace {

// One number per channel of a picture [1,C,H,W], as constants have it: [C,1,1], [1,C,1,1] or a single number.
bool per_channel(const Shape& s, std::int64_t channels) {
  if (element_count(s) == 1) return s.size() <= 4;
  if (s.size() != 3 && s.size() != 4) return false;
  const std::size_t c = s.size() - 3;
  return s[c] == channels && element_count(s) == channels;
}

// Neighbouring dimensions that all tensors walk evenly become one; at least one is left.
void merge_dimensions(Shape& shape, std::vector<std::vector<std::int64_t>>& strides) {
  Shape merged;
  std::vector<std::vector<std::int64_t>> kept(strides.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    bool merges = !merged.empty();
    for (std::size_t t = 0; t < strides.size(); ++t) merges = merges && kept[t].back() == strides[t][d] * shape[d];
    if (merges)
      merged.back() *= shape[d];
    else
      merged.push_back(shape[d]);
    for (std::size_t t = 0; t < strides.size(); ++t) {
      if (merges)
        kept[t].back() = strides[t][d];
      else
        kept[t].push_back(strides[t][d]);
    }
  }
  if (merged.empty()) {
    merged = {1};
    for (auto& of_tensor : kept) of_tensor = {0};
  }
  shape = std::move(merged);
  strides = std::move(kept);
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
  step->shape = out;
  std::vector<std::vector<std::int64_t>> strides{broadcast_strides(builder.shape(op.inputs[0]), out),
                                                 broadcast_strides(builder.shape(op.inputs[1]), out)};
  merge_dimensions(step->shape, strides);
  step->a_strides = std::move(strides[0]);
  step->b_strides = std::move(strides[1]);
  step->items = parts_for(element_count(out), step->shape[0], builder.threads());
  builder.add(std::move(step), &op, step->a, step->b, step->out);
}

}  // namespace

void build_chain(Builder& builder, const Op& op, const Chain& chain) {
  const Shape shape = builder.shape(op.output);
  auto step = std::make_unique<ChainStep>();
  step->kernels = &builder.kernels();
  std::unordered_map<ValueId, int> operands;  // a tensor's position, or -1 minus that of a place in scratch memory
  std::unordered_map<ValueId, std::size_t> last_read;
  for (std::size_t i = 0; i < chain.ops.size(); ++i) {
    for (const ValueId id : chain.ops[i].inputs) last_read[id] = i;
  }
  const auto add_tensor = [&](ValueId id, const Place& place) {
    operands[id] = static_cast<int>(step->tensors.size());
    step->tensors.push_back(place);
    step->strides.push_back(broadcast_strides(builder.shape(id), shape));
    return operands[id];
  };
  std::vector<int> free;
  int slots = 0;
  for (std::size_t i = 0; i < chain.ops.size(); ++i) {
    const Op& one = chain.ops[i];
    const auto operand = [&](ValueId id) {
      const auto found = operands.find(id);
      return found != operands.end() ? found->second : add_tensor(id, builder.read_plain(id));
    };
    ChainStep::Part part;
    const auto* unary = std::get_if<Unary>(&one.operation);
    part.is_unary = unary != nullptr;
    part.function = part.is_unary ? unary->function : one.activation;
    part.a = operand(one.inputs[0]);
    if (!part.is_unary) {
      part.kind = std::get<Binary>(one.operation).kind;
      part.b = operand(one.inputs[1]);
    }
    // An op may write where it reads.
    for (const ValueId id : std::set<ValueId>(one.inputs.begin(), one.inputs.end())) {
      if (operands[id] < 0 && last_read[id] == i) free.push_back(operands[id]);
    }
    if (chain.is_kept[i]) {
      part.out = add_tensor(one.output, builder.write_plain(one.output));
    } else if (free.empty()) {
      part.out = operands[one.output] = -1 - slots++;
    } else {
      part.out = operands[one.output] = free.back();
      free.pop_back();
    }
    step->parts.push_back(part);
  }
  const int tensors = static_cast<int>(step->tensors.size());
  for (ChainStep::Part& part : step->parts) {
    for (int* const position : {&part.a, &part.b, &part.out}) {
      if (*position < 0) *position = tensors - 1 - *position;
    }
  }
  step->shape = shape;
  merge_dimensions(step->shape, step->strides);
  const std::int64_t line = step->shape.back(), together = ChainStep::kTogether;
  const std::int64_t pieces = element_count(shape) / line * ((line + together - 1) / together);
  step->items = parts_for(element_count(shape), pieces, builder.threads());
  step->scratch = at(slots) * ChainStep::kTogether;
  builder.add(std::move(step), &op, step->tensors);
}

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
