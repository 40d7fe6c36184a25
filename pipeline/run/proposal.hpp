// A model card that is proposed for a model without one: from what its exporter wrote into the file, the shapes of its
// outputs, and what they hold for one picture of noise.
//
// Threads: [setup]. [blocks]: reads the model, prepares it for the CPU and runs it once.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/config.hpp"

namespace camd::pipeline {

struct Proposal {
  std::string card;                  // as YAML, a model card that can be stored beside the model; empty: none
  std::string refused;               // why there is none, in one line that begins with the model's path
  std::vector<std::string> reasons;  // one sentence each, without a stop
  int width = 0, height = 0;         // of the input, where the model leaves them open; 0: it does not
};

// Without a card where no layout reads the outputs, or no engine of the host runs the model. Throws Error(kModel) where
// the file cannot be read, or its input not be fed.
[[nodiscard]] Proposal propose_card(const config::Model& given);

// Completes configurations whose model has no card, and whose `detections` say no layout, from propose_card(). It
// remembers the last model, so that a reload does not run it again.
class Proposer {
 public:
  // Keys that the user has written stay as they are. Returns what was decided; nothing where there is no card. A size
  // that the model leaves open is decided all the same, so that what is said of the model is not that. [setup]
  std::optional<Proposal> complete(config::Config& config);
  // Why there was no card at the last complete(), as Proposal::refused; empty where none was asked for. [setup]
  [[nodiscard]] std::string refused() const { return proposal_ ? proposal_->refused : ""; }

 private:
  config::Model model_;  // as it was given
  std::filesystem::file_time_type written_{};
  std::optional<Proposal> proposal_;
};

}  // namespace camd::pipeline
