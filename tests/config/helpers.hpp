// What the tests of config share: texts in, problem lines out.
#pragma once

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "config/loader.hpp"

namespace camd::config {

// What a plug-in might read from a model card, in rows of each kind. Holds the keys of models/marker.yaml, which is the
// card of the default configuration where the tests run in the repository.
inline Table card_keys() {
  static const std::vector<KeyRow> rows = [] {
    std::vector<KeyRow> all(model_card_keys().begin(), model_card_keys().end());
    all.push_back({.path = "layout", .type = ValueType::kText});
    all.push_back({.path = "classes", .type = ValueType::kAny, .words = "a list of names"});
    all.push_back({.path = "classes[]", .type = ValueType::kText});
    for (const std::string_view number : {"score", "nms", "blend", "anchor_offset"})
      all.push_back({.path = number, .type = ValueType::kNumber, .min = "0", .max = "1"});
    all.push_back({.path = "strides", .type = ValueType::kList, .min = "1", .max = "16"});
    all.push_back({.path = "strides[]", .type = ValueType::kInteger, .min = "1", .max = "1024"});
    all.push_back({.path = "anchors", .type = ValueType::kAny, .words = "lists", .same_length_as = "strides"});
    all.push_back({.path = "variances", .type = ValueType::kList, .min = "2", .max = "2"});
    all.push_back({.path = "variances[]", .type = ValueType::kNumber});
    all.push_back({.path = "keypoints", .type = ValueType::kInteger});
    return all;
  }();
  return rows;
}

inline const LoadOptions kNoFiles{.check_files = false, .card_keys = card_keys()};

// The smallest configuration.
inline constexpr std::string_view kSmallest =
    "model: {path: m.onnx}\n"
    "cameras:\n"
    "  - name: door\n"
    "    source: {type: test}\n";

inline Config load_yaml(std::string_view text, const std::vector<std::string>& overrides = {}) {
  return load_text("c.yaml", text, overrides, kNoFiles);
}

// The lines that refuse the text; empty when it loads.
inline std::vector<std::string> problems_of(std::string_view text, const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> lines;
  try {
    (void)load_yaml(text, overrides);
  } catch (const ConfigErrors& errors) {
    for (const Problem& problem : errors.problems()) lines.push_back(problem.line());
  }
  return lines;
}

// The smallest configuration with one line more at its end.
inline std::vector<std::string> problems_with(std::string_view lines) {
  return problems_of(std::string(kSmallest) + std::string(lines));
}

// The smallest configuration with another source.
inline std::string with_source(std::string_view source) {
  return "model: {path: m.onnx}\ncameras:\n  - name: door\n    source: " + std::string(source) + "\n";
}

inline void write_file(const std::filesystem::path& path, std::string_view text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string repeated(std::string_view text, std::size_t count) {
  std::string result;
  for (std::size_t i = 0; i < count; ++i) result += text;
  return result;
}

}  // namespace camd::config
