// The order in which a plan's steps are made, the forms of their values, and their memory.
#include "infer/cuda/plan/builder.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "infer/cuda/plan/handles.hpp"
#include "infer/cuda/plan/packing.hpp"
#include "infer/cuda/plan/schedule.hpp"

namespace camd::infer::cuda {
namespace {

std::vector<std::int64_t> row_major(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

}  // namespace

PlanBuilder::PlanBuilder(Graph graph, const PlanOptions& options, std::string path)
    : graph_(std::move(graph)), options_(options), path_(std::move(path)), fusion_(find_fusions(graph_, options_)) {}

Plan PlanBuilder::build() {
  plan_.type = options_.type;
  plan_.f32_convolutions = options_.f32_convolutions;
  plan_.buffers.resize(2);
  plan_.buffers[kConstantsBuffer].kind = BufferKind::kConstants;
  plan_.buffers[kInputBuffer].kind = BufferKind::kInput;
  plan_.buffers[kInputBuffer].size_bytes = static_cast<std::size_t>(element_count(shape(graph_.input))) * sizeof(float);
  forms_.assign(graph_.values.size(), {});
  forms_[static_cast<std::size_t>(graph_.input)].push_back(Form{kInputBuffer, 0, DataType::kF32, false, 0});
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
    PointerVisitor find(
        [&](auto& p) {
          if (handle_buffer(p) != kConstantsBuffer) step.reads.push_back(handle_buffer(p));
        },
        [&](auto& p) { step.writes.push_back(handle_buffer(p)); });
    std::visit(find, step.arguments);
  }
  for (PlannedOutput& output : plan_.outputs) {
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      const std::vector<int>& writes = plan_.steps[i].writes;
      if (std::find(writes.begin(), writes.end(), output.buffer) != writes.end()) output.step = static_cast<int>(i);
    }
    plan_.steps[static_cast<std::size_t>(output.step)].signals = true;
  }
  schedule(plan_, options_.lanes);
  return std::move(plan_);
}

// Inputs of a Concat over channels are made where they belong, if every one that has a neighbour behind it is a
// multiple of 8 wide: kernels write whole groups of 8.
void PlanBuilder::assign_concat_slices() {
  if (!options_.fuse) return;
  std::map<ValueId, DataType> made_as_image;
  for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) {
    const Op& op = graph_.ops[static_cast<std::size_t>(i)];
    const bool makes = std::holds_alternative<Conv>(op.operation) ||
                       std::holds_alternative<ConvTranspose>(op.operation) ||
                       std::holds_alternative<Pool>(op.operation) || std::holds_alternative<Resize>(op.operation);
    if (makes && is_picture(op.output)) made_as_image[op.output] = type_of_op(i);
  }
  for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) {
    const Op& op = graph_.ops[static_cast<std::size_t>(i)];
    const auto* concat = std::get_if<Concat>(&op.operation);
    if (concat == nullptr || concat->axis != 1 || !is_picture(op.output)) continue;
    int first = 0;
    for (const ValueId in : op.inputs) {
      const int channels = static_cast<int>(shape(in)[1]);
      const bool twice = std::count(op.inputs.begin(), op.inputs.end(), in) > 1;
      const bool last = first + channels == static_cast<int>(shape(op.output)[1]);
      const bool fits = first % 8 == 0 && (last || channels % 8 == 0);
      const auto made = made_as_image.find(in);
      const bool same_type = made != made_as_image.end() && made->second == type_of_op(i);
      if (fits && !twice && same_type && slices_.count(in) == 0 && output_buffers_.count(in) == 0) {
        slices_[in] = {op.output, first};
      }
      first += channels;
    }
  }
}

// ---- Values --------------------------------------------------------------------------------------------------------

DataType PlanBuilder::type_of_op(int index) const { return index < fusion_.f32_ops ? DataType::kF32 : options_.type; }

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
    const Image made = make_image(id, false);
    (void)made;
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
  Form form;
  form.image = true;
  form.type = type_;
  const auto slice = slices_.find(id);
  if (slice != slices_.end() && forms_[static_cast<std::size_t>(id)].empty()) {  // not a second form of it
    if (!has_image(slice->second.first)) (void)make_image(slice->second.first, false);
    const Form whole = forms_[static_cast<std::size_t>(slice->second.first)].front();
    form.buffer = whole.buffer;
    form.pitch = whole.pitch;
    form.offset_bytes = whole.offset_bytes + static_cast<std::size_t>(slice->second.second) * size_of(form.type);
  } else {
    form.pitch = round_up(channels, 8) * (fusion_.pairs.count(id) != 0 ? 2 : 1);
    const std::size_t size = static_cast<std::size_t>(s[2] * s[3] * form.pitch) * size_of(form.type);
    form.buffer = new_buffer(BufferKind::kArena, size);
    plan_.buffers[static_cast<std::size_t>(form.buffer)].exclusive = !kernel_writes_padding && channels % 8 != 0;
  }
  forms_[static_cast<std::size_t>(id)].push_back(form);
  return Image{make_handle(form.buffer, form.offset_bytes), static_cast<int>(s[2]), static_cast<int>(s[3]), channels,
               form.pitch};
}

Form PlanBuilder::tensor(ValueId id) {
  for (const Form& form : forms_[static_cast<std::size_t>(id)]) {
    if (!form.image && form.type == DataType::kF32) return form;
  }
  const Strided x = strided(id);
  Form form;
  form.buffer = new_buffer(BufferKind::kArena, static_cast<std::size_t>(element_count(shape(id))) * sizeof(float));
  forms_[static_cast<std::size_t>(id)].push_back(form);
  add_move(x, strided(id, form), shape(id), shape(id), "layout of " + graph_.value(id).name);
  return form;
}

Form PlanBuilder::make_tensor(ValueId id, bool any_type) {
  Form form;
  const auto output = output_buffers_.find(id);
  if (output != output_buffers_.end() && (any_type || options_.output_type == DataType::kF32)) {
    form.buffer = output->second;
    form.type = options_.output_type;
  } else {
    form.buffer = new_buffer(BufferKind::kArena, static_cast<std::size_t>(element_count(shape(id))) * sizeof(float));
  }
  forms_[static_cast<std::size_t>(id)].push_back(form);
  return form;
}

Strided PlanBuilder::strided(ValueId id, const Form& form) const {
  const Shape& s = shape(id);
  Strided t;
  t.data = make_handle(form.buffer, form.offset_bytes);
  t.type = form.type;
  if (form.image) {
    t.strides[1] = 1;
    t.strides[2] = s[3] * form.pitch;
    t.strides[3] = form.pitch;
  } else {
    const std::vector<std::int64_t> strides = row_major(s);
    std::copy(strides.begin(), strides.end(), t.strides);
  }
  return t;
}

Strided PlanBuilder::strided(ValueId id) {
  if (graph_.is_constant(id)) {
    Strided t;
    // Kernels read operands only.
    t.data = const_cast<float*>(constant_floats(id));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    const std::vector<std::int64_t> strides = row_major(shape(id));
    std::copy(strides.begin(), strides.end(), t.strides);
    return t;
  }
  const auto& forms = forms_[static_cast<std::size_t>(id)];
  if (forms.empty())
    throw base::Error(base::ErrorKind::kInternal, "a value is read before it is made: " + graph_.value(id).name);
  return strided(id, forms.front());
}

Strided PlanBuilder::make_strided(ValueId id, bool as_image) {
  if (as_image && is_picture(id) && output_buffers_.count(id) == 0) {
    (void)make_image(id, false);
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
    const Form form{buffer, 0, options_.output_type, false, 0};
    require_rank(Op{Reshape{}, {}, id, {}, "output " + graph_.value(id).name}, shape(id));
    add_move(x, strided(id, form), shape(id), shape(id), "output " + graph_.value(id).name);
  }
}

}  // namespace camd::infer::cuda
