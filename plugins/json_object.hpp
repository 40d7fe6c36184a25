// Reads a plug-in's `config:` (a JSON object): typed values with ranges; unknown keys are errors with "did you mean".
//
// Threads: [setup].
// Invariants: readers collect problems; finish() reports them all in one line, report() each with its key. Only a
//   constructor throws at once.
//   A key that no reader asked for is unknown, so the readers are the one list of keys.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/camd_plugin.hpp"

namespace camd::plugins {

// The entry of `known` nearest to `word`, if it is near enough to be a slip of the pen.
[[nodiscard]] std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known);

// Joined by commas, for messages: "a, b, c".
[[nodiscard]] std::string joined(const std::vector<std::string>& words);

class JsonObject {
 public:
  // Throws std::invalid_argument when `text` is no JSON object. `where` begins every message, e.g. "config".
  JsonObject(std::string where, std::string_view text);
  JsonObject(std::string where, nlohmann::json object);

  [[nodiscard]] bool has(std::string_view key) const { return object_.contains(key); }
  // Each reader notes the key as known and returns nothing when the key is absent, null or wrong. What is wrong
  // is noted as a problem. numbers() and integers() refuse an empty list.
  std::optional<double> number(std::string_view key, double low, double high);
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t low, std::int64_t high);
  std::optional<bool> boolean(std::string_view key);
  std::optional<std::string> text(std::string_view key);
  std::optional<std::string> one_of(std::string_view key, const std::vector<std::string>& allowed);
  std::optional<std::vector<std::string>> texts(std::string_view key);  // a list; one text counts as a list
  std::optional<std::vector<double>> numbers(std::string_view key, double low, double high);
  std::optional<std::vector<std::int64_t>> integers(std::string_view key, std::int64_t low, std::int64_t high);
  // A text with a unit: "200ms", "30s", "5min", "1h".
  std::optional<std::chrono::milliseconds> duration(std::string_view key, std::chrono::milliseconds low,
                                                    std::chrono::milliseconds high);
  // A text with a unit: "64KiB", "16MiB", "1GiB"; bytes.
  std::optional<std::int64_t> bytes(std::string_view key, std::int64_t low, std::int64_t high);
  // The mapping under `key`, empty when it is absent. What is wrong with it is noted by absorb().
  [[nodiscard]] JsonObject object(std::string_view key);
  // Notes the problems of a mapping that object() gave, its unknown keys among them.
  void absorb(const JsonObject& child);
  // The raw value for what the readers above do not cover; nullptr when absent or null.
  const nlohmann::json* raw(std::string_view key);

  // Notes "WHERE.KEY: WHY".
  void fail(std::string_view key, const std::string& why);
  // Notes what is wrong with the map at `key` and, if `strict`, those of its keys that nobody has asked for.
  void fail(std::string_view key, const JsonObject& map, bool strict = true);
  // Throws std::invalid_argument naming everything noted and, if `strict`, every key nobody asked for.
  void finish(bool strict = true);
  // Tells camd everything noted and every key nobody asked for (camd.check/1).
  void report(const camd::plugin::Check& check) const;

 private:
  struct Unit {
    std::string_view name;
    std::int64_t factor = 1;
  };
  std::optional<std::int64_t> measured(std::string_view key, std::span<const Unit> units, std::int64_t low,
                                       std::int64_t high, std::string_view what);
  struct Problem {
    std::string key;
    std::string why;
    std::vector<std::string> known;  // of a key nobody asked for: the keys beside it; then `why` is empty
  };
  // What was noted and, if `strict`, each key nobody asked for.
  [[nodiscard]] std::vector<Problem> problems(bool strict) const;

  std::string where_;
  nlohmann::json object_;
  std::vector<std::string> known_;
  std::vector<Problem> problems_;
};

// What `read` makes of a plug-in's configuration. Throws std::invalid_argument with all that is wrong with it.
template <class Read>
[[nodiscard]] auto read_config(std::string_view config_json, Read&& read) {
  JsonObject config("config", config_json);
  auto options = read(config);
  config.finish();
  return options;
}

// Tells camd what is wrong with it (camd.check/1).
template <class Read>
void check_config(const camd::plugin::Check& check, Read&& read) {
  JsonObject config("config", check.config_json());
  static_cast<void>(read(config));
  config.report(check);
}

}  // namespace camd::plugins
