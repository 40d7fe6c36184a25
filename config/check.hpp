// Compares a tree with the key table: unknown keys, wrong types, values out of range, missing keys, missing files.
//
// Threads: functions of their arguments, [any]; check_tree() [blocks] on file look-ups.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "config/key_table.hpp"
#include "config/yaml_tree.hpp"

namespace camd::config {

// Where relative paths count from, and whether files must exist.
struct FileRules {
  std::filesystem::path folder;  // of the file that is read
  bool must_exist = true;
};

// Appends everything that is wrong with the tree to `problems`.
void check_tree(Table table, const TreeNode& root, const FileRules& files, std::vector<Problem>& problems);

// Refuses padding keys in an `input` map that says `resize: stretch`. `key` is the map's dotted key.
void check_stretched(const TreeNode* input, const std::string& key, std::vector<Problem>& problems);

// What no single row of the table can check: stretched pictures that are padded, two cameras of one name, a first wait
// that is longer than the longest, an HTTP server that everybody can reach and that asks for no token.
void check_relations(const TreeNode& root, const FileRules& files, std::vector<Problem>& problems);

// The path that a text value names. Those of a file count from its folder, those of --set from the working directory.
[[nodiscard]] std::filesystem::path resolve(const TreeNode& value, const FileRules& files);

// True for a `plugin:` that is the path of a library, false for a built-in's name.
[[nodiscard]] bool is_library_path(std::string_view plugin);

[[nodiscard]] std::optional<DeviceChoice> parse_device(std::string_view text);

}  // namespace camd::config
