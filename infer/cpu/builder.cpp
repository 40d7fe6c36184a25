#include "infer/cpu/builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.hpp"

namespace camd::infer::cpu {
namespace {

// 2 GiB: more than any detector of this class needs, less than most machines have.
constexpr std::size_t kMaxArenaFloats = std::size_t{1} << 29;
constexpr int kTiles = 24;  // of an item of a Winograd convolution

}  // namespace

Builder::Builder(Graph graph, const Kernels& kernels, int threads, std::string model)
    : graph_(std::move(graph)),
      kernels_(kernels),
      threads_(threads),
      model_(std::move(model)),
      program_(std::make_shared<Program>()),
      storage_(graph_.values.size()),
      halos_(graph_.values.size()),
      groups_(graph_.values.size()),
      plain_buffers_(graph_.values.size(), -1),
      group_output_(graph_.values.size(), -1) {
  std::iota(groups_.begin(), groups_.end(), 0);
  for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
    int& output = group_output_[at(graph_.outputs[i])];
    if (output < 0) output = static_cast<int>(i);
  }
}

void Builder::refuse(const Op& op, const std::string& why) const {
  throw base::Error(base::ErrorKind::kModel, fmt::format("{}: engine cpu cannot run {}: {}", model_, op.origin, why));
}

bool Builder::is_picture(ValueId id) const {
  const Shape& s = shape(id);
  return s.size() == 4 && s[0] == 1;
}

bool Builder::prefers_blocked(ValueId id) const { return is_picture(id) && storage_[at(id)].has_blocked; }

int Builder::group_of(ValueId id) const {
  int group = id;
  while (groups_[at(group)] != group) group = groups_[at(group)];
  return group;
}

// A Reshape shares the plain storage of its input, unless both must be outputs of their own.
void Builder::join_reshapes() {
  for (const Op& op : graph_.ops) {
    if (!std::holds_alternative<Reshape>(op.operation)) continue;
    const int from = group_of(op.inputs[0]);
    const int to = group_of(op.output);
    if (op.inputs[0] == graph_.input || group_of(graph_.input) == from) continue;
    if (group_output_[at(from)] >= 0 && group_output_[at(to)] >= 0) continue;
    groups_[at(to)] = from;
    if (group_output_[at(from)] < 0) group_output_[at(from)] = group_output_[at(to)];
  }
}

namespace {

// Worth its transforms where many channels share them.
bool suits_winograd(const Conv& conv, const Shape& in, const Shape& out) {
  return conv.groups == 1 && conv.kernel == Pair2{3, 3} && conv.stride == Pair2{1, 1} && conv.dilation == Pair2{1, 1} &&
         in[1] >= 16 && out[1] >= 16 && out[2] * out[3] >= 64;
}

}  // namespace

// How far the convolutions that read a value reach beyond it.
void Builder::plan_halos() {
  for (const Op& op : graph_.ops) {
    const auto* conv = std::get_if<Conv>(&op.operation);
    if (conv == nullptr) continue;
    const Shape& in = shape(op.inputs[0]);
    const Shape& out = shape(op.output);
    if (!is_picture(op.inputs[0])) continue;
    const auto beyond = [](std::int64_t outputs, int stride, int kernel, int dilation, int before, std::int64_t size) {
      const std::int64_t reach = (outputs - 1) * stride + std::int64_t{kernel - 1} * dilation + 1 - before - size;
      return number(std::max<std::int64_t>(reach, 0));
    };
    Pads& halo = halos_[at(op.inputs[0])];
    // Winograd reads whole tiles.
    const bool tiles = suits_winograd(*conv, in, out);
    const std::int64_t rows = tiles ? (out[2] + 3) / 4 * 4 : out[2];
    const std::int64_t columns = tiles ? (out[3] + 3) / 4 * 4 : out[3];
    halo.top = std::max(halo.top, conv->pads.top);
    halo.left = std::max(halo.left, conv->pads.left);
    halo.bottom =
        std::max(halo.bottom, beyond(rows, conv->stride.y, conv->kernel.y, conv->dilation.y, conv->pads.top, in[2]));
    halo.right =
        std::max(halo.right, beyond(columns, conv->stride.x, conv->kernel.x, conv->dilation.x, conv->pads.left, in[3]));
  }
}

int Builder::new_buffer(std::size_t floats) {
  if (floats > kMaxArenaFloats) {
    throw base::Error(base::ErrorKind::kModel, fmt::format("{}: engine cpu: a tensor needs more than 2 GiB", model_));
  }
  buffers_.push_back({(floats + 15) / 16 * 16, -1, -1, 0});
  return static_cast<int>(buffers_.size()) - 1;
}

BlockedPlace Builder::blocked_form(ValueId id) {
  const Shape& s = shape(id);
  const Pads& halo = halos_[at(id)];
  BlockedPlace b;
  b.halo = halo;
  b.form.channels = number(s[1]);
  b.form.height = number(s[2]);
  b.form.width = number(s[3]);
  b.form.row = at(s[3] + halo.left + halo.right) * kLanes;
  b.form.block = b.form.row * at(s[2] + halo.top + halo.bottom);
  b.origin = at(halo.top) * b.form.row + at(halo.left) * kLanes;
  Storage& storage = storage_[at(id)];
  if (storage.blocked_buffer < 0) storage.blocked_buffer = new_buffer(b.form.block * at(blocks(b.form.channels)));
  b.place.offset = at(storage.blocked_buffer);
  return b;
}

Place Builder::plain_place(ValueId id) {
  Place place;
  if (graph_.is_constant(id)) {
    place.kind = Place::Kind::kConstant;
    program_->constants.push_back(graph_.value(id).constant);
    place.constant = program_->constants.back()->f32.data();
    return place;
  }
  const int group = group_of(id);
  if (group == group_of(graph_.input)) {
    place.kind = Place::Kind::kInput;
  } else if (group_output_[at(group)] >= 0) {
    place.kind = Place::Kind::kOutput;
    place.output = group_output_[at(group)];
  } else {
    int& buffer = plain_buffers_[at(group)];
    if (buffer < 0) buffer = new_buffer(at(element_count(shape(id))));
    place.offset = at(buffer);
  }
  return place;
}

BlockedPlace Builder::read_blocked(ValueId id) {
  Storage& storage = storage_[at(id)];
  if (!storage.has_blocked) {
    auto step = std::make_unique<ToBlockedStep>();
    step->kernels = &kernels_;
    step->in = read_plain(id);
    step->out = blocked_form(id);
    step->items = blocks(number(shape(id)[1]));
    ToBlockedStep& added = add(std::move(step), nullptr);
    touch(added.in);
    touch(added.out);
    storage.has_blocked = true;
  }
  return blocked_form(id);
}

BlockedPlace Builder::write_blocked(ValueId id) {
  storage_[at(id)].has_blocked = true;
  return blocked_form(id);
}

Place Builder::read_plain(ValueId id) {
  if (graph_.is_constant(id) || id == graph_.input) return plain_place(id);
  Storage& storage = storage_[at(id)];
  if (!storage.has_plain) {
    auto step = std::make_unique<ToPlainStep>();
    step->kernels = &kernels_;
    step->in = blocked_form(id);
    step->out = plain_place(id);
    step->items = blocks(number(shape(id)[1]));
    ToPlainStep& added = add(std::move(step), nullptr);
    touch(added.in);
    touch(added.out);
    storage.has_plain = true;
  }
  return plain_place(id);
}

Place Builder::write_plain(ValueId id) {
  storage_[at(id)].has_plain = true;
  return plain_place(id);
}

void Builder::append(std::unique_ptr<Step> step, const Op* op) {
  step->name = op == nullptr ? "convert" : fmt::format("{} {}", kind_name(op->operation), to_string(shape(op->output)));
  program_->steps.push_back(std::move(step));
}

void Builder::touch(Place& place) {
  if (place.kind != Place::Kind::kArena) return;
  const int id = static_cast<int>(place.offset);
  Buffer& buffer = buffers_[at(id)];
  const int step = static_cast<int>(program_->steps.size()) - 1;
  if (buffer.first < 0) buffer.first = step;
  buffer.last = step;
  patches_.emplace_back(&place, id);
}

const float* Builder::keep(std::vector<float> weights) {
  program_->weights.push_back(std::make_shared<const std::vector<float>>(std::move(weights)));
  return program_->weights.back()->data();
}

// Graph outputs that were made blocked, or that share a group with another output.
void Builder::finish_outputs() {
  for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
    const ValueId id = graph_.outputs[i];
    const Place place = read_plain(id);
    if (place.kind == Place::Kind::kOutput && place.output == static_cast<int>(i)) continue;
    Place out;
    out.kind = Place::Kind::kOutput;
    out.output = static_cast<int>(i);
    Op op;
    op.operation = Reshape{};
    op.output = id;
    add_copy(op, place, 0, {1}, out, 0, {1}, {element_count(shape(id))});
  }
}

// Largest first, each at the lowest offset where no buffer of overlapping life lies.
void Builder::plan_arena() {
  std::vector<int> order(buffers_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return std::pair(buffers_[at(b)].floats, a) < std::pair(buffers_[at(a)].floats, b); });
  std::vector<int> placed;
  for (const int id : order) {
    Buffer& buffer = buffers_[at(id)];
    if (buffer.first < 0) continue;
    std::vector<std::pair<std::size_t, std::size_t>> taken;
    for (const int other : placed) {
      const Buffer& o = buffers_[at(other)];
      if (o.first <= buffer.last && buffer.first <= o.last) taken.emplace_back(o.offset, o.offset + o.floats);
    }
    std::sort(taken.begin(), taken.end());
    for (const auto& [begin, end] : taken) {
      if (buffer.offset + buffer.floats <= begin) break;
      buffer.offset = std::max(buffer.offset, end);
    }
    placed.push_back(id);
    program_->arena_floats = std::max(program_->arena_floats, buffer.offset + buffer.floats);
  }
  if (program_->arena_floats > kMaxArenaFloats) {
    throw base::Error(base::ErrorKind::kModel, fmt::format("{}: engine cpu: the model needs more than 2 GiB", model_));
  }
  for (const auto& [place, id] : patches_) place->offset = buffers_[at(id)].offset;
}

std::shared_ptr<const Program> Builder::build() {
  join_reshapes();
  plan_halos();
  for (const Op& op : graph_.ops) build_op(op);
  finish_outputs();
  plan_arena();
  for (const auto& step : program_->steps) {
    program_->items.push_back(step->items);
    program_->scratch_floats = std::max(program_->scratch_floats, step->scratch);
  }
  program_->graph = std::move(graph_);
  return program_;
}

void Builder::build_op(const Op& op) {
  std::visit(
      [&](const auto& o) {
        using O = std::decay_t<decltype(o)>;
        if constexpr (std::is_same_v<O, Conv>)
          build_conv(op, o);
        else if constexpr (std::is_same_v<O, ConvTranspose>)
          build_transposed(op, o);
        else if constexpr (std::is_same_v<O, Pool>)
          build_pool(op, o);
        else if constexpr (std::is_same_v<O, Resize>)
          build_resize(op, o);
        else if constexpr (std::is_same_v<O, Unary>)
          build_unary(op, o.function);
        else if constexpr (std::is_same_v<O, Binary>)
          build_binary(op, o);
        else if constexpr (std::is_same_v<O, Concat>)
          build_concat(op, o);
        else if constexpr (std::is_same_v<O, Slice>)
          build_slice(op, o);
        else if constexpr (std::is_same_v<O, Gather>)
          build_gather(op, o);
        else if constexpr (std::is_same_v<O, Transpose>)
          build_transpose(op, o);
        else if constexpr (std::is_same_v<O, Reshape>)
          build_reshape(op);
        else if constexpr (std::is_same_v<O, Softmax>)
          build_softmax(op, o);
        else if constexpr (std::is_same_v<O, MatMul>)
          build_matmul(op);
        else if constexpr (std::is_same_v<O, Reduce>)
          build_reduce(op, o);
        else
          build_reference(op);
      },
      op.operation);
}

// ---- Convolutions

namespace {

// A grouped weight as a dense one with zeros between the groups; transposed weights have their channels first.
Constant ungrouped(const Constant& weight, int groups, bool transposed) {
  const Shape& s = weight.shape;
  const std::int64_t taps = s[2] * s[3];
  const std::int64_t per_group = s[0] / groups;  // outputs (inputs when transposed) of a group
  Constant dense{DataType::kF32, {s[0], s[1] * groups, s[2], s[3]}, {}, {}};
  (void)transposed;  // both lay out [first][second of the group], and both need the same filling
  dense.f32.assign(at(s[0] * s[1] * groups * taps), 0.0F);
  for (std::int64_t m = 0; m < s[0]; ++m) {
    const std::int64_t group = m / per_group;
    for (std::int64_t c = 0; c < s[1]; ++c) {
      for (std::int64_t t = 0; t < taps; ++t) {
        dense.f32[at((m * s[1] * groups + group * s[1] + c) * taps + t)] = weight.f32[at((m * s[1] + c) * taps + t)];
      }
    }
  }
  return dense;
}

Constant part_of(const Constant& weight, std::int64_t first, std::int64_t count) {
  const Shape& s = weight.shape;
  const std::int64_t each = s[1] * s[2] * s[3];
  return {DataType::kF32,
          {count, s[1], s[2], s[3]},
          {weight.f32.begin() + first * each, weight.f32.begin() + (first + count) * each},
          {}};
}

}  // namespace

void Builder::add_conv(const Op& op, ConvForm form, ConvArguments arguments, int first_in, int first_out,
                       int out_blocks) {
  const bool dense = form == ConvForm::kDense || form == ConvForm::kPlanar;
  auto step = std::make_unique<ConvStep>();
  step->kernels = &kernels_;
  step->form = form;
  arguments.activation = op.activation;
  const Shape& in = shape(op.inputs[0]);
  if (form == ConvForm::kPlanar) {
    step->plain_in = read_plain(op.inputs[0]);
    arguments.in = {nullptr, at(in[3]), at(in[2] * in[3]), number(in[1]), number(in[2]), number(in[3])};
  } else {
    step->in = read_blocked(op.inputs[0]);
    const int channels = arguments.in.channels;
    arguments.in = step->in.form;
    if (channels > 0) arguments.in.channels = channels;
  }
  if (op.inputs.size() > 3 && op.inputs[3] != kNoValue) {
    step->residual = read_blocked(op.inputs[3]);
    step->has_residual = true;
  }
  step->out = write_blocked(op.output);
  arguments.out = step->out.form;
  step->arguments = arguments;
  step->first_in_block = first_in;
  step->first_out_block = first_out;
  step->out_blocks = out_blocks;
  const int parallel = dense ? (out_blocks + kConvBlocks - 1) / kConvBlocks : out_blocks;
  step->bands = bands_for(arguments.out.height, parallel, threads_);
  step->items = parallel * step->bands;
  if (form == ConvForm::kPlanar) step->scratch = conv_planar_scratch(arguments);
  if (form == ConvForm::kWinograd) {
    // Some two dozen tiles an item: enough to use each weight often, few enough to stay in the cache. All threads get
    // as many, where there are few, and pixels by fours, as kernels take them.
    const int tiles = ((arguments.out.height + 3) / 4) * ((arguments.out.width + 3) / 4);
    const int parts = (tiles + kTiles - 1) / kTiles;
    const int even = parts < 4 * threads_ ? (parts + threads_ - 1) / threads_ * threads_ : parts;
    step->tiles = std::max(kTiles / 3, ((tiles + even - 1) / even + 3) / 4 * 4);
    step->items = (tiles + step->tiles - 1) / step->tiles;
    step->scratch = winograd_scratch(arguments, step->tiles);
  }
  ConvStep& added = add(std::move(step), &op);
  if (form == ConvForm::kPlanar)
    touch(added.plain_in);
  else
    touch(added.in);
  if (added.has_residual) touch(added.residual);
  touch(added.out);
}

void Builder::build_conv(const Op& op, const Conv& conv) {
  if (!is_picture(op.inputs[0]))
    refuse(op, fmt::format("its input is {}, a batch of one is needed", to_string(shape(op.inputs[0]))));
  const Constant& weight = *graph_.value(op.inputs[1]).constant;
  const Constant& bias = *graph_.value(op.inputs[2]).constant;
  const std::int64_t channels = shape(op.inputs[0])[1];
  const std::int64_t outputs = shape(op.output)[1];
  ConvArguments a;
  a.kernel = conv.kernel;
  a.stride = conv.stride;
  a.dilation = conv.dilation;
  a.top = conv.pads.top;
  a.left = conv.pads.left;
  a.activation_first = conv.activation_first;
  a.bias = keep(pad_to_blocks(bias.f32));
  const int out_blocks = blocks(number(outputs));
  if (conv.groups > 1 && conv.groups == channels && outputs == channels) {
    a.weights = keep(pack_depthwise(weight));
    add_conv(op, ConvForm::kDepthwise, a, 0, 0, out_blocks);
    return;
  }
  const std::int64_t in_each = channels / conv.groups;
  const std::int64_t out_each = outputs / conv.groups;
  if (conv.groups > 1 && in_each % kLanes == 0 && out_each % kLanes == 0) {
    for (int g = 0; g < conv.groups; ++g) {
      ConvArguments one = a;
      one.weights = keep(pack_dense(part_of(weight, g * out_each, out_each)));
      one.bias = a.bias + g * out_each;
      one.in.channels = number(in_each);
      add_conv(op, ConvForm::kDense, one, number(g * in_each / kLanes), number(g * out_each / kLanes),
               number(out_each / kLanes));
    }
    return;
  }
  if (suits_winograd(conv, shape(op.inputs[0]), shape(op.output))) {
    a.weights = keep(pack_winograd(weight));
    add_conv(op, ConvForm::kWinograd, a, 0, 0, out_blocks);
    return;
  }
  if (element_count(weight.shape) > kMaxValueElements / conv.groups) {
    refuse(op, fmt::format("with {} groups its weight {} takes too much memory", conv.groups, to_string(weight.shape)));
  }
  a.weights = keep(pack_dense(conv.groups > 1 ? ungrouped(weight, conv.groups, false) : weight));
  const bool planar = !prefers_blocked(op.inputs[0]) && channels <= 4;
  add_conv(op, planar ? ConvForm::kPlanar : ConvForm::kDense, a, 0, 0, out_blocks);
}

void Builder::build_transposed(const Op& op, const ConvTranspose& conv) {
  if (!is_picture(op.inputs[0]))
    refuse(op, fmt::format("its input is {}, a batch of one is needed", to_string(shape(op.inputs[0]))));
  const Constant& weight = *graph_.value(op.inputs[1]).constant;
  ConvArguments a;
  a.kernel = conv.kernel;
  a.stride = conv.stride;
  a.dilation = conv.dilation;
  a.top = conv.pads.top;
  a.left = conv.pads.left;
  a.bias = keep(pad_to_blocks(graph_.value(op.inputs[2]).constant->f32));
  const std::int64_t channels = shape(op.inputs[0])[1];
  const bool depthwise = conv.groups > 1 && conv.groups == channels && shape(op.output)[1] == channels;
  if (!depthwise && element_count(weight.shape) > kMaxValueElements / conv.groups) {
    refuse(op, fmt::format("with {} groups its weight {} takes too much memory", conv.groups, to_string(weight.shape)));
  }
  a.weights = keep(depthwise          ? pack_depthwise(weight)
                   : conv.groups == 1 ? pack_transposed(weight)
                                      : pack_transposed(ungrouped(weight, conv.groups, true)));
  add_conv(op, depthwise ? ConvForm::kTransposedDepthwise : ConvForm::kTransposed, a, 0, 0,
           blocks(number(shape(op.output)[1])));
}

std::shared_ptr<const Program> build_program(Graph graph, const Kernels& kernels, int threads,
                                             const std::string& model) {
  return Builder(std::move(graph), kernels, threads, model).build();
}

}  // namespace camd::infer::cpu
