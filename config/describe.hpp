// What the key table says, for people and editors: the annotated default configuration, the JSON Schema and the
// manual's tables.
//
// Threads: functions without state, [any].
#pragma once

#include <string>
#include <string_view>

#include "config/key_table.hpp"

namespace camd::config {

// `camd config`: every key with its default or an example, explained in comments. It loads as it stands once the files
// that it names exist.
[[nodiscard]] std::string default_config_text();

// `camd config --schema`: JSON Schema, draft 2020-12 (json-schema.org/draft/2020-12/schema).
[[nodiscard]] std::string json_schema();

// A table of keys as docs/configuration.md has it, in Markdown.
[[nodiscard]] std::string keys_markdown(Table table);

// The manual page camd.yaml(5): the same table in man(7).
[[nodiscard]] std::string keys_manual_page(Table table, std::string_view version);

}  // namespace camd::config
