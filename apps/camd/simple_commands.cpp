// camd check, config and plugin, and the parts of the command line that have a syntax of their own.

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "apps/camd/commands.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "config/describe.hpp"
#include "config/loader.hpp"
#include "config/value.hpp"
#include "pipeline/diagnose/model_findings.hpp"
#include "pipeline/diagnose/plugin_trial.hpp"
#include "pipeline/run/card_keys.hpp"
#include "pipeline/run/config_check.hpp"
#include "pipeline/run/mistakes.hpp"
#include "pipeline/run/plugin_host.hpp"
#include "pipeline/run/proposal.hpp"

namespace camd::app {

config::Reading read_shard(const std::string& path, const std::vector<std::string>& overrides,
                           const config::Shard& shard) {
  config::Reading reading = config::read(path, overrides, {.card_keys = pipeline::card_keys()});
  if (shard.count > 1) config::keep_shard(reading, shard);
  return reading;
}

int check_command(const std::string& config, const std::vector<std::string>& overrides, const config::Shard& shard) {
  base::set_log_level("error");  // what the rooms log while they are looked at is in the findings
  config::Reading reading = read_shard(config, overrides, shard);
  pipeline::Proposer proposer;
  const std::optional<pipeline::Proposal> decided = proposer.complete(reading.config);
  pipeline::Mistakes mistakes(reading.config.file.file);
  const std::vector<pipeline::LoadedPlugin> loaded = pipeline::check_config(reading, {}, mistakes);
  std::vector<pipeline::Finding> findings;
  if (!reading.config.model.path.empty()) {
    findings = pipeline::examine_model(reading.config, infer::ReportDepth::kOwnEngines);
  }
  const bool keys_are_right = mistakes.empty();
  for (const pipeline::Finding& finding : findings) {
    if (finding.health != pipeline::Health::kBroken) continue;
    const bool of_plugin = finding.name == "detections";
    if (of_plugin && !keys_are_right) continue;  // its keys are told already
    const bool of_limits = finding.name == "memory";
    const char* const key = of_plugin ? "postprocess" : of_limits ? "cameras" : "model.path";
    mistakes.add(of_limits ? base::ErrorKind::kConfig : base::ErrorKind::kModel,
                 {reading.config.place_of(key), key,
                  // The plug-in knows shapes alone, and what it names may be what the values speak against.
                  of_plugin && !proposer.refused().empty() ? proposer.refused() : finding.detail});
  }
  mistakes.raise();
  std::string of_shard;
  if (shard.count > 1) {
    std::string names;
    for (const config::Camera& camera : reading.config.cameras) names += (names.empty() ? "" : ", ") + camera.name;
    if (names.empty()) names = "it waits for those that a reload brings";
    of_shard = fmt::format("shard {}/{} has {} of {} cameras: {}\n", shard.index, shard.count,
                           reading.config.cameras.size(), reading.config.cameras_in_file, names);
  }
  std::fputs(("ok\n" + of_shard + pipeline::findings_text(findings)).c_str(), stdout);
  if (decided) {
    fmt::print("the model has no card, and this was decided for it:\n");
    for (const std::string& reason : decided->reasons) fmt::print("  {}\n", reason);
    fmt::print("`camd config --for {}` prints it as a card\n", reading.config.model.path.string());
  }
  return 0;
}

int proposal_command(const std::string& model) {
  base::set_log_level("error");
  config::Model named;
  named.path = model;
  const pipeline::Proposal proposal = pipeline::propose_card(named);
  if (proposal.card.empty()) throw base::Error(base::ErrorKind::kModel, proposal.refused);
  fmt::print("# Model card of {}: save it as {}.\n", model,
             std::filesystem::path(model).replace_extension(".yaml").filename().string());
  for (const std::string& reason : proposal.reasons) fmt::print("# {}.\n", reason);
  std::fputs(proposal.card.c_str(), stdout);
  if (proposal.width > 0 || proposal.height > 0) {
    std::string sides;
    for (const auto& [key, side] : {std::pair{"width", proposal.width}, {"height", proposal.height}}) {
      if (side > 0) sides += fmt::format("{}{}: {}", sides.empty() ? "" : ", ", key, side);
    }
    fmt::print("# And in the configuration: model: {{path: {}, input: {{{}}}}}\n", model, sides);
  }
  return 0;
}

int config_command(bool schema) {
  const std::string text = schema ? config::json_schema() : config::default_config_text();
  std::fputs(text.c_str(), stdout);
  if (!text.empty() && text.back() != '\n') std::fputc('\n', stdout);
  return 0;
}

int plugin_command(const std::string& path, const std::string& python) {
  const auto tried = [&] {
    const pipeline::PluginTrial trial = pipeline::try_plugin(path, "{}", python);
    fmt::print("in a process of its own: {}\nreads: {}\n{}\n", trial.confinement, trial.needs, trial.outcome);
    return trial.good;
  };
  if (pipeline::is_python(path)) {
    const bool good = tried();
    if (good) fmt::print("ok\n");
    return good ? 0 : base::exit_code(base::ErrorKind::kPlugin);
  }
  const pipeline::PluginInfo info = pipeline::inspect_plugin(path);
  fmt::print("{}: ABI version {}\nname: {}\nversion: {}\ndescription: {}\nextensions: {}\nok\n", path, info.abi_version,
             info.name, info.version, info.description,
             info.extensions.empty() ? "none" : fmt::format("{}", fmt::join(info.extensions, ", ")));
  return 0;
}

int replay_command(const pipeline::ReplayOptions& options) {
  const std::uint64_t failed = pipeline::replay_plugin(options, [](std::string_view line) {
    std::fwrite(line.data(), 1, line.size(), stdout);
    std::fputc('\n', stdout);
  });
  return failed == 0 ? 0 : base::exit_code(base::ErrorKind::kPlugin);
}

base::Duration parse_duration(const std::string& option, const std::string& text) {
  const std::optional<base::Duration> duration = config::parse_duration(text);
  if (!duration || duration->count() == 0) {
    throw base::Error(
        base::ErrorKind::kUsage,
        fmt::format("{} \"{}\": write a number above 0 with its unit, e.g. 500ms, 10s, 2min, 1h", option, text));
  }
  return *duration;
}

config::Shard parse_shard(const std::string& option, const std::string& text) {
  const std::optional<config::Shard> shard = config::parse_shard(text);
  if (!shard) {
    throw base::Error(base::ErrorKind::kUsage,
                      fmt::format("{} \"{}\": write i/n, such as 0/3, with i from 0 to n - 1 and n from 1 to {}",
                                  option, text, config::kMostShards));
  }
  return *shard;
}

void parse_size(const std::string& option, const std::string& text, int& width, int& height) {
  constexpr int kLargest = 16384;
  int used = 0;
  // NOLINTNEXTLINE(cert-err34-c): the range is checked
  if (std::sscanf(text.c_str(), "%dx%d%n", &width, &height, &used) != 2 ||
      static_cast<std::size_t>(used) != text.size() || width < 1 || height < 1 || width > kLargest ||
      height > kLargest) {
    throw base::Error(base::ErrorKind::kUsage,
                      fmt::format("{} \"{}\": write WIDTHxHEIGHT in pixels, e.g. 1280x720", option, text));
  }
}

}  // namespace camd::app
