// Trying parts of a graph until one can be run and read.
#include "pipeline/run/cut_advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "device/host_device.hpp"
#include "infer/model_report.hpp"
#include "pipeline/run/layout_check.hpp"
#include "pipeline/run/plain_model.hpp"
#include "plugins/builtin.hpp"

namespace camd::pipeline {
namespace {

using Subset = std::vector<infer::TensorSpec>;

constexpr std::size_t kMostTensors = 32;  // of a graph that are looked at
constexpr int kMostRuns = 8;

std::int64_t elements(const Subset& subset) {
  std::int64_t sum = 0;
  for (const infer::TensorSpec& spec : subset) sum += infer::element_count(spec.shape);
  return sum;
}

bool may_be_boxes(const infer::TensorSpec& spec) {
  return std::find(spec.shape.begin(), spec.shape.end(), 4) != spec.shape.end();
}

// What an operator takes for boxes and scores, all tensors, each pair of what may be boxes with another one, and each
// tensor alone. The larger ones come first, so that the scores of all classes are tried before the best of each box; of
// the same size the pairs, whose boxes and scores the graph tells apart.
std::vector<Subset> subsets_of(const infer::CutCandidates& candidates) {
  const std::vector<infer::TensorSpec>& tensors = candidates.tensors;
  std::vector<Subset> some;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (std::size_t j = 0; j < tensors.size(); ++j) {
      if (i != j && may_be_boxes(tensors[i])) some.push_back({tensors[i], tensors[j]});
    }
  }
  for (const infer::TensorSpec& tensor : tensors) some.push_back({tensor});
  std::stable_sort(some.begin(), some.end(),
                   [](const Subset& a, const Subset& b) { return elements(a) > elements(b); });
  some.insert(some.begin(), tensors);
  Subset told;
  for (const std::string& name : candidates.chosen_from) {
    const auto found = std::find_if(tensors.begin(), tensors.end(),
                                    [&](const infer::TensorSpec& tensor) { return tensor.name == name; });
    if (found != tensors.end()) told.push_back(*found);
  }
  if (told.size() == 2) some.insert(some.begin(), told);
  return some;
}

// Numbers from the middle of a network would do for logits, and any map for FastestDet, all of whose graph camd runs.
// What an operator takes for scores, of which it takes the sigmoid itself, is no accident.
bool fits_by_chance(const plugins::LayoutSuggestion& suggestion) {
  return suggestion.config.find("scores: logits") != std::string::npos ||
         suggestion.config.starts_with("layout: fastestdet");
}

std::string config_of_detections(const config::Config& config) {
  for (const config::Postprocessor& entry : config.postprocess) {
    if (entry.plugin == "detections") return entry.config_json;
  }
  return "{}";
}

std::vector<plugins::LayoutSuggestion> layouts_of(const config::Model& model, const std::string& detections,
                                                  const infer::TensorSpec& input, const Subset& outputs,
                                                  const plugins::OutputValues* values) {
  const std::string path = model.path.string();
  const std::vector<std::string> names;
  const PlainModel plain(input, outputs, path, model.card_json, names);
  try {
    return plugins::suggest_layouts(plain.model(), detections, values);
  } catch (const std::invalid_argument&) {
    return {};  // the plug-in's own keys are wrong, which it says itself
  }
}

// As a list in YAML.
std::string list_text(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    const bool plain = name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-") ==
                       std::string::npos;
    text += (text.empty() ? "" : ", ") + (plain ? name : '"' + name + '"');
  }
  return "[" + text + "]";
}

std::optional<Cut> search(const config::Model& model, const std::string& detections, infer::EngineOptions options) {
  const std::string path = model.path.string();
  options.kind = infer::EngineKind::kCpu;
  infer::CutCandidates candidates = infer::cut_candidates(path, options);
  if (candidates.tensors.empty()) return std::nullopt;
  if (candidates.tensors.size() > kMostTensors) candidates.tensors.resize(kMostTensors);
  const auto host = device::make_host_device(base::system_clock());
  std::set<std::vector<std::string>> tried;
  int runs = 0;
  for (const Subset& subset : subsets_of(candidates)) {
    const auto fitting = layouts_of(model, detections, candidates.input, subset, nullptr);
    if (fitting.empty()) continue;
    std::vector<std::string> names;
    std::vector<int> outputs = fitting.front().outputs;
    std::sort(outputs.begin(), outputs.end());
    names.reserve(outputs.size());
    for (const int i : outputs) names.push_back(subset[static_cast<std::size_t>(i)].name);
    if (!tried.insert(names).second) continue;
    if (++runs > kMostRuns) break;
    try {
      options.cut_at = names;
      const auto engine = infer::make_engine(path, options, *host);
      const auto values = outputs_of_noise(*host, *engine);
      auto reading = layouts_of(model, detections, engine->input(), engine->outputs(), &values);
      const bool told =
          std::is_permutation(names.begin(), names.end(), candidates.chosen_from.begin(), candidates.chosen_from.end());
      if (!told) reading.erase(std::remove_if(reading.begin(), reading.end(), fits_by_chance), reading.end());
      if (!reading.empty()) return Cut{names, reading.front().config};
    } catch (const base::Error&) {
      continue;  // that part cannot be run either
    }
  }
  return Cut{};
}

}  // namespace

std::optional<Cut> find_cut(const config::Model& model, const std::string& detections,
                            const infer::EngineOptions& options) {
  try {
    return search(model, detections, options);
  } catch (const base::Error&) {
    return std::nullopt;
  }
}

std::string cut_advice(const config::Config& config, const infer::EngineOptions& options) {
  const auto cut = find_cut(config.model, config_of_detections(config), options);
  if (!cut) return {};
  if (cut->at.empty()) {
    return "; nothing in front of it looks like boxes and scores, so no model.cut_at helps: export the model without "
           "it";
  }
  return fmt::format("; `model.cut_at: {}` leaves that out, then `detections` reads it with {{{}}}", list_text(cut->at),
                     cut->layout);
}

}  // namespace camd::pipeline
