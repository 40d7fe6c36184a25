#include "infer/onnx/input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"

namespace camd::infer {
namespace {

using base::Error;
using base::ErrorKind;

constexpr std::int64_t kMaxInputSide = 16384;

// One side of the input: what the model fixes and what the configuration asks for must agree.
std::int64_t resolve_side(const ModelDescription& model, std::int64_t fixed, int asked, std::string_view name) {
  if (fixed > 0 && asked > 0 && fixed != asked) {
    throw Error(ErrorKind::kModel, fmt::format("{}: model.input.{} is {}, but the model's input '{}' is {}: its {} is "
                                               "fixed at {}",
                                               model.path, name, asked, printable(model.inputs[0].name),
                                               to_string(model.inputs[0].shape), name, fixed));
  }
  const std::int64_t side = fixed > 0 ? fixed : asked;
  if (side <= 0) {
    throw Error(ErrorKind::kModel, fmt::format("{}: the model leaves its input's {} open ({}): set model.input.{}",
                                               model.path, name, to_string(model.inputs[0].shape), name));
  }
  if (side > kMaxInputSide) {
    throw Error(ErrorKind::kModel,
                fmt::format("{}: an input {} of {} is more than {}", model.path, name, side, kMaxInputSide));
  }
  return side;
}

// What finds objects by their names takes these as numbers of words (OWL-ViT, Grounding DINO, OmDet).
bool reads_text(const TensorSpec& input) {
  return input.name.find("input_ids") != std::string::npos || input.name.find("token") != std::string::npos;
}

}  // namespace

TensorSpec resolve_input(const ModelDescription& model, InputOptions& options) {
  if (model.inputs.size() != 1) {
    std::string names;
    const auto text = std::find_if(model.inputs.begin(), model.inputs.end(), reads_text);
    if (text != model.inputs.end()) {
      throw Error(ErrorKind::kModel,
                  fmt::format("{}: its input '{}' is a text's, and camd knows no texts: export it for a fixed list of "
                              "classes, so that the graph holds what was made of their names (as Ultralytics exports "
                              "YOLO-World and YOLOE)",
                              model.path, printable(text->name)));
    }
    for (const TensorSpec& input : model.inputs) names += (names.empty() ? "'" : ", '") + printable(input.name) + "'";
    throw Error(ErrorKind::kModel,
                fmt::format("{}: the model has {} inputs ({}), camd feeds exactly one picture, and beside it what is "
                            "called orig_target_sizes, im_shape, image_shape, scale_factor or pixel_mask",
                            model.path, model.inputs.size(), names));
  }
  const TensorSpec& declared = model.inputs[0];
  const auto does_not_fit = [&](std::string_view why) {
    return Error(ErrorKind::kModel, fmt::format("{}: input '{}' is {} {}: {}", model.path, printable(declared.name),
                                                to_string(declared.type), to_string(declared.shape), why));
  };
  constexpr std::string_view kForms = "[1,3,height,width] or [1,height,width,3]";
  if (declared.shape.size() != 4) throw does_not_fit(fmt::format("camd feeds pictures as {}", kForms));
  if (declared.shape[0] > 1) throw does_not_fit("camd runs one picture at a time, so the batch must be 1");
  const bool last = takes_pixels_last(declared.shape);
  if (!last && declared.shape[1] > 0 && declared.shape[1] != 3) {
    throw does_not_fit(fmt::format("camd feeds three channels or a grey one, as {}", kForms));
  }
  // Engines compute in types of their own, so these differ in their range only. Whole numbers are pixels as they are,
  // and with a sign pixels less 128, as quantizers for TensorFlow Lite have them.
  const float least = declared.type == DataType::kI8 ? 128.0F : 0.0F;
  const bool whole = declared.type != DataType::kF32 && declared.type != DataType::kF16;
  if (whole && options.scale_by_type) {
    options.mean = {least, least, least};
    options.scale = {1.0F, 1.0F, 1.0F};
  }
  const bool bytes = std::all_of(options.scale.begin(), options.scale.end(), [](float s) { return s == 1.0F; }) &&
                     std::all_of(options.mean.begin(), options.mean.end(), [&](float m) { return m == least; });
  if (whole && !bytes) {
    throw does_not_fit(least > 0.0F ? "it takes pixels of -128 to 127: set model.input.scale to 1 and mean to 128"
                                    : "it takes pixels of 0 to 255: set model.input.scale to 1 and leave mean at 0");
  }
  TensorSpec input = declared;
  input.type = DataType::kF32;
  input.shape = {1, 3, resolve_side(model, declared.shape[last ? 1 : 2], options.height, "height"),
                 resolve_side(model, declared.shape[last ? 2 : 3], options.width, "width")};
  if (element_count(input.shape) > kMaxValueElements) {
    throw Error(ErrorKind::kModel, fmt::format("{}: an input of {} has more than {} elements", model.path,
                                               to_string(input.shape), kMaxValueElements));
  }
  options.height = static_cast<int>(input.shape[2]);
  options.width = static_cast<int>(input.shape[3]);
  return input;
}

std::optional<onnx::TensorProto> size_input(const onnx::ValueInfoProto& input, const Shape& picture) {
  using T = onnx::TensorProto;
  const std::int64_t height = picture.at(2), width = picture.at(3);
  const std::map<std::string_view, std::array<std::int64_t, 2>> known = {{"orig_target_sizes", {width, height}},
                                                                         {"im_shape", {height, width}},
                                                                         {"image_shape", {height, width}},
                                                                         {"scale_factor", {1, 1}}};
  const auto found = known.find(input.name());
  const bool mask = input.name() == kPixelMask;
  Shape shape = declared_shape(input);
  const int type = input.type().tensor_type().elem_type();
  const bool typed = type == T::FLOAT || type == T::INT32 || type == T::INT64 || (mask && type == T::BOOL);
  if (!typed || (found == known.end() && !mask)) return std::nullopt;
  // An open batch is 1. Other open sizes are those of the two values, or of the picture.
  const std::size_t rank = mask ? 3 : 2;
  if (shape.size() == rank && shape[0] < 0) shape[0] = 1;
  for (std::size_t d = 1; shape.size() == rank && d < rank; ++d) {
    if (shape[d] < 0) shape[d] = !mask ? 2 : d == 1 ? height : width;
  }
  std::vector<std::int64_t> values;
  if (mask) {
    constexpr std::int64_t kMostPixels = std::int64_t{1} << 24;
    const bool fits = shape.size() == 3 && shape[0] == 1 && shape[1] <= kMaxInputSide && shape[2] <= kMaxInputSide &&
                      shape[1] * shape[2] <= kMostPixels;
    if (!fits) return std::nullopt;
    values.assign(static_cast<std::size_t>(shape[1] * shape[2]), 1);
  } else {
    if (shape != Shape{1, 2} && shape != Shape{2}) return std::nullopt;
    values.assign(found->second.begin(), found->second.end());
  }
  T tensor;
  tensor.set_name(input.name());
  tensor.set_data_type(type);
  for (const std::int64_t dimension : shape) tensor.add_dims(dimension);
  for (const std::int64_t value : values) {
    if (type == T::FLOAT) tensor.add_float_data(static_cast<float>(value));
    if (type == T::INT32 || type == T::BOOL) tensor.add_int32_data(static_cast<std::int32_t>(value));
    if (type == T::INT64) tensor.add_int64_data(value);
  }
  return tensor;
}

void fix_input_shape(OnnxFile& file, const TensorSpec& input) {
  for (const auto& value : file.proto.graph().input()) {
    if (auto tensor = size_input(value, input.shape))
      *file.proto.mutable_graph()->add_initializer() = std::move(*tensor);
  }
  for (auto& value : *file.proto.mutable_graph()->mutable_input()) {
    if (value.name() != input.name) continue;
    auto* shape = value.mutable_type()->mutable_tensor_type()->mutable_shape();
    shape->clear_dim();
    for (const std::int64_t dimension : input.shape) shape->add_dim()->set_dim_value(dimension);
  }
}

}  // namespace camd::infer
