#include "pipeline/run/gate_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace camd::pipeline {
namespace {

// How long a built-in remembers what it does not see.
struct Memory {
  std::string_view plugin;
  const char* key;
  double seconds;  // the default, which a test compares with the manual's
};
constexpr std::array<Memory, 2> kMemories = {{{"track", "keep", 2}, {"zones", "forget", 2}}};

}  // namespace

void check_gates(const config::Config& config, Mistakes& mistakes) {
  const auto pause = [](const config::Camera& camera) {
    return camera.gate ? camera.gate->longest : base::Duration(0);
  };
  const auto slowest = std::max_element(config.cameras.begin(), config.cameras.end(),
                                        [&](const auto& a, const auto& b) { return pause(a) < pause(b); });
  if (slowest == config.cameras.end() || !slowest->gate) return;
  const double longest = std::chrono::duration<double>(pause(*slowest)).count();
  for (const config::Postprocessor& entry : config.postprocess) {
    const auto memory =
        std::find_if(kMemories.begin(), kMemories.end(), [&](const Memory& one) { return one.plugin == entry.plugin; });
    if (memory == kMemories.end()) continue;
    const nlohmann::json keys = nlohmann::json::parse(entry.config_json);
    const auto written = keys.find(memory->key);
    if (written != keys.end() && !written->is_number()) continue;  // which the plug-in tells
    const double seconds = written == keys.end() ? memory->seconds : written->get<double>();
    if (seconds >= 2 * longest) continue;
    const std::string key = fmt::format("{}.config.{}", entry.key, memory->key);
    mistakes.add(
        base::ErrorKind::kConfig, config.place_of(key),
        config.at(key, fmt::format("{} s is less than twice gate.longest of camera {}, {} s: what stands still "
                                   "would be forgotten between two looks",
                                   seconds, slowest->name, longest)));
  }
}

}  // namespace camd::pipeline
