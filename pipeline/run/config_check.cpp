#include "pipeline/run/config_check.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "capture/frame_source.hpp"
#include "device/host_device.hpp"
#include "infer/model_report.hpp"
#include "pipeline/run/gate_check.hpp"
#include "pipeline/run/limits.hpp"
#include "pipeline/run/plugin_check.hpp"
#include "pipeline/run/session.hpp"

namespace camd::pipeline {

std::vector<LoadedPlugin> check_config(const config::Reading& reading, const Patience& patience, Mistakes& mistakes) {
  for (const config::Problem& problem : reading.problems) mistakes.add(base::ErrorKind::kConfig, problem);
  for (const config::Camera& camera : reading.config.cameras) {
    mistakes.collect(camera.place, [&camera] { capture::check_source(camera); });
  }
  check_gates(reading.config, mistakes);
  std::vector<LoadedPlugin> loaded = check_plugins(reading, patience, mistakes);
  if (reading.problems.empty()) {
    mistakes.collect(reading.config.place_of("cameras"), [&] { check_limits(reading.config); });
  }
  return loaded;
}

std::optional<infer::ModelReport> check_model(const config::Config& config, Mistakes& mistakes) {
  std::optional<infer::ModelReport> report;
  if (config.model.path.empty()) return report;  // what is wrong with its settings is told
  mistakes.collect(config.place_of("model.path"), [&] {
    try {
      const auto host = device::make_host_device(base::system_clock());
      report = infer::report_model(config.model.path.string(), engine_options(config.model), *host,
                                   infer::ReportDepth::kOwnEngines);
    } catch (const base::Error& error) {
      throw config.error(error.kind(), "model.path", error.what());
    }
  });
  return report;
}

}  // namespace camd::pipeline
