// PlainModel: a model as the plug-ins' C interface has it.
//
// Threads: [setup]; a value that owns what its camd_model points at, but for the specs and names it was made of, which
// outlive it.
#pragma once

#include <string>
#include <vector>

#include "infer/tensor.hpp"
#include "plugins/camd_plugin.h"

namespace camd::pipeline {

class PlainModel {
 public:
  PlainModel(const infer::TensorSpec& input, const std::vector<infer::TensorSpec>& outputs, const std::string& path,
             const std::string& card_json, const std::vector<std::string>& camera_names);
  PlainModel(const PlainModel&) = delete;
  PlainModel& operator=(const PlainModel&) = delete;

  [[nodiscard]] const camd_model& model() const noexcept { return model_; }

 private:
  std::vector<camd_tensor_spec> outputs_;
  std::vector<const char*> names_;
  camd_model model_{};
};

}  // namespace camd::pipeline
