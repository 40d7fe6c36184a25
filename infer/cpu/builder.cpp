#include "infer/cpu/builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "infer/cpu/build_conv.hpp"
#include "infer/graph/window.hpp"

namespace camd::infer::cpu {
namespace {

// 2 GiB: more than any detector of this class needs, less than most machines have.
constexpr std::size_t kMaxArenaFloats = std::size_t{1} << 29;
// Kernels read pixels of a convolution's tile that lie beyond the last row, and use nothing of them.
constexpr std::size_t kReadBeyond = 64;

}  // namespace

Builder::Builder(Graph graph, Fusions fusions, BytePlan bytes, const Kernels& kernels, int threads, std::string model)
    : graph_(std::move(graph)),
      fusions_(std::move(fusions)),
      bytes_(std::move(bytes)),
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
  join_reshapes();
  plan_halos();
}

void Builder::refuse(const Op& op, const std::string& why) const {
  throw base::Error(base::ErrorKind::kModel, fmt::format("{}: engine cpu cannot run {}: {}", model_, op.origin, why));
}

const Normalization* Builder::normalization_of(const Op& op) const {
  const auto found = fusions_.normalizations.find(op.output);
  return found == fusions_.normalizations.end() ? nullptr : &found->second;
}

const Attention* Builder::attention_of(const Op& op) const {
  const auto found = fusions_.attentions.find(op.output);
  return found == fusions_.attentions.end() ? nullptr : &found->second;
}

Requantize Builder::requantize_of(const Op& op) const {
  const auto found = fusions_.requantizations.find(op.output);
  return found == fusions_.requantizations.end() ? Requantize{} : found->second;
}

bool Builder::is_picture(ValueId id) const {
  const Shape& s = shape(id);
  return s.size() == 4 && s[0] == 1;
}

bool Builder::prefers_blocked(ValueId id) const {
  const Storage& storage = storage_[at(id)];
  return is_picture(id) && (storage.has_blocked || (storage.has_bytes && !storage.has_plain));
}

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

// How far the convolutions that read a value reach beyond it.
void Builder::plan_halos() {
  for (const Op& op : graph_.ops) {
    const auto* conv = std::get_if<Conv>(&op.operation);
    if (conv == nullptr) continue;
    const Shape& in = shape(op.inputs[0]);
    const Shape& out = shape(op.output);
    if (!is_picture(op.inputs[0])) continue;
    const auto beyond = [](std::int64_t outputs, int stride, int kernel, int dilation, int before, std::int64_t size) {
      return number(std::max<std::int64_t>(window_reach(outputs, kernel, stride, dilation) - before - size, 0));
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

BlockedPlace Builder::blocked_layout(ValueId id) const {
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
  return b;
}

BlockedPlace Builder::blocked_form(ValueId id) {
  BlockedPlace b = blocked_layout(id);
  Storage& storage = storage_[at(id)];
  if (storage.blocked_buffer < 0) storage.blocked_buffer = new_buffer(b.form.block * at(blocks(b.form.channels)));
  b.place.kind = Place::Kind::kArena;
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
    place.kind = Place::Kind::kArena;
    place.offset = at(buffer);
  }
  return place;
}

ByteScale Builder::byte_scale(const ByteGrid& grid) const {
  // The number of a byte whose bits are all 0.
  const int lowest = kernels_.bytes->flip == 0 ? 0 : -128;
  return {grid.scale, lowest - grid.low, lowest + grid.high - grid.low};
}

BytePlace Builder::byte_form(ValueId id) {
  const BlockedPlace same = blocked_layout(id);
  BytePlace b;
  b.halo = same.halo;
  b.form = {nullptr, same.form.row, same.form.block, same.form.channels, same.form.height, same.form.width};
  b.origin = same.origin;
  b.scale = byte_scale(*bytes_.grids[at(id)]);
  Storage& storage = storage_[at(id)];
  if (storage.byte_buffer < 0) {
    const std::size_t size = b.form.block * at(blocks(b.form.channels)) + kReadBeyond;
    storage.byte_buffer = new_buffer((size + sizeof(float) - 1) / sizeof(float));
  }
  b.place.kind = Place::Kind::kArena;
  b.place.offset = at(storage.byte_buffer);
  return b;
}

template <typename S, typename K, typename Used, typename Written>
void Builder::add_conversion(ValueId id, const K& kernels, const Used& in, const Written& out) {
  auto step = std::make_unique<S>();
  step->kernels = &kernels;
  step->in = in;
  step->out = out;
  step->items = blocks(number(shape(id)[1]));
  add(std::move(step), nullptr, step->in, step->out);
}

BlockedPlace Builder::read_blocked(ValueId id) {
  Storage& storage = storage_[at(id)];
  if (!storage.has_blocked) {
    if (storage.has_bytes)
      add_conversion<ToFloatsStep>(id, *kernels_.bytes, byte_form(id), blocked_form(id));
    else
      add_conversion<ToBlockedStep>(id, kernels_, read_plain(id), blocked_form(id));
    storage.has_blocked = true;
  }
  return blocked_form(id);
}

BytePlace Builder::read_bytes(ValueId id) {
  Storage& storage = storage_[at(id)];
  if (!storage.has_bytes) {
    if (storage.has_blocked)
      add_conversion<FromFloatsStep>(id, *kernels_.bytes, read_blocked(id), byte_form(id));
    else
      add_conversion<FromPlanesStep>(id, *kernels_.bytes, read_plain(id), byte_form(id));
    storage.has_bytes = true;
  }
  return byte_form(id);
}

BytePlace Builder::write_bytes(ValueId id) {
  storage_[at(id)].has_bytes = true;
  return byte_form(id);
}

BlockedPlace Builder::write_blocked(ValueId id) {
  storage_[at(id)].has_blocked = true;
  return blocked_form(id);
}

Place Builder::read_plain(ValueId id) {
  if (graph_.is_constant(id) || id == graph_.input) return plain_place(id);
  Storage& storage = storage_[at(id)];
  if (!storage.has_plain) {
    add_conversion<ToPlainStep>(id, kernels_, read_blocked(id), plain_place(id));
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

void Builder::add_copy(const Op& op, const Place& in, std::int64_t in_base, const std::vector<std::int64_t>& in_strides,
                       const Place& out, std::int64_t out_base, const std::vector<std::int64_t>& out_strides,
                       const Shape& to) {
  auto step = std::make_unique<CopyStep>();
  step->kernels = &kernels_;
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
  if (step->shape.size() > kMostDimensions) refuse(op, "its tensors have too many dimensions");
  step->items = parts_for(element_count(step->shape), step->shape[0], threads_);
  add(std::move(step), &op, step->in, step->out);
}

// Graph outputs that were made blocked, or that share their storage with another output.
void Builder::write_outputs() {
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

std::shared_ptr<const Program> Builder::finish() {
  write_outputs();
  plan_arena();
  for (const auto& step : program_->steps) {
    program_->items.push_back(step->items);
    program_->scratch_floats = std::max(program_->scratch_floats, step->scratch);
  }
  program_->graph = std::move(graph_);
  return program_;
}

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

int parts_for(std::int64_t elements, std::int64_t limit, int threads) {
  if (elements < 16384) return 1;
  return number(std::clamp(limit, std::int64_t{1}, std::int64_t{2} * threads));
}

}  // namespace camd::infer::cpu
