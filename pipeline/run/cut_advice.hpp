// What helps against a model that no engine runs: tensors inside its graph that `detections` can read, so that what
// lies behind them can be left out.
//
// Threads: [setup], [blocks]: prepares and runs parts of the model.
#pragma once

#include <string>

#include "config/config.hpp"
#include "infer/engine.hpp"

namespace camd::pipeline {

// The rest of a sentence that says why the model cannot be run: which `model.cut_at` and which keys of `detections`
// make it usable, each tried with a picture of noise before it is named; or that none does. Empty where nothing is
// known, because the file cannot be read, its input not be fed, or camd's own engines have all its operators. `options`
// are those that the engine was asked for with. Does not throw for what it finds.
[[nodiscard]] std::string cut_advice(const config::Config& config, const infer::EngineOptions& options);

}  // namespace camd::pipeline
