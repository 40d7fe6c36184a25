// The host's side of camd.check/1.
#include "pipeline/run/plugin_check.hpp"

#include <fmt/format.h>

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
#include "pipeline/plugin/plugin_question.hpp"
#include "pipeline/run/plugin_specs.hpp"

namespace camd::pipeline {
namespace {

using base::Error;
using base::ErrorKind;

// It lives as long as the thread that asks.
struct Asked {
  LoadedPlugin plugin;
  std::shared_ptr<PluginQuestion> question;
};

Asked ask_here(const std::string& plugin, const std::shared_ptr<PluginQuestion>& question) {
  Asked asked{load_plugin(plugin), question};
  check_table(*asked.plugin.table, plugin);
  question->ask(*asked.plugin.table, "plug-in " + plugin);
  return asked;
}

std::string text_of(const PluginAnswer& answer) {
  if (answer.kind != PluginAnswer::Kind::kUnknownKey) return answer.text;
  const std::vector<std::string_view> views(answer.known.begin(), answer.known.end());
  const std::string_view meant = config::nearest(answer.key.substr(answer.key.rfind('.') + 1), views);
  return fmt::format("unknown key; known here: {}{}", fmt::join(answer.known, ", "),
                     meant.empty() ? std::string() : fmt::format(" (did you mean {}?)", meant));
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
  const std::vector<PluginSpec> specs = plugin_specs(config);
  PluginHostOptions options;
  options.patience = patience;
  PluginMaker maker(base::system_clock(), std::move(options));
  std::map<std::string, std::string> writers;  // the key that claims a path, by the path
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const config::Postprocessor& entry = config.postprocess[i];
    const auto question = std::make_shared<PluginQuestion>(entry.config_json, config.model.card_json, cameras);
    bool asked = false;
    mistakes.collect(entry.place, [&] {
      try {
        if (specs[i].isolation.isolation == Isolation::kProcess) {
          maker.check(specs[i], *question);
          asked = true;
          return;
        }
        Aside<std::shared_ptr<Asked>> work(
            [plugin = entry.plugin, question] { return std::make_shared<Asked>(ask_here(plugin, question)); });
        if (const std::optional<std::shared_ptr<Asked>> done = work.wait_for(patience)) {
          loaded.push_back(std::move((*done)->plugin));
          asked = true;
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
    for (const PluginAnswer& answer : question->answers()) {
      const std::string key = entry.key + ".config" + (answer.key.empty() ? "" : "." + answer.key);
      if (answer.kind != PluginAnswer::Kind::kClaim) {
        const bool unknown = answer.kind == PluginAnswer::Kind::kUnknownKey;
        const auto at = reading.key_places.find(key);
        const config::SourcePlace& place =
            unknown && at != reading.key_places.end() ? at->second : config.place_of(key);
        mistakes.add(ErrorKind::kConfig, {place, key, text_of(answer)});
        continue;
      }
      const auto [at, is_new] = writers.emplace(canonical(answer.text), key);
      if (is_new || at->second == key) continue;
      mistakes.add(
          ErrorKind::kConfig,
          {config.place_of(key), key,
           base::one_line(fmt::format("{} is written by {} already, at {}: give each a path of its own", answer.text,
                                      at->second, config::to_string(config.place_of(at->second))))});
    }
  }
  return loaded;
}

}  // namespace camd::pipeline
