#include "config/json.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <system_error>

#include "config/value.hpp"

namespace camd::config {
namespace {

// 0x1F and 0o17.
std::optional<std::uint64_t> parse_based_integer(std::string_view text) {
  const int base = text.starts_with("0x") ? 16 : text.starts_with("0o") ? 8 : 0;
  if (base == 0 || text.size() < 3) return std::nullopt;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

nlohmann::json scalar(const TreeNode& node, const std::string& key, std::vector<Problem>& problems) {
  if (node.quoted) return node.text;
  if (const auto value = parse_bool(node.text)) return *value;
  if (const auto value = parse_integer(node.text)) return *value;
  if (const auto value = parse_based_integer(node.text)) return *value;
  if (const auto value = parse_number(node.text)) return *value;
  if (is_not_finite(node.text)) {
    problems.push_back(
        {node.place, key,
         fmt::format("{} is not a finite number; text that looks so needs quotes", shortened(node.text))});
    return nullptr;
  }
  return node.text;
}

}  // namespace

// NOLINTNEXTLINE(misc-no-recursion): a tree is at most kMaxDepth deep
nlohmann::json to_json(const TreeNode& node, const std::string& key, std::vector<Problem>& problems) {
  switch (node.kind) {
    case NodeKind::kNull: return nullptr;
    case NodeKind::kScalar: return scalar(node, key, problems);
    case NodeKind::kList: {
      nlohmann::json list = nlohmann::json::array();
      for (std::size_t i = 0; i < node.items.size(); ++i) {
        list.push_back(to_json(node.items[i], fmt::format("{}.{}", key, i), problems));
      }
      return list;
    }
    case NodeKind::kMap: {
      nlohmann::json map = nlohmann::json::object();
      for (const Entry& entry : node.entries) {
        map[entry.key] = to_json(entry.value, fmt::format("{}.{}", key, shortened(entry.key)), problems);
      }
      return map;
    }
  }
  return nullptr;
}

}  // namespace camd::config
