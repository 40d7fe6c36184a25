// The table that declares every key that config reads: type, default, range, unit, words and help. The loader's checks,
// the annotated default configuration, the JSON Schema, the manual's table and "did you mean" all come from it.
//
// Threads: constant data, [any].
// Paths are patterns: "cameras[].source.path" is `path` in `source` in each element of the list `cameras`.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace camd::config {

enum class ValueType {
  kMap,           // rows below it declare its keys
  kList,          // a row "...[]" declares its elements, min and max their number
  kNumberOrList,  // one number that stands for all, or a list
  kWordOrList,    // one of `words`, or a list
  kWordOrMap,     // one of `words`, or a map as kMap
  kFree,          // a map that belongs to a plug-in
  kAny,           // whatever the plug-in takes; `words` says what that is. A row "...[]" of texts: a list holds texts
  kText,
  kName,     // letters, digits, '-', '_', '.'
  kUrl,      // rtsp:// or rtsps://
  kAddress,  // numeric address or localhost, and a port: config/endpoint.hpp
  kFile,     // path of a file that must exist
  kPlugin,   // a built-in's name or the path of a .so or .py that must exist
  kWord,     // one of `words`
  kDevice,   // auto | cuda | cuda:N | host
  kInteger,
  kNumber,
  kBool,
  kDuration,  // with its unit
  kSize,      // of memory, with its unit
  kGrant,     // network, gpu, or "files: PATH"
};

struct KeyRow {
  std::string_view path{};
  ValueType type = ValueType::kMap;
  bool required = false;
  std::string_view fallback{};  // the default, as YAML; empty: none
  std::string_view example{};   // shown where there is no default
  std::string_view min{};       // as written in a file; of the count for lists; empty: unbounded
  std::string_view max{};
  std::string_view unit{};
  std::string_view words{};           // "auto|cuda|cpu|opencv"
  std::string_view types{};           // keys of a source only: the types that have it, "v4l2|rtsp"
  std::string_view same_length_as{};  // keys of a model card only: a list with as many elements as that key's list
  std::string_view help{};
};

using Table = std::span<const KeyRow>;

[[nodiscard]] Table config_keys() noexcept;  // of the configuration file
// The keys of a model card that config itself reads. The others are those of the plug-in that reads the rest of the
// card: who loads a card gives a table of both.
[[nodiscard]] Table model_card_keys() noexcept;

// The rows directly under `parent` ("" for the root), in the table's order. `source_type` keeps only the rows of that
// source type; empty keeps all.
[[nodiscard]] std::vector<const KeyRow*> rows_under(Table table, std::string_view parent, std::string_view source_type);
// The row of `path` (for that source type), or nullptr.
[[nodiscard]] const KeyRow* find_row(Table table, std::string_view path, std::string_view source_type = {});
// The last part of a path: "path" of "cameras[].source.path".
[[nodiscard]] std::string_view leaf(std::string_view path) noexcept;
// The words of "a|b|c".
[[nodiscard]] std::vector<std::string_view> split_words(std::string_view words);
[[nodiscard]] bool has_word(std::string_view words, std::string_view word);
// What a value may be, for messages and the manual: "an integer from 2 to 64".
[[nodiscard]] std::string allowed(Table table, const KeyRow& row);

}  // namespace camd::config
