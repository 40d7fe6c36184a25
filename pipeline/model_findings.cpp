#include "pipeline/model_findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "device/make_device.hpp"
#include "pipeline/plain_model.hpp"
#include "pipeline/plugin_host.hpp"
#include "pipeline/session.hpp"
#include "plugins/builtin.hpp"

namespace camd::pipeline {
namespace {

constexpr const char* kArea = "model";

std::string described(const infer::TensorSpec& spec) {
  return fmt::format("{} {}", infer::to_string(spec.type), infer::to_string(spec.shape));
}

// Whether the configuration can come to run this engine.
bool is_eligible(const config::Config& config, const std::string& engine) {
  using config::EngineChoice;
  switch (config.model.engine) {
    case EngineChoice::kAuto: break;
    case EngineChoice::kCuda: return engine == "cuda";
    case EngineChoice::kCpu: return engine == "cpu";
    case EngineChoice::kOpencv: return engine == "opencv";
  }
  const bool on_gpu = config.device.kind == config::DeviceKind::kCuda ||
                      (config.device.kind == config::DeviceKind::kAuto && device::count_gpus().count > 0);
  return on_gpu == (engine == "cuda");
}

void add_engines(const config::Config& config, const infer::ModelReport& report, std::vector<Finding>& findings) {
  const auto usable = [&](const infer::EngineReport& e) { return e.runs && is_eligible(config, e.engine); };
  const bool any = std::any_of(report.engines.begin(), report.engines.end(), usable);
  for (const infer::EngineReport& engine : report.engines) {
    const bool missed = !any && is_eligible(config, engine.engine);
    findings.push_back({kArea, "engine " + engine.engine,
                        engine.runs ? Health::kOk
                        : missed    ? Health::kBroken
                                    : Health::kAbsent,
                        (engine.runs ? "runs it: " : "cannot run it: ") + engine.detail, ""});
  }
}

void add_layout(const config::Config& config, const infer::ModelReport& report, std::vector<Finding>& findings) {
  const std::string path = config.model.path.string();
  const std::vector<std::string> names = {"camera"};
  const PlainModel plain(report.input, report.outputs, path, config.model.card_json, names);
  for (const config::Postprocessor& entry : config.postprocess) {
    if (entry.plugin != "detections") continue;
    try {
      PluginHost plugins({{entry.plugin, entry.config_json, ""}}, base::system_clock());
      plugins.declare(plain.model());
      findings.push_back({kArea, "detections", Health::kOk, "reads its outputs as configured", ""});
    } catch (const base::Error& error) {
      findings.push_back({kArea, "detections", Health::kBroken, error.what(), ""});
    }
    return;
  }
  std::vector<std::string> layouts;
  try {
    layouts = plugins::suggest_layouts(plain.model(), "{}");
  } catch (const std::invalid_argument&) {
    layouts.clear();  // the card's own mistakes are told to those who use it
  }
  if (layouts.empty()) {
    findings.push_back({kArea, "detections", Health::kAbsent, "the outputs look like no layout that camd knows", ""});
  } else {
    findings.push_back({kArea, "detections", Health::kOk,
                        fmt::format("the outputs look like layout {}", fmt::join(layouts, ", ")), ""});
  }
}

}  // namespace

std::vector<Finding> examine_model(const config::Config& config, infer::ReportDepth depth) {
  std::vector<Finding> findings;
  const std::string path = config.model.path.string();
  try {
    const auto host = device::make_device("host");
    const infer::ModelReport report = infer::report_model(path, engine_options(config.model), *host, depth);
    const infer::ModelDescription& model = report.model;
    findings.push_back(
        {kArea, "file", Health::kOk,
         fmt::format(
             "{}: ONNX IR {}, opset {}, {} parameters{}", path, model.ir_version, model.opset, model.parameter_count,
             report.multiply_adds > 0
                 ? fmt::format(", {:.3g} million multiply-adds", static_cast<double>(report.multiply_adds) / 1e6)
                 : ""),
         ""});
    findings.push_back({kArea, "input " + model.inputs[0].name, Health::kOk,
                        report.input.shape == model.inputs[0].shape
                            ? described(report.input)
                            : fmt::format("{}, declared {}", described(report.input), described(model.inputs[0])),
                        ""});
    for (const infer::TensorSpec& output : report.outputs) {
      findings.push_back({kArea, "output " + output.name, Health::kOk, described(output), ""});
    }
    std::vector<std::string> operators;
    for (const infer::OperatorUse& use : model.operators)
      operators.push_back(fmt::format("{} x{}", use.type, use.count));
    findings.push_back({kArea, "operators", report.foreign.empty() ? Health::kOk : Health::kAbsent,
                        fmt::format("{}{}", fmt::join(operators, ", "),
                                    report.foreign.empty() ? ""
                                                           : fmt::format("; camd's own engines do not have {}",
                                                                         fmt::join(report.foreign, ", "))),
                        ""});
    add_engines(config, report, findings);
    add_layout(config, report, findings);
  } catch (const base::Error& error) {
    findings.push_back({kArea, "file", Health::kBroken, error.what(), ""});
  }
  return findings;
}

}  // namespace camd::pipeline
