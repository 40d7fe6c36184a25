#include "plugins/builtin.hpp"

#include <array>

#include "plugins/annotate/elements.hpp"
#include "plugins/detections/suggest.hpp"
#include "plugins/tables.hpp"

namespace camd::plugins {
namespace {

std::array<const camd_plugin*, 9> tables() noexcept {
  return {annotate_table(), codes_table(), detections_table(), jsonl_table(), mqtt_table(),
          tensors_table(),  track_table(), webhook_table(),    zones_table()};
}

}  // namespace

const camd_plugin* find_builtin(std::string_view name) noexcept {
  for (const camd_plugin* table : tables()) {
    if (name == table->name) return table;
  }
  return nullptr;
}

std::vector<std::string_view> builtin_names() {
  std::vector<std::string_view> names;
  for (const camd_plugin* table : tables()) names.emplace_back(table->name);
  return names;
}

std::vector<LayoutSuggestion> suggest_layouts(const camd_model& model, std::string_view config_json,
                                              const OutputValues* values) {
  return fitting_layouts(model, read_options(model.card_json != nullptr ? model.card_json : "{}", config_json), values);
}

std::string doubt_layout(const camd_model& model, std::string_view config_json, const OutputValues& values) {
  return doubt(model, read_options(model.card_json != nullptr ? model.card_json : "{}", config_json), values);
}

std::vector<ElementFinding> builtin_elements() { return annotate_elements(); }

}  // namespace camd::plugins
