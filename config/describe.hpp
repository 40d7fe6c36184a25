// What the key table says, for people and editors: the annotated default configuration, the JSON Schema and the
// manual's tables.
//
// Threads: functions without state, [any].
#pragma once

#include <string>

namespace camd::config {

// `camd config`: every key with its default or an example, explained in comments. It loads as it stands once the files
// that it names exist.
[[nodiscard]] std::string default_config_text();

// `camd config --schema`: JSON Schema, draft 2020-12 (json-schema.org/draft/2020-12/schema).
[[nodiscard]] std::string json_schema();

// The tables of docs/configuration.md.
[[nodiscard]] std::string config_keys_markdown();
[[nodiscard]] std::string model_card_keys_markdown();

}  // namespace camd::config
