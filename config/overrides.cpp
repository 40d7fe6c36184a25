#include "config/overrides.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "config/suggest.hpp"
#include "config/value.hpp"

namespace camd::config {
namespace {

// "cameras[0].name" and "cameras.0.name" as their parts. Empty when a part is.
std::vector<std::string> split_key(std::string_view key) {
  std::vector<std::string> parts(1);
  for (const char c : key) {
    if (c == '.' || c == '[') {
      parts.emplace_back();
    } else if (c != ']') {
      parts.back() += c;
    }
  }
  for (const std::string& part : parts) {
    if (part.empty()) return {};
  }
  return parts;
}

std::optional<std::size_t> as_index(std::string_view part) {
  const auto value = parse_integer(part);
  if (!value || *value < 0) return std::nullopt;
  return static_cast<std::size_t>(*value);
}

// NOLINTNEXTLINE(misc-no-recursion): a tree is at most kMaxDepth deep
void set_place(TreeNode& node, const SourcePlace& place) {
  node.place = place;
  for (TreeNode& item : node.items) set_place(item, place);
  for (Entry& entry : node.entries) {
    entry.place = place;
    set_place(entry.value, place);
  }
}

// One override on its way down the tree.
class Walk {
 public:
  Walk(SourcePlace place, std::vector<Problem>& problems) : place_(std::move(place)), problems_(problems) {}

  // The node that `part` names in `node`, made when it is absent; nullptr and a problem when it cannot be.
  TreeNode* step(TreeNode& node, const std::string& part, const std::string& key) {
    if (node.kind == NodeKind::kNull) {
      node.kind = as_index(part) ? NodeKind::kList : NodeKind::kMap;
      node.place = place_;
    }
    if (node.kind == NodeKind::kMap) {
      if (TreeNode* value = node.find(part)) return value;
      node.entries.push_back(Entry{part, place_, new_node()});
      return &node.entries.back().value;
    }
    if (node.kind == NodeKind::kList) return element(node, part, key);
    fail(fmt::format("{} is a single value and has no {}", key, shortened(part)));
    return nullptr;
  }

  void fail(std::string message) { problems_.push_back({place_, {}, std::move(message)}); }

 private:
  [[nodiscard]] TreeNode new_node() const {
    TreeNode node;
    node.place = place_;
    return node;
  }

  TreeNode* element(TreeNode& list, const std::string& part, const std::string& key) {
    if (const auto index = as_index(part)) {
      if (*index == list.items.size()) list.items.push_back(new_node());
      if (*index < list.items.size()) return &list.items[*index];
      fail(fmt::format("{} has {} elements, numbered from 0", key, list.items.size()));
      return nullptr;
    }
    const std::string_view label = key == "cameras" ? "name" : key == "postprocess" ? "plugin" : "";
    std::vector<std::string_view> known;
    for (TreeNode& item : list.items) {
      const TreeNode* name = label.empty() ? nullptr : item.find(label);
      if (name == nullptr) continue;
      if (name->text == part) return &item;
      known.push_back(name->text);
    }
    const std::string_view meant = nearest(part, known);
    fail(fmt::format("{} has no element {}; known: {}{}", key, shortened(part),
                     known.empty() ? "numbers from 0" : fmt::format("{}", fmt::join(known, ", ")),
                     meant.empty() ? "" : fmt::format(" (did you mean {}?)", meant)));
    return nullptr;
  }

  SourcePlace place_;
  std::vector<Problem>& problems_;
};

void apply(TreeNode& root, std::string_view text, std::vector<Problem>& problems) {
  const auto equals = text.find('=');
  const std::string key(text.substr(0, equals));
  const SourcePlace place{key.empty() ? "--set" : fmt::format("--set {}", shortened(key)), 0, 0};
  Walk walk(place, problems);
  if (equals == std::string_view::npos) return walk.fail("has no value: write --set key.path=value");
  const std::vector<std::string> parts = split_key(key);
  if (parts.empty()) return walk.fail("is not a key: write --set key.path=value");
  if (parts.size() > kMaxDepth) return walk.fail(fmt::format("nested more than {} levels deep", kMaxDepth));

  std::vector<Problem> value_problems;
  std::optional<TreeNode> value = parse_yaml(place.file, text.substr(equals + 1), value_problems);
  for (Problem& problem : value_problems) {
    problem.place = place;  // line and column of a command-line argument help nobody
    problems.push_back(std::move(problem));
  }
  if (!value_problems.empty()) return;
  if (!value) value.emplace();  // "key=": nothing
  set_place(*value, place);

  TreeNode* node = &root;
  std::string walked;
  for (const std::string& part : parts) {
    node = walk.step(*node, part, walked);
    if (node == nullptr) return;
    walked += (walked.empty() ? "" : ".") + shortened(part);
  }
  *node = std::move(*value);
}

}  // namespace

void apply_overrides(TreeNode& root, std::span<const std::string> overrides, std::vector<Problem>& problems) {
  for (const std::string& text : overrides) apply(root, text, problems);
}

}  // namespace camd::config
