// PlainModel: a model as the plug-ins' C interface has it. OwnedModel: a copy of one that needs nobody else.
//
// Threads: [setup]. PlainModel owns what its camd_model points at, except for the specs and names that it was made of:
// those must outlive it.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "infer/tensor.hpp"
#include "plugins/camd_plugin.h"

namespace camd::pipeline {

class PlainModel {
 public:
  // `channels_last`: the model's file has its input as [1,H,W,3]; `input` is [1,3,H,W] all the same.
  PlainModel(const infer::TensorSpec& input, const std::vector<infer::TensorSpec>& outputs, const std::string& path,
             const std::string& card_json, const std::vector<std::string>& camera_names, bool channels_last = false);
  PlainModel(const PlainModel&) = delete;
  PlainModel& operator=(const PlainModel&) = delete;

  [[nodiscard]] const camd_model& model() const noexcept { return model_; }

 private:
  std::vector<camd_tensor_spec> outputs_;
  std::vector<const char*> names_;
  camd_model model_{};
};

class OwnedModel {
 public:
  explicit OwnedModel(const camd_model& model);
  OwnedModel(const OwnedModel&) = delete;
  OwnedModel& operator=(const OwnedModel&) = delete;

  [[nodiscard]] const camd_model& model() const noexcept { return model_; }

 private:
  [[nodiscard]] const char* keep(const char* text);
  [[nodiscard]] camd_tensor_spec keep(const camd_tensor_spec& spec);

  std::deque<std::string> texts_;  // whose elements stay where they are
  std::deque<std::vector<std::int64_t>> shapes_;
  std::vector<camd_tensor_spec> outputs_;
  std::vector<const char*> names_;
  camd_model model_;
};

}  // namespace camd::pipeline
