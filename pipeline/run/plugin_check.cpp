// The host's side of camd.check/1.
#include "pipeline/run/plugin_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "config/suggest.hpp"

namespace camd::pipeline {
namespace {

using base::Error;
using base::ErrorKind;

constexpr std::size_t kMostAnswers = 256;  // of one plug-in, and as many known keys of one answer
constexpr std::size_t kLongestKey = 256;

// One thing that a plug-in said.
struct Answer {
  std::string key;  // below `config:`
  std::string text;
  bool unknown = false;  // a key that is not read
};

// What one plug-in is asked, and what it answers. It lives as long as the thread that asks.
struct Question {
  // `table` is the first member, so the address of one is the address of the other.
  struct Table {
    camd_check table;
    Question* question;
  };

  Question(std::string config, std::string card, std::vector<std::string> cameras)
      : config_json(std::move(config)), card_json(std::move(card)), camera_names(std::move(cameras)) {
    for (const std::string& name : camera_names) names.push_back(name.c_str());
    asked = {{sizeof(camd_check), config_json.c_str(), card_json.c_str(), static_cast<std::int32_t>(names.size()),
              names.data(), &mistake, &unknown_key, &claim},
             this};
  }
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;
  ~Question() = default;

  static Question& of(const camd_check* check) noexcept { return *reinterpret_cast<const Table*>(check)->question; }
  static std::string text_of(const char* text, std::size_t longest) {
    return text == nullptr ? std::string() : base::one_line(std::string_view(text, strnlen(text, longest)));
  }
  static void mistake(const camd_check* check, const char* key, const char* message) {
    of(check).note({text_of(key, kLongestKey), text_of(message, CAMD_ERROR_BYTES), false});
  }
  static void unknown_key(const camd_check* check, const char* key, const char* const* known, std::int32_t count) {
    std::vector<std::string> words;
    if (known == nullptr) count = 0;
    for (std::int32_t i = 0; i < std::min(count, static_cast<std::int32_t>(kMostAnswers)); ++i) {
      words.push_back(text_of(known[i], kLongestKey));
    }
    const std::vector<std::string_view> views(words.begin(), words.end());
    const std::string name = text_of(key, kLongestKey);
    const std::string_view meant = config::nearest(name.substr(name.rfind('.') + 1), views);
    of(check).note({name,
                    fmt::format("unknown key; known here: {}{}", fmt::join(words, ", "),
                                meant.empty() ? std::string() : fmt::format(" (did you mean {}?)", meant)),
                    true});
  }
  static void claim(const camd_check* check, const char* key, const char* path) {
    if (path == nullptr || of(check).claims.size() == kMostAnswers) return;
    of(check).claims.push_back({text_of(key, kLongestKey), path, false});
  }
  void note(Answer answer) {
    if (answers.size() < kMostAnswers) answers.push_back(std::move(answer));
  }

  const std::string config_json, card_json;
  const std::vector<std::string> camera_names;
  std::vector<const char*> names;
  Table asked{};
  std::vector<Answer> answers, claims;
};

struct Asked {
  LoadedPlugin plugin;
  std::shared_ptr<Question> question;
};

Asked ask(const std::string& plugin, const std::shared_ptr<Question>& question) {
  const std::string prefix = "plug-in " + plugin;
  Asked asked{load_plugin(plugin), question};
  check_table(*asked.plugin.table, plugin);
  const auto* const checker =
      functions_of(*asked.plugin.table, prefix, CAMD_EXTENSION_CHECK, &camd_plugin_check::check);
  if (checker == nullptr) return asked;
  camd_error error = no_error();
  if (guarded(error, [&] { return checker->check(&question->asked.table, &error); }) != CAMD_OK) {
    throw Error(ErrorKind::kPlugin, fmt::format("{}: check(): {}", prefix, message_of(error)));
  }
  return asked;
}

// One name for a path, however it is spelled. What is not there yet counts from what is.
std::string canonical(const std::string& path) {
  std::error_code error;
  const std::filesystem::path found = std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  return error ? std::filesystem::path(path).lexically_normal().string() : found.string();
}

}  // namespace

std::vector<LoadedPlugin> check_plugins(const config::Reading& reading, const Patience& patience, Mistakes& mistakes) {
  const config::Config& config = reading.config;
  std::vector<LoadedPlugin> loaded;
  std::vector<std::string> cameras;
  for (const config::Camera& camera : config.cameras) cameras.push_back(camera.name);
  std::map<std::string, std::string> writers;  // the key that claims a path, by the path
  for (const config::Postprocessor& entry : config.postprocess) {
    // Its library is for its own process alone: what is wrong with its keys is known when that makes the instance.
    if (entry.isolation == config::Isolation::kProcess) continue;
    const auto question = std::make_shared<Question>(entry.config_json, config.model.card_json, cameras);
    std::optional<Asked> asked;
    mistakes.collect(entry.place, [&] {
      try {
        Aside<std::shared_ptr<Asked>> work(
            [plugin = entry.plugin, question] { return std::make_shared<Asked>(ask(plugin, question)); });
        if (std::optional<std::shared_ptr<Asked>> done = work.wait_for(patience)) {
          asked = std::move(**done);
          return;
        }
      } catch (const Error& error) {
        throw Error(error.kind(), config::located(entry.place, entry.key, error.what()));
      }
      throw Error(ErrorKind::kPlugin,
                  config::located(entry.place, entry.key,
                                  fmt::format("plug-in {}: hangs in check(), or while its library is loaded: it is "
                                              "left behind",
                                              entry.plugin)));
    });
    if (!asked) continue;
    loaded.push_back(std::move(asked->plugin));
    const auto key_of = [&entry](const Answer& answer) {
      return entry.key + ".config" + (answer.key.empty() ? "" : "." + answer.key);
    };
    for (const Answer& answer : asked->question->answers) {
      const std::string key = key_of(answer);
      const auto at = reading.key_places.find(key);
      const config::SourcePlace& place =
          answer.unknown && at != reading.key_places.end() ? at->second : config.place_of(key);
      mistakes.add(ErrorKind::kConfig, {place, key, answer.text});
    }
    for (const Answer& claim : asked->question->claims) {
      const std::string key = key_of(claim);
      const auto [at, is_new] = writers.emplace(canonical(claim.text), key);
      if (is_new || at->second == key) continue;
      mistakes.add(
          ErrorKind::kConfig,
          {config.place_of(key), key,
           base::one_line(fmt::format("{} is written by {} already, at {}: give each a path of its own", claim.text,
                                      at->second, config::to_string(config.place_of(at->second))))});
    }
  }
  return loaded;
}

}  // namespace camd::pipeline
