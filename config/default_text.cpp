// `camd config`: the annotated default configuration (config/describe.hpp).

#include <fmt/format.h>

#include <string>

#include "config/describe.hpp"
#include "config/key_table.hpp"

namespace camd::config {
namespace {

constexpr std::size_t kWidth = 100;  // of a comment line

constexpr std::string_view kHead =
    "# The configuration of camd: every key, with its default or an example; what is commented out has no default.\n"
    "# Relative paths count from this file's folder (paths inside a plug-in's config: from the working directory).\n"
    "# Durations carry units: ns us ms s min h. `camd check FILE` says what is wrong with a file.\n";

// The plug-ins that the main job uses; what their keys mean stands in docs/plugins.md.
constexpr std::string_view kPostprocess =
    "  - plugin: detections\n"
    "    config: {score: 0.5, nms: 0.4}    # completed from the model card\n"
    "  - plugin: jsonl\n"
    "    config: {path: out/detections.jsonl}\n";

void add_comment(std::string& text, const std::string& indent, std::string_view comment) {
  std::string line = indent + "#";
  while (!comment.empty()) {
    const auto space = comment.find(' ');
    const std::string_view word = comment.substr(0, space);
    if (line.size() + 1 + word.size() > kWidth) {
      text += line + "\n";
      line = indent + "#";
    }
    line += fmt::format(" {}", word);
    comment = space == std::string_view::npos ? std::string_view() : comment.substr(space + 1);
  }
  text += line + "\n";
}

std::string_view shown(const KeyRow& row) { return row.fallback.empty() ? row.example : row.fallback; }

bool is_container(const KeyRow& row) { return row.type == ValueType::kMap; }

void add_scalar(std::string& text, const std::string& indent, const KeyRow& row) {
  const bool without_default = row.fallback.empty() && !row.required;
  add_comment(text, indent,
              fmt::format("{} [{}{}]", row.help, row.required ? "required: " : "", allowed(config_keys(), row)));
  text += fmt::format("{}{}{}: {}\n", indent, without_default ? "# " : "", leaf(row.path), shown(row));
}

// "{type: rtsp, url: ..., reconnect: {initial: 500ms, max: 1500ms}}"
// NOLINTNEXTLINE(misc-no-recursion): as deep as the table
std::string flow(const std::string& pattern, std::string_view type) {
  std::string text = "{";
  for (const KeyRow* row : rows_under(config_keys(), pattern, type)) {
    if (text.size() > 1) text += ", ";
    const std::string_view name = leaf(row->path);
    text += fmt::format("{}: ", name);
    if (is_container(*row)) {
      text += flow(std::string(row->path), type);
    } else {
      text += name == "type" ? type : shown(*row);
    }
  }
  return text + "}";
}

void add_source(std::string& text, const std::string& indent) {
  const KeyRow& type_row = *find_row(config_keys(), "cameras[].source.type");
  for (const KeyRow* row : rows_under(config_keys(), "cameras[].source", type_row.example))
    add_scalar(text, indent, *row);
  const std::string outer = indent.substr(2);
  text += fmt::format("{}# The other types, with their defaults or examples:\n", outer);
  for (const std::string_view type : split_words(type_row.words)) {
    if (type != type_row.example) text += fmt::format("{}# source: {}\n", outer, flow("cameras[].source", type));
  }
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the table
void add_map(std::string& text, const std::string& indent, const std::string& pattern) {
  for (const KeyRow* row : rows_under(config_keys(), pattern, {})) {
    if (indent.empty()) text += "\n";
    if (row->path == "postprocess") {
      add_comment(text, indent, row->help);
      text += fmt::format("{}postprocess:\n{}", indent, kPostprocess);
    } else if (row->path == "cameras") {
      add_comment(text, indent, fmt::format("{} Each has a name and a source.", row->help));
      std::string camera;
      add_map(camera, indent + "    ", "cameras[]");
      const auto name = camera.find("\n" + indent + "    name:");
      camera.replace(name + indent.size() + 3, 1, "-");
      text += fmt::format("{}cameras:\n{}", indent, camera);
    } else if (row->path == "cameras[].source") {
      add_comment(text, indent, row->help);
      text += fmt::format("{}source:\n", indent);
      add_source(text, indent + "  ");
    } else if (is_container(*row)) {
      add_comment(text, indent, row->help);
      text += fmt::format("{}{}:\n", indent, leaf(row->path));
      add_map(text, indent + "  ", std::string(row->path));
    } else {
      add_scalar(text, indent, *row);
      if (row->type != ValueType::kWordOrMap) continue;
      text += fmt::format("{}# {}: {}\n", indent, leaf(row->path), flow(std::string(row->path), {}));
    }
  }
}

}  // namespace

std::string default_config_text() {
  std::string text(kHead);
  add_map(text, "", "");
  return text;
}

}  // namespace camd::config
