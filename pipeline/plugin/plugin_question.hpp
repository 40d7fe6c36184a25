// PluginQuestion: what a plug-in is asked about its configuration (camd.check/1), and what it answers.
//
// Threads: one at a time.
// Invariants: nothing that a plug-in says is trusted. Texts are bounded, keys and messages are made printable, and
// there are at most kMostAnswers claims and as many other answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/camd_plugin.h"

namespace camd::pipeline {

struct PluginAnswer {
  enum class Kind : std::uint8_t { kMistake, kUnknownKey, kClaim };
  Kind kind = Kind::kMistake;
  std::string key;                 // below `config:`, with dots
  std::string text;                // a mistake's message, a claim's path
  std::vector<std::string> known;  // of an unknown key: those that are read there
};

class PluginQuestion {
 public:
  static constexpr std::size_t kMostAnswers = 256;  // and as many known keys of one answer

  PluginQuestion(std::string config_json, std::string card_json, std::vector<std::string> cameras);
  PluginQuestion(const PluginQuestion&) = delete;
  PluginQuestion& operator=(const PluginQuestion&) = delete;

  // [blocks] Checks the table and asks the plug-in, where it can be asked. Throws Error(kPlugin), its line begins with
  // `prefix`.
  void ask(const camd_plugin& table, const std::string& prefix);
  // Adds an answer that came another way.
  void note(PluginAnswer answer);

  [[nodiscard]] const std::string& config_json() const noexcept { return config_json_; }
  [[nodiscard]] const std::string& card_json() const noexcept { return card_json_; }
  [[nodiscard]] const std::vector<std::string>& cameras() const noexcept { return cameras_; }
  [[nodiscard]] const std::vector<PluginAnswer>& answers() const noexcept { return answers_; }

 private:
  // `table` is the first member, so the address of one is the address of the other.
  struct Table {
    camd_check table;
    PluginQuestion* question;
  };
  static PluginQuestion& of(const camd_check* check) noexcept {
    return *reinterpret_cast<const Table*>(check)->question;
  }
  static void mistake(const camd_check* check, const char* key, const char* message);
  static void unknown_key(const camd_check* check, const char* key, const char* const* known, std::int32_t count);
  static void claim(const camd_check* check, const char* key, const char* path);

  const std::string config_json_, card_json_;
  const std::vector<std::string> cameras_;
  std::vector<PluginAnswer> answers_;
  std::size_t claims_ = 0;  // of them
};

}  // namespace camd::pipeline
