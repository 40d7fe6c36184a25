// `camd config --schema`: the JSON Schema (config/describe.hpp).

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "config/describe.hpp"
#include "config/key_table.hpp"
#include "config/value.hpp"

namespace camd::config {
namespace {

using Json = nlohmann::ordered_json;

Json number_json(std::string_view text) {
  if (const auto whole = parse_integer(text)) return *whole;
  return parse_number(text).value();
}

// A default or example of one line, as JSON.
Json value_json(const KeyRow& row) {
  if (row.fallback.empty()) return nullptr;
  if (row.type == ValueType::kBool) return *parse_bool(row.fallback);
  if (row.type == ValueType::kInteger || row.type == ValueType::kNumber) return number_json(row.fallback);
  return row.fallback;
}

class SchemaWriter {
 public:
  explicit SchemaWriter(Table table) : table_(table) {}

  // NOLINTNEXTLINE(misc-no-recursion): as deep as the table
  [[nodiscard]] Json map(const std::string& pattern, std::string_view type) const {
    Json schema = {{"type", "object"}, {"additionalProperties", false}};
    schema["properties"] = Json::object();
    Json required = Json::array();
    for (const KeyRow* row : rows_under(table_, pattern, type)) {
      const std::string name(leaf(row->path));
      schema["properties"][name] = value(*row, type);
      if (row->required) required.push_back(name);
    }
    if (!required.empty()) schema["required"] = required;
    return schema;
  }

 private:
  // A map whose keys depend on its `type`: one alternative for each.
  // NOLINTNEXTLINE(misc-no-recursion): as deep as the table
  [[nodiscard]] Json alternatives(const KeyRow& type_row, const std::string& pattern) const {
    Json schema = {{"type", "object"}, {"required", {"type"}}};
    schema["properties"]["type"] = {{"enum", split_words(type_row.words)}};
    schema["oneOf"] = Json::array();
    for (const std::string_view type : split_words(type_row.words)) {
      Json alternative = map(pattern, type);
      alternative["title"] = type;
      alternative["properties"]["type"] = {{"const", type}, {"description", type_row.help}};
      schema["oneOf"].push_back(alternative);
    }
    return schema;
  }

  // NOLINTNEXTLINE(misc-no-recursion): as deep as the table
  [[nodiscard]] Json value(const KeyRow& row, std::string_view type) const {
    Json schema = shape(row, type);
    if (!row.help.empty()) {
      schema["description"] = row.unit.empty() ? std::string(row.help) : fmt::format("{} [{}]", row.help, row.unit);
    }
    if (!row.fallback.empty()) schema["default"] = value_json(row);
    return schema;
  }

  // NOLINTNEXTLINE(misc-no-recursion): as deep as the table
  [[nodiscard]] Json shape(const KeyRow& row, std::string_view type) const {
    switch (row.type) {
      case ValueType::kMap: return container(row, type);
      case ValueType::kList: return list(row, type);
      case ValueType::kNumberOrList: return {{"anyOf", {element(row, type), list(row, type)}}};
      case ValueType::kWordOrList: return {{"anyOf", {Json{{"enum", split_words(row.words)}}, list(row, type)}}};
      case ValueType::kWordOrMap: return {{"anyOf", {Json{{"enum", split_words(row.words)}}, container(row, type)}}};
      case ValueType::kFree: return {{"type", {"object", "null"}}};
      case ValueType::kAny: return {{"description", row.words}};
      case ValueType::kText:
      case ValueType::kFile:
      case ValueType::kPlugin: return {{"type", "string"}, {"minLength", 1}};
      case ValueType::kName: return {{"type", "string"}, {"pattern", "^[A-Za-z0-9._-]{1,64}$"}};
      case ValueType::kUrl: return {{"type", "string"}, {"pattern", "^(rtsps?://|\\$\\{)[^ ]+$"}};
      case ValueType::kAddress:
        return {{"type", "string"}, {"pattern", "^([0-9.]+|\\[[0-9a-fA-F:.]+\\]|localhost):[0-9]{1,5}$"}};
      case ValueType::kWord: return {{"enum", split_words(row.words)}};
      case ValueType::kDevice: return {{"type", "string"}, {"pattern", "^(auto|cuda|cuda:[0-9]+|host)$"}};
      case ValueType::kInteger: return bounded(row, "integer");
      case ValueType::kNumber: return bounded(row, "number");
      case ValueType::kBool: return {{"type", "boolean"}};
      case ValueType::kSize: return {{"type", "string"}, {"pattern", "^[0-9]+(\\.[0-9]+)? ?(KiB|MiB|GiB)$"}};
      case ValueType::kGrant: return grant();
      case ValueType::kDuration: return {{"type", "string"}, {"pattern", "^[0-9]+(\\.[0-9]+)? ?(ns|us|ms|s|min|h)$"}};
    }
    return Json::object();
  }

  // As text, or as files: PATH or files: [PATH, ...].
  [[nodiscard]] static Json grant() {
    const Json path = {{"type", "string"}, {"minLength", 1}};
    const Json paths = {{"anyOf", {path, Json{{"type", "array"}, {"items", path}}}}};
    return {{"anyOf",
             {Json{{"type", "string"}, {"pattern", "^(network|gpu|files: ?[^ ].*)$"}},
              Json{{"type", "object"},
                   {"properties", {{"files", paths}}},
                   {"required", {"files"}},
                   {"additionalProperties", false}}}}};
  }

  // NOLINTNEXTLINE(misc-no-recursion): as deep as the table
  [[nodiscard]] Json container(const KeyRow& row, std::string_view type) const {
    const std::string pattern(row.path);
    if (const KeyRow* type_row = find_row(table_, pattern + ".type")) return alternatives(*type_row, pattern);
    Json schema = map(pattern, type);
    if (!row.required && !pattern.ends_with("[]")) schema["type"] = {"object", "null"};
    return schema;
  }

  // NOLINTNEXTLINE(misc-no-recursion): as deep as the table
  [[nodiscard]] Json element(const KeyRow& row, std::string_view type) const {
    return value(*find_row(table_, std::string(row.path) + "[]"), type);
  }

  // NOLINTNEXTLINE(misc-no-recursion): as deep as the table
  [[nodiscard]] Json list(const KeyRow& row, std::string_view type) const {
    Json schema = {{"type", "array"}, {"items", element(row, type)}};
    if (row.min.empty() && !row.required) schema["type"] = {"array", "null"};
    if (!row.min.empty()) schema["minItems"] = number_json(row.min);
    if (!row.max.empty()) schema["maxItems"] = number_json(row.max);
    return schema;
  }

  static Json bounded(const KeyRow& row, std::string_view type) {
    Json schema = {{"type", type}};
    if (!row.min.empty()) schema["minimum"] = number_json(row.min);
    if (!row.max.empty()) schema["maximum"] = number_json(row.max);
    return schema;
  }

  Table table_;
};

}  // namespace

std::string json_schema() {
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "camd configuration"}};
  schema.update(SchemaWriter(config_keys()).map("", {}));
  return schema.dump(2) + "\n";
}

}  // namespace camd::config
