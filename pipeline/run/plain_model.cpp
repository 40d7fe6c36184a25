// Copies a model's description into the plug-ins' C structs.
#include "pipeline/run/plain_model.hpp"

#include "pipeline/core/frame_path.hpp"

namespace camd::pipeline {
namespace {

camd_tensor_spec plain_spec(const infer::TensorSpec& spec) {
  camd_tensor_spec plain{};
  plain.name = spec.name.c_str();
  plain.ndim = static_cast<std::int32_t>(spec.shape.size());
  plain.shape = spec.shape.data();
  plain.dtype = dl_type(spec.type);
  return plain;
}

}  // namespace

PlainModel::PlainModel(const infer::TensorSpec& input, const std::vector<infer::TensorSpec>& outputs,
                       const std::string& path, const std::string& card_json,
                       const std::vector<std::string>& camera_names, bool channels_last) {
  for (const infer::TensorSpec& spec : outputs) outputs_.push_back(plain_spec(spec));
  for (const std::string& name : camera_names) names_.push_back(name.c_str());
  model_.struct_size = sizeof(model_);
  model_.path = path.c_str();
  model_.input = plain_spec(input);
  model_.output_count = static_cast<std::int32_t>(outputs_.size());
  model_.outputs = outputs_.data();
  model_.card_json = card_json.c_str();
  model_.camera_count = static_cast<std::int32_t>(names_.size());
  model_.camera_names = names_.data();
  model_.channels_last = channels_last ? 1 : 0;
}

OwnedModel::OwnedModel(const camd_model& model) : model_(model) {
  for (std::int32_t i = 0; i < model.output_count; ++i) outputs_.push_back(keep(model.outputs[i]));
  for (std::int32_t i = 0; i < model.camera_count; ++i) names_.push_back(keep(model.camera_names[i]));
  model_.path = keep(model.path);
  model_.input = keep(model.input);
  model_.outputs = outputs_.data();
  model_.card_json = keep(model.card_json);
  model_.camera_names = names_.data();
}

const char* OwnedModel::keep(const char* text) { return text == nullptr ? nullptr : texts_.emplace_back(text).c_str(); }

camd_tensor_spec OwnedModel::keep(const camd_tensor_spec& spec) {
  camd_tensor_spec kept = spec;
  kept.name = keep(spec.name);
  if (spec.shape != nullptr) kept.shape = shapes_.emplace_back(spec.shape, spec.shape + spec.ndim).data();
  return kept;
}

}  // namespace camd::pipeline
