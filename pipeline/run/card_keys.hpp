// The keys of a model card: config reads some of them, the built-in `detections` the others.
//
// Threads: constant data, [any].
#pragma once

#include "config/key_table.hpp"

namespace camd::pipeline {

// config's keys, then those of `detections`: for config::LoadOptions::card_keys, load_model_card() and the manual.
// Lives as long as the program.
[[nodiscard]] config::Table card_keys();

}  // namespace camd::pipeline
