#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "apps/camd/commands.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "config/describe.hpp"
#include "config/loader.hpp"
#include "pipeline/model_findings.hpp"
#include "pipeline/plugin_host.hpp"

namespace camd::app {

int check_command(const std::string& config, const std::vector<std::string>& overrides) {
  base::set_log_level("error");  // what the rooms log while they are looked at is in the findings
  const config::Config loaded = config::load(config, overrides);
  const std::vector<pipeline::Finding> findings = pipeline::examine_model(loaded, infer::ReportDepth::kOwnEngines);
  for (const pipeline::Finding& finding : findings) {
    if (finding.health != pipeline::Health::kBroken) continue;
    throw loaded.error(base::ErrorKind::kModel, finding.name == "detections" ? "postprocess" : "model.path",
                       finding.detail);
  }
  std::fputs(("ok\n" + pipeline::findings_text(findings)).c_str(), stdout);
  return 0;
}

int config_command(bool schema) {
  const std::string text = schema ? config::json_schema() : config::default_config_text();
  std::fputs(text.c_str(), stdout);
  if (!text.empty() && text.back() != '\n') std::fputc('\n', stdout);
  return 0;
}

int plugin_command(const std::string& path) {
  const pipeline::PluginInfo info = pipeline::inspect_plugin(path);
  fmt::print("{}: ABI version {}\nname: {}\nversion: {}\ndescription: {}\nok\n", path, info.abi_version, info.name,
             info.version, info.description);
  return 0;
}

base::Duration parse_duration(const std::string& option, const std::string& text) {
  static const std::map<std::string, double> kUnits{{"ns", 1},  {"us", 1e3},   {"ms", 1e6},
                                                    {"s", 1e9}, {"min", 6e10}, {"h", 3.6e12}};
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const auto unit = kUnits.find(end);
  constexpr double kLongest = 9e18;
  if (end == text.c_str() || unit == kUnits.end() || !(value > 0) || value * unit->second > kLongest) {
    throw base::Error(
        base::ErrorKind::kUsage,
        fmt::format("{} \"{}\": write a number above 0 with its unit, e.g. 500ms, 10s, 2min, 1h", option, text));
  }
  return base::Duration(static_cast<std::int64_t>(value * unit->second));
}

void parse_size(const std::string& option, const std::string& text, int& width, int& height) {
  constexpr int kLargest = 16384;
  int used = 0;
  if (std::sscanf(text.c_str(), "%dx%d%n", &width, &height, &used) != 2 ||
      static_cast<std::size_t>(used) != text.size() || width < 1 || height < 1 || width > kLargest ||
      height > kLargest) {
    throw base::Error(base::ErrorKind::kUsage,
                      fmt::format("{} \"{}\": write WIDTHxHEIGHT in pixels, e.g. 1280x720", option, text));
  }
}

}  // namespace camd::app
