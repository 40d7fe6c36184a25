#include "plugins/builtin.hpp"

#include <array>

#include "plugins/tables.hpp"

namespace camd::plugins {
namespace {

std::array<const camd_plugin*, 4> tables() noexcept {
  return {annotate_table(), detections_table(), jsonl_table(), tensors_table()};
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

}  // namespace camd::plugins
