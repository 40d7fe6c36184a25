// What helps against a model that no engine runs: tensors inside its graph that `detections` can read, so that what
// lies behind them can be left out.
//
// Threads: [setup], [blocks]: prepares and runs parts of the model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "infer/engine.hpp"

namespace camd::pipeline {

struct Cut {
  std::vector<std::string> at;  // for `model.cut_at`; empty: none helps
  std::string layout;           // keys of `detections` that read these tensors
};

// The tensors inside the model, tried with a picture of noise, that `detections` reads with its keys `detections`
// (JSON) or those that are found. Nothing where nothing is known, because the file cannot be read, its input not be
// fed, or camd's own engines have all its operators. `options` are those that the engine was asked for with. Does not
// throw for what it finds.
[[nodiscard]] std::optional<Cut> find_cut(const config::Model& model, const std::string& detections,
                                          const infer::EngineOptions& options);

// The same as the rest of a sentence that says why the model cannot be run. Empty where nothing is known.
[[nodiscard]] std::string cut_advice(const config::Config& config, const infer::EngineOptions& options);

}  // namespace camd::pipeline
