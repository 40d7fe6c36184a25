#include "pipeline/run/plugin_specs.hpp"

#include <string_view>

#include "config/value.hpp"

namespace camd::pipeline {

std::vector<PluginSpec> plugin_specs(const config::Config& config) {
  std::vector<PluginSpec> specs;
  for (const config::Postprocessor& entry : config.postprocess) {
    specs.push_back({entry.plugin, entry.config_json, config::located(entry.place, entry.key, "")});
    specs.back().for_each_camera = entry.instances == config::Instances::kCamera;
    IsolationSpec& isolation = specs.back().isolation;
    if (entry.isolation == config::Isolation::kProcess) {
      isolation.isolation = Isolation::kProcess;
      isolation.worker = entry.worker;
      isolation.deadline = entry.deadline;
      isolation.memory_bytes = static_cast<std::uint64_t>(entry.memory_bytes);
      isolation.python = entry.python;
      isolation.nice = static_cast<int>(entry.nice);
      switch (entry.on_failure) {
        case config::OnFailure::kDropFrames: break;
        case config::OnFailure::kPassThrough: isolation.on_failure = OnFailure::kPassThrough; break;
        case config::OnFailure::kStop: isolation.on_failure = OnFailure::kStop; break;
      }
      for (const std::string& grant : entry.allow) {
        const std::string_view path = config::granted_path(grant);
        if (grant == "gpu") {
          isolation.gpu = true;
        } else if (path.empty()) {
          isolation.network = true;
        } else {
          isolation.files.emplace_back(path);
        }
      }
    }
    // located() ends with ": " and an empty message.
    while (!specs.back().where.empty() && (specs.back().where.back() == ' ' || specs.back().where.back() == ':')) {
      specs.back().where.pop_back();
    }
  }
  return specs;
}

}  // namespace camd::pipeline
