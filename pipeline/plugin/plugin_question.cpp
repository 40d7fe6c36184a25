#include "pipeline/plugin/plugin_question.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "pipeline/plugin/plugin_calls.hpp"

namespace camd::pipeline {
namespace {

constexpr std::size_t kLongestKey = 256;

// Looked at no further than it may be long.
std::string text_of(const char* text, std::size_t longest) {
  return text == nullptr ? std::string() : std::string(text, strnlen(text, longest));
}

std::string printable(const std::string& text, std::size_t longest) {
  return base::one_line(std::string_view(text).substr(0, longest));
}

}  // namespace

PluginQuestion::PluginQuestion(std::string config_json, std::string card_json, std::vector<std::string> cameras)
    : config_json_(std::move(config_json)), card_json_(std::move(card_json)), cameras_(std::move(cameras)) {}

void PluginQuestion::ask(const camd_plugin& table, const std::string& prefix) {
  const auto* const checker = functions_of(table, prefix, CAMD_EXTENSION_CHECK, &camd_plugin_check::check);
  if (checker == nullptr) return;
  std::vector<const char*> names;
  for (const std::string& name : cameras_) names.push_back(name.c_str());
  const Table asked{{sizeof(camd_check), config_json_.c_str(), card_json_.c_str(),
                     static_cast<std::int32_t>(names.size()), names.data(), &mistake, &unknown_key, &claim},
                    this};
  camd_error error = no_error();
  if (guarded(error, [&] { return checker->check(&asked.table, &error); }) != CAMD_OK) {
    throw base::Error(base::ErrorKind::kPlugin, fmt::format("{}: check(): {}", prefix, message_of(error)));
  }
}

void PluginQuestion::note(PluginAnswer answer) {
  const bool is_claim = answer.kind == PluginAnswer::Kind::kClaim;
  if ((is_claim ? claims_ : answers_.size() - claims_) == kMostAnswers) return;
  answer.key = printable(answer.key, kLongestKey);
  if (!is_claim) answer.text = printable(answer.text, CAMD_ERROR_BYTES);
  answer.text.resize(std::min<std::size_t>(answer.text.size(), PATH_MAX));
  answer.known.resize(std::min(answer.known.size(), kMostAnswers));
  for (std::string& known : answer.known) known = printable(known, kLongestKey);
  answers_.push_back(std::move(answer));
  if (is_claim) ++claims_;
}

void PluginQuestion::mistake(const camd_check* check, const char* key, const char* message) {
  of(check).note({PluginAnswer::Kind::kMistake, text_of(key, kLongestKey), text_of(message, CAMD_ERROR_BYTES), {}});
}

void PluginQuestion::unknown_key(const camd_check* check, const char* key, const char* const* known,
                                 std::int32_t count) {
  PluginAnswer answer{PluginAnswer::Kind::kUnknownKey, text_of(key, kLongestKey), {}, {}};
  const auto most = static_cast<std::int32_t>(kMostAnswers);
  for (std::int32_t i = 0; known != nullptr && i < std::min(count, most); ++i) {
    answer.known.push_back(text_of(known[i], kLongestKey));
  }
  of(check).note(std::move(answer));
}

void PluginQuestion::claim(const camd_check* check, const char* key, const char* path) {
  if (path == nullptr) return;
  of(check).note({PluginAnswer::Kind::kClaim, text_of(key, kLongestKey), text_of(path, PATH_MAX), {}});
}

}  // namespace camd::pipeline
