// Reads values from a tree that has passed its checks. Where the user wrote none, it is the table's default.
//
// Threads: plain functions of their arguments, [any]. Private to the room.
// Invariant: the tree was checked; a value that does not parse here is a bug in camd and throws Error(kInternal).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/check.hpp"
#include "config/key_table.hpp"
#include "config/value.hpp"
#include "config/yaml_tree.hpp"

namespace camd::config {

class Reader {
 public:
  // `map` may be null: then every value is its default. `pattern` is its path in the table.
  Reader(Table table, const TreeNode* map, std::string pattern, std::string source_type = {})
      : table_(table), map_(map), pattern_(std::move(pattern)), source_type_(std::move(source_type)) {}

  [[nodiscard]] const TreeNode* node(std::string_view name) const {
    const TreeNode* value = map_ == nullptr ? nullptr : map_->find(name);
    return value == nullptr || value->kind == NodeKind::kNull ? nullptr : value;
  }
  [[nodiscard]] Reader map(std::string_view name) const { return {table_, node(name), path(name), source_type_}; }

  // The value as written, else the default.
  [[nodiscard]] std::string text(std::string_view name) const {
    if (const TreeNode* value = node(name)) return value->text;
    const KeyRow* row = find_row(table_, path(name), source_type_);
    if (row == nullptr || row->fallback.empty()) bug(name);
    return std::string(row->fallback);
  }
  [[nodiscard]] std::int64_t integer(std::string_view name) const { return need(parse_integer(text(name)), name); }
  [[nodiscard]] double number(std::string_view name) const { return need(parse_number(text(name)), name); }
  [[nodiscard]] bool boolean(std::string_view name) const { return need(parse_bool(text(name)), name); }
  [[nodiscard]] base::Duration duration(std::string_view name) const { return need(parse_duration(text(name)), name); }
  // Words and their values, {{"tcp", kTcp}, ...}.
  template <typename T, std::size_t N>
  [[nodiscard]] T word(std::string_view name, const std::array<std::pair<std::string_view, T>, N>& words) const {
    const std::string written = text(name);
    for (const auto& [spelling, value] : words) {
      if (spelling == written) return value;
    }
    bug(name);
  }
  // The elements of a list; none where it is not written.
  [[nodiscard]] std::vector<std::string> texts(std::string_view name) const {
    std::vector<std::string> result;
    if (const TreeNode* list = node(name)) {
      for (const TreeNode& element : list->items) result.push_back(element.text);
    }
    return result;
  }
  // A list of pairs of numbers; empty where it is not written.
  [[nodiscard]] std::vector<std::array<double, 2>> points(std::string_view name) const {
    std::vector<std::array<double, 2>> result;
    const TreeNode* const list = node(name);
    if (list == nullptr) return result;
    for (const TreeNode& point : list->items) {
      result.push_back(
          {need(parse_number(point.items.at(0).text), name), need(parse_number(point.items.at(1).text), name)});
    }
    return result;
  }
  // Three numbers, or one that stands for all three. Only of keys without a default.
  [[nodiscard]] std::optional<std::array<float, 3>> triple(std::string_view name) const {
    const TreeNode* value = node(name);
    if (value == nullptr) return std::nullopt;
    std::array<float, 3> result{};
    for (std::size_t i = 0; i < result.size(); ++i) {
      const TreeNode& element = value->kind == NodeKind::kList ? value->items.at(i) : *value;
      result[i] = static_cast<float>(need(parse_number(element.text), name));
    }
    return result;
  }

 private:
  [[nodiscard]] std::string path(std::string_view name) const {
    return pattern_.empty() ? std::string(name) : pattern_ + "." + std::string(name);
  }
  template <typename T>
  [[nodiscard]] T need(std::optional<T> value, std::string_view name) const {
    if (!value) bug(name);
    return *value;
  }
  [[noreturn]] void bug(std::string_view name) const {
    throw base::Error(base::ErrorKind::kInternal,
                      "configuration key " + path(name) + " passed its check but is unusable");
  }

  Table table_;
  const TreeNode* map_;
  std::string pattern_;
  std::string source_type_;
};

}  // namespace camd::config
