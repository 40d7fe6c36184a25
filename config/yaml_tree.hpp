// YAML text as a tree of nodes that know their place. Hostile text does no harm: size, depth and number of values are
// limited while yaml-cpp parses, before anything is built from them.
//
// Threads: functions of their arguments, [any].
// Invariants of a tree: depth <= kMaxDepth, at most kMaxNodes nodes, keys of a map are unique texts, valid UTF-8
// without control characters; no anchors, aliases, merge keys or tags (a configuration says what it means once).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/place.hpp"

namespace camd::config {

inline constexpr std::size_t kMaxTextBytes = std::size_t{1} << 20U;
inline constexpr std::size_t kMaxDepth = 32;
inline constexpr std::size_t kMaxNodes = 20'000;

enum class NodeKind { kNull, kScalar, kList, kMap };

struct Entry;

struct TreeNode {
  NodeKind kind = NodeKind::kNull;
  SourcePlace place;
  std::string text;             // of a scalar
  bool quoted = false;          // written in quotes or as a block: text, whatever it looks like
  bool hidden = false;          // holds what a reference stood for: never shown (config/secrets.hpp)
  std::vector<TreeNode> items;  // of a list
  std::vector<Entry> entries;   // of a map, in the text's order

  // The value of `key`, or nullptr. Of maps; of everything else there is none.
  [[nodiscard]] const TreeNode* find(std::string_view key) const;
  [[nodiscard]] TreeNode* find(std::string_view key);
};

struct Entry {
  std::string key;
  SourcePlace place;  // of the key
  TreeNode value;
};

// The tree of a text with exactly one document, or nothing when it cannot be read. What is wrong is appended to
// `problems`; duplicate keys leave a tree that holds the first.
[[nodiscard]] std::optional<TreeNode> parse_yaml(const std::string& file, std::string_view text,
                                                 std::vector<Problem>& problems);

// Whether a text is one line of valid UTF-8 without control characters.
[[nodiscard]] bool is_plain_text(std::string_view text);

// The whole text of a file of at most kMaxTextBytes, or nothing and a problem.
[[nodiscard]] std::optional<std::string> read_text(const std::string& file, std::vector<Problem>& problems);

}  // namespace camd::config
