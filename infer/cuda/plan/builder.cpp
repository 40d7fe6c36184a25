// The order in which a plan's steps are made, the forms of their values, and their memory.
#include "infer/cuda/plan/builder.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "infer/cuda/plan/handles.hpp"
#include "infer/cuda/plan/joined_steps.hpp"
#include "infer/cuda/plan/packing.hpp"
#include "infer/cuda/plan/schedule.hpp"
#include "infer/graph/rewriting.hpp"

namespace camd::infer::cuda {
namespace {

// Operators whose kernels write elements anywhere.
bool writes_anywhere(const Operation& operation) {
  return std::holds_alternative<Unary>(operation) || std::holds_alternative<Binary>(operation) ||
         std::holds_alternative<Gather>(operation) || std::holds_alternative<Pad>(operation) ||
         std::holds_alternative<Reduce>(operation) || std::holds_alternative<MatMul>(operation) ||
         std::holds_alternative<Select>(operation) || std::holds_alternative<Concat>(operation);
}

bool moves_all(const Operation& operation) {
  return std::holds_alternative<Reshape>(operation) || std::holds_alternative<Transpose>(operation);
}

// Of an image it makes an image.
bool selects_channels(const Op& op) {
  const auto* gather = std::get_if<Gather>(&op.operation);
  return gather != nullptr && gather->axis == 1;
}

template <typename T>
void reorder(T (&values)[kMaxRank], const std::vector<int>& order) {
  T old[kMaxRank];
  std::copy(std::begin(values), std::end(values), std::begin(old));
  for (std::size_t d = 0; d < order.size(); ++d) values[d] = old[order[d]];
}

// Kernels with a thread for each element of y count through its dimensions; here in the order in which they lie.
struct InMemoryOrder {
  template <typename Arguments>
  void operator()(Arguments&) const {}
  void operator()(MoveArguments& a) const {
    const std::vector<int> order = memory_order(a.y.strides, a.shape, a.rank);
    reorder(a.shape, order);
    reorder(a.start, order);
    reorder(a.step, order);
    reorder(a.size, order);
    reorder(a.x.strides, order);
    reorder(a.y.strides, order);
    const auto table = std::find(order.begin(), order.end(), a.table_axis);
    if (a.table_axis >= 0) a.table_axis = static_cast<int>(table - order.begin());
  }
  void operator()(ElementwiseArguments& a) const {
    const std::vector<int> order = memory_order(a.y.strides, a.shape, a.rank);
    reorder(a.shape, order);
    reorder(a.y.strides, order);
    for (int i = 0; i < a.input_count; ++i) reorder(a.x[i].strides, order);
  }
  void operator()(SelectArguments& a) const {
    const std::vector<int> order = memory_order(a.y.strides, a.shape, a.rank);
    reorder(a.shape, order);
    for (Strided* t : {&a.condition, &a.a, &a.b, &a.y}) reorder(t->strides, order);
  }
};

bool takes_channels_only(const Slice& slice, const Shape& from, const Shape& to) {
  for (std::size_t d = 0; d < to.size(); ++d) {
    if (slice.step[d] != 1 || (d != 1 && (slice.start[d] != 0 || from[d] != to[d]))) return false;
  }
  return true;
}

}  // namespace

PlanBuilder::PlanBuilder(Graph graph, PlanOptions options, std::string path)
    : graph_(std::move(graph)),
      options_(std::move(options)),
      path_(std::move(path)),
      fusion_(find_fusions(graph_, options_)) {}

Plan PlanBuilder::build() {
  plan_.type = options_.type;
  plan_.f32_convolutions =
      static_cast<int>(std::count(options_.f32_convolutions.begin(), options_.f32_convolutions.end(), true));
  plan_.buffers.resize(2);
  plan_.buffers[kConstantsBuffer].kind = BufferKind::kConstants;
  plan_.buffers[kInputBuffer].kind = BufferKind::kInput;
  plan_.buffers[kInputBuffer].size_bytes = static_cast<std::size_t>(element_count(shape(graph_.input))) * sizeof(float);
  forms_.assign(graph_.values.size(), {});
  add_view(graph_.input, row_major_form(kInputBuffer, DataType::kF32, shape(graph_.input)));
  for (const ValueId id : graph_.outputs) {
    PlannedOutput output;
    output.spec = TensorSpec{graph_.value(id).name, shape(id), options_.output_type};
    output.buffer = new_buffer(BufferKind::kOutput, output.spec.size_bytes());
    plan_.buffers[static_cast<std::size_t>(output.buffer)].offset_bytes = plan_.output_bytes;
    plan_.output_bytes += aligned(output.spec.size_bytes());
    output_buffers_.emplace(id, output.buffer);
    plan_.outputs.push_back(std::move(output));
  }
  assign_concat_slices();
  if (fusion_.order.empty()) {
    for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) fusion_.order.push_back(i);
  }
  for (const int i : fusion_.order) {
    type_ = type_of_op(i);
    if (fusion_.absorbed.count(i) == 0) emit(graph_.ops[static_cast<std::size_t>(i)], i);
  }
  finish_outputs();
  plan_.buffers[kConstantsBuffer].size_bytes = plan_.constants.size();
  for (Step& step : plan_.steps) {
    std::visit(InMemoryOrder{}, step.arguments);
    PointerVisitor find(
        [&](auto& p) {
          if (handle_buffer(p) != kConstantsBuffer) step.reads.push_back(handle_buffer(p));
        },
        [&](auto& p) { step.writes.push_back(handle_buffer(p)); });
    std::visit(find, step.arguments);
  }
  if (options_.fuse) join_steps(plan_);
  for (PlannedOutput& output : plan_.outputs) {
    int writers = 0;
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      const std::vector<int>& writes = plan_.steps[i].writes;
      if (std::find(writes.begin(), writes.end(), output.buffer) == writes.end()) continue;
      output.step = static_cast<int>(i);
      ++writers;
    }
    // Steps that make parts of the only output need not wait for each other.
    if (plan_.outputs.size() == 1 && writers > 1)
      output.step = PlannedOutput::kAllSteps;
    else
      plan_.steps[static_cast<std::size_t>(output.step)].signals = true;
  }
  schedule(plan_, options_.lanes);
  return std::move(plan_);
}

// Inputs of a Concat are made where they belong.
void PlanBuilder::assign_concat_slices() {
  if (!options_.fuse) return;
  std::map<ValueId, DataType> made_as_image;
  for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) {
    const Op& op = graph_.ops[static_cast<std::size_t>(i)];
    const bool makes = std::holds_alternative<Conv>(op.operation) ||
                       std::holds_alternative<ConvTranspose>(op.operation) ||
                       std::holds_alternative<Pool>(op.operation) || std::holds_alternative<Resize>(op.operation) ||
                       selects_channels(op) || fusion_.excited_by.count(i) != 0;
    if (makes && is_picture(op.output)) made_as_image[op.output] = type_of_op(i);
  }
  for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) {
    const Op& op = graph_.ops[static_cast<std::size_t>(i)];
    const auto* concat = std::get_if<Concat>(&op.operation);
    if (concat == nullptr) continue;
    if (!is_picture(op.output)) {
      assign_tensor_slices(op);
    } else if (concat->axis == 1) {
      assign_image_slices(op, type_of_op(i), made_as_image);
    }
  }
}

bool PlanBuilder::may_be_slice(ValueId id, const Op& concat) const {
  return !graph_.is_constant(id) && slices_.count(id) == 0 && output_buffers_.count(id) == 0 &&
         std::count(concat.inputs.begin(), concat.inputs.end(), id) == 1;
}

// A part that has a neighbour behind it must be a multiple of 8 channels wide: kernels write whole groups of 8. Parts
// of another value, as a Split makes them, lie where they belong if that value does as a whole.
void PlanBuilder::assign_image_slices(const Op& concat, DataType type,
                                      const std::map<ValueId, DataType>& made_as_image) {
  const auto channels_of = [&](ValueId id) { return static_cast<int>(shape(id)[1]); };
  const auto fits = [&](ValueId id, int first) {
    const int channels = channels_of(id);
    const bool last = first + channels == channels_of(concat.output);
    const auto made = made_as_image.find(id);
    return first >= 0 && first % 8 == 0 && (last || channels % 8 == 0) && made != made_as_image.end() &&
           made->second == type;
  };
  std::map<ValueId, int> first_of;
  int first = 0;
  for (const ValueId in : concat.inputs) {
    first_of[in] = first;
    first += channels_of(in);
  }
  for (const auto& [in, at] : first_of) {
    if (may_be_slice(in, concat) && fits(in, at)) slices_[in] = {concat.output, 1, at, true};
  }
  for (const Op& part : graph_.ops) {
    const auto* slice = std::get_if<Slice>(&part.operation);
    const auto at = first_of.find(part.output);
    if (slice == nullptr || at == first_of.end()) continue;
    const ValueId source = part.inputs[0];
    if (!is_picture(source) || !takes_channels_only(*slice, shape(source), shape(part.output))) continue;
    const int begin = at->second - static_cast<int>(slice->start[1]);
    if (!may_be_slice(part.output, concat) || graph_.is_constant(source) || slices_.count(source) != 0 ||
        output_buffers_.count(source) != 0 || !fits(source, begin)) {
      continue;
    }
    // All of the source's channels must be inputs, each at its place.
    int covered = 0;
    for (const Op& other : graph_.ops) {
      const auto* piece = std::get_if<Slice>(&other.operation);
      const auto where = first_of.find(other.output);
      if (piece == nullptr || where == first_of.end() || other.inputs[0] != source) continue;
      if (takes_channels_only(*piece, shape(source), shape(other.output)) &&
          where->second - static_cast<int>(piece->start[1]) == begin) {
        covered += channels_of(other.output);
      }
    }
    if (covered == channels_of(source)) slices_[source] = {concat.output, 1, begin, true};
  }
}

void PlanBuilder::assign_tensor_slices(const Op& concat) {
  const int axis = std::get<Concat>(concat.operation).axis;
  std::int64_t first = 0;
  for (const ValueId in : concat.inputs) {
    if (may_be_slice(in, concat) && can_be_written_anywhere(in)) slices_[in] = {concat.output, axis, first, false};
    first += shape(in)[static_cast<std::size_t>(axis)];
  }
}

// Its kernel can, or that of a value that is only reshaped and transposed to this one (make_result()).
bool PlanBuilder::can_be_written_anywhere(ValueId id) const {
  const std::vector<int> uses = use_counts(graph_);
  const std::vector<int> makers = producers(graph_);
  const auto op_of = [&](int i) -> const Op& { return graph_.ops[static_cast<std::size_t>(i)]; };
  int make = makers[static_cast<std::size_t>(id)];
  if (make < 0) return false;
  const auto& heads = fusion_.flattened_heads;
  if (std::any_of(heads.begin(), heads.end(), [&](const auto& head) { return head.second == id; })) return true;
  if (writes_anywhere(op_of(make).operation)) return true;
  bool moved = false;
  while (make >= 0 && moves_all(op_of(make).operation)) {
    const ValueId from = op_of(make).inputs[0];
    if (uses[static_cast<std::size_t>(from)] != 1 || output_buffers_.count(from) != 0) return false;
    make = makers[static_cast<std::size_t>(from)];
    moved = true;
  }
  if (make < 0 || !moved || fusion_.absorbed.count(make) != 0) return false;
  const Operation& operation = op_of(make).operation;
  return std::holds_alternative<Unary>(operation) || std::holds_alternative<Binary>(operation) ||
         (std::holds_alternative<Concat>(operation) && !joins_heads(op_of(make).output)) ||
         fusion_.attention_of.count(make) != 0 || fusion_.deformable_of.count(make) != 0;
}

// Also where Concats join what Concats have joined.
bool PlanBuilder::joins_heads(ValueId id) const {
  const auto& heads = fusion_.flattened_heads;
  return std::any_of(graph_.ops.begin(), graph_.ops.end(), [&](const Op& op) {
    if (op.output != id || !std::holds_alternative<Concat>(op.operation)) return false;
    return std::any_of(op.inputs.begin(), op.inputs.end(), [&](ValueId in) {
      return joins_heads(in) ||
             std::any_of(heads.begin(), heads.end(), [&](const auto& head) { return head.second == in; });
    });
  });
}

// ---- Values --------------------------------------------------------------------------------------------------------

DataType PlanBuilder::type_of_op(int index) const {
  const auto i = static_cast<std::size_t>(index);
  return i < fusion_.f32_ops.size() && fusion_.f32_ops[i] ? DataType::kF32 : options_.type;
}

bool PlanBuilder::is_picture(ValueId id) const { return shape(id).size() == 4 && shape(id)[0] == 1; }

bool PlanBuilder::has_image(ValueId id) const {
  const auto& forms = forms_[static_cast<std::size_t>(id)];
  return std::any_of(forms.begin(), forms.end(), [](const Form& f) { return f.image; });
}

Image PlanBuilder::image(ValueId id) {
  const auto wanted = [&](const Form& form) { return form.image && form.type == type_; };
  const auto& forms = forms_[static_cast<std::size_t>(id)];
  if (std::none_of(forms.begin(), forms.end(), wanted)) {
    const Strided x = strided(id);
    (void)make_image(id, false);
    add_move(x, strided(id, forms_[static_cast<std::size_t>(id)].back()), shape(id), shape(id),
             "layout of " + graph_.value(id).name);
  }
  for (const Form& form : forms) {
    if (!wanted(form)) continue;
    const Shape& s = shape(id);
    return Image{make_handle(form.buffer, form.offset_bytes), static_cast<int>(s[2]), static_cast<int>(s[3]),
                 static_cast<int>(s[1]), form.pitch};
  }
  throw base::Error(base::ErrorKind::kInternal, "an image that was just made is missing");
}

Image PlanBuilder::make_image(ValueId id, bool kernel_writes_padding) {
  const Shape& s = shape(id);
  const int channels = static_cast<int>(s[1]);
  const auto slice = slices_.find(id);
  Form form;
  // A second form of a value is no slice.
  if (slice != slices_.end() && slice->second.image && forms_[static_cast<std::size_t>(id)].empty()) {
    const ConcatSlice& place = slice->second;
    if (!has_image(place.whole)) (void)make_image(place.whole, false);
    const Form whole = first_form(place.whole);
    form = image_form(whole.buffer, type_, s, whole.pitch);
    form.offset_bytes = whole.offset_bytes + static_cast<std::size_t>(place.first) * size_of(type_);
  } else {
    const int pitch = round_up(channels, 8) * (fusion_.pairs.count(id) != 0 ? 2 : 1);
    const std::size_t size = static_cast<std::size_t>(s[2] * s[3] * pitch) * size_of(type_);
    form = image_form(new_buffer(BufferKind::kArena, size), type_, s, pitch);
    plan_.buffers[static_cast<std::size_t>(form.buffer)].exclusive = !kernel_writes_padding && channels % 8 != 0;
  }
  add_view(id, form);
  return Image{make_handle(form.buffer, form.offset_bytes), static_cast<int>(s[2]), static_cast<int>(s[3]), channels,
               form.pitch};
}

Form PlanBuilder::tensor(ValueId id) {
  for (const Form& form : forms_[static_cast<std::size_t>(id)]) {
    if (form.plain && form.type == DataType::kF32) return form;
  }
  const Strided x = strided(id);
  const auto bytes = static_cast<std::size_t>(element_count(shape(id))) * sizeof(float);
  Form form = row_major_form(new_buffer(BufferKind::kArena, bytes), DataType::kF32, shape(id));
  add_view(id, form);
  add_move(x, strided(id, form), shape(id), shape(id), "layout of " + graph_.value(id).name);
  return form;
}

Form PlanBuilder::make_tensor(ValueId id, bool any_type) {
  const auto output = output_buffers_.find(id);
  Form form;
  if (output != output_buffers_.end() && (any_type || options_.output_type == DataType::kF32)) {
    form = row_major_form(output->second, options_.output_type, shape(id));
  } else {
    const DataType type = any_type && fusion_.halves.count(id) != 0 ? DataType::kF16 : DataType::kF32;
    const auto bytes = static_cast<std::size_t>(element_count(shape(id))) * size_of(type);
    form = row_major_form(new_buffer(BufferKind::kArena, bytes), type, shape(id));
  }
  add_view(id, form);
  return form;
}

Strided PlanBuilder::strided(ValueId, const Form& form) const {
  Strided t;
  t.data = make_handle(form.buffer, form.offset_bytes);
  t.type = form.type;
  std::copy(form.strides.begin(), form.strides.end(), t.strides);
  return t;
}

Strided PlanBuilder::strided(ValueId id) { return strided(id, first_form(id)); }

Form PlanBuilder::first_form(ValueId id) {
  if (graph_.is_constant(id)) {
    const float* const at = constant_floats(id);
    Form form = row_major_form(handle_buffer(at), DataType::kF32, shape(id));
    form.offset_bytes = handle_offset(at);
    return form;
  }
  const auto& forms = forms_[static_cast<std::size_t>(id)];
  if (forms.empty())
    throw base::Error(base::ErrorKind::kInternal, "a value is read before it is made: " + graph_.value(id).name);
  return forms.front();
}

Strided PlanBuilder::make_strided(ValueId id, bool as_image) {
  const auto slice = slices_.find(id);
  if (as_image && is_picture(id) && output_buffers_.count(id) == 0) {
    (void)make_image(id, false);
  } else if (slice != slices_.end() && !slice->second.image) {
    const ConcatSlice& place = slice->second;
    if (forms_[static_cast<std::size_t>(place.whole)].empty()) (void)make_result(place.whole, false);
    Slice part{std::vector<std::int64_t>(shape(id).size(), 0), std::vector<std::int64_t>(shape(id).size(), 1)};
    part.start[static_cast<std::size_t>(place.axis)] = place.first;
    add_view(id, slice_view(first_form(place.whole), part, shape(id)));
  } else {
    (void)make_tensor(id, true);
  }
  return strided(id, forms_[static_cast<std::size_t>(id)].back());
}

Strided PlanBuilder::broadcast(ValueId id, const Shape& to) {
  Strided t = strided(id);
  const Shape& from = shape(id);
  Strided result = t;
  const std::size_t missing = to.size() - from.size();
  for (std::size_t d = 0; d < to.size(); ++d) {
    const bool repeats = d < missing || (from[d - missing] == 1 && to[d] != 1);
    result.strides[d] = repeats ? 0 : t.strides[d - missing];
  }
  return result;
}

// ---- Memory and steps ----------------------------------------------------------------------------------------------

int PlanBuilder::new_buffer(BufferKind kind, std::size_t size_bytes) {
  Buffer buffer;
  buffer.kind = kind;
  buffer.size_bytes = std::max<std::size_t>(size_bytes, 16);
  plan_.buffers.push_back(buffer);
  return static_cast<int>(plan_.buffers.size()) - 1;
}

template <typename T>
const T* PlanBuilder::constant(const std::vector<T>& values) {
  const std::size_t at = aligned(plan_.constants.size());
  const std::size_t bytes = values.size() * sizeof(T);
  // Kernels fetch 16 bytes at a time, never beyond the last multiple of 16.
  plan_.constants.resize(at + (bytes + 15) / 16 * 16);
  if (bytes != 0) std::memcpy(plan_.constants.data() + at, values.data(), bytes);
  return static_cast<const T*>(make_handle(kConstantsBuffer, at));
}
template const std::byte* PlanBuilder::constant(const std::vector<std::byte>&);
template const float* PlanBuilder::constant(const std::vector<float>&);
template const int* PlanBuilder::constant(const std::vector<int>&);
template const Half* PlanBuilder::constant(const std::vector<Half>&);
template const std::int64_t* PlanBuilder::constant(const std::vector<std::int64_t>&);

std::vector<float> PlanBuilder::floats(ValueId id) const {
  const Constant& c = *graph_.value(id).constant;
  if (c.type == DataType::kF32) return c.f32;
  return std::vector<float>(c.i64.begin(), c.i64.end());
}

const float* PlanBuilder::constant_floats(ValueId id) {
  const auto known = constants_.find(id);
  if (known != constants_.end()) return known->second;
  const float* made = constant(floats(id));
  constants_[id] = made;
  return made;
}

const float* PlanBuilder::padded_bias(const std::vector<float>& bias, int multiple) {
  std::vector<float> padded = bias;
  padded.resize(static_cast<std::size_t>(round_up(static_cast<int>(bias.size()), multiple)), 0.0F);
  return constant(padded);
}

void PlanBuilder::add_step(const Arguments& arguments, const std::string& origin) {
  Step step;
  step.arguments = arguments;
  step.origin = origin;
  plan_.steps.push_back(std::move(step));
}

void PlanBuilder::add_move(const Strided& x, const Strided& y, const Shape& to, const Shape& from,
                           const std::string& origin) {
  MoveArguments a;
  a.x = x;
  a.y = y;
  a.rank = static_cast<int>(to.size());
  for (std::size_t d = 0; d < to.size(); ++d) {
    a.shape[d] = to[d];
    a.step[d] = 1;
    a.size[d] = from[d];
  }
  add_step(a, origin);
}

void PlanBuilder::require_rank(const Op& op, const Shape& s) const {
  if (s.size() <= kMaxRank) return;
  throw base::Error(base::ErrorKind::kModel, path_ + ": " + op.origin + " has a tensor of " + std::to_string(s.size()) +
                                                 " dimensions, engine cuda takes " + std::to_string(kMaxRank) +
                                                 ": engine opencv on device host may run this model");
}

void PlanBuilder::finish_outputs() {
  for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
    const ValueId id = graph_.outputs[i];
    const int buffer = plan_.outputs[i].buffer;
    const auto& forms = forms_[static_cast<std::size_t>(id)];
    if (std::any_of(forms.begin(), forms.end(), [&](const Form& f) { return f.buffer == buffer; })) continue;
    const Strided x = strided(id);
    const Form form = row_major_form(buffer, options_.output_type, shape(id));
    require_rank(Op{Reshape{}, {}, id, {}, "output " + graph_.value(id).name}, shape(id));
    add_move(x, strided(id, form), shape(id), shape(id), "output " + graph_.value(id).name);
  }
}

}  // namespace camd::infer::cuda
