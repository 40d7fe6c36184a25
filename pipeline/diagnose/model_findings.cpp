// Reads a model, prepares it for each engine and reports what came of it.
#include "pipeline/diagnose/model_findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "device/host_device.hpp"
#include "device/make_device.hpp"
#include "infer/onnx/input.hpp"
#include "pipeline/run/cut_advice.hpp"
#include "pipeline/run/layout_check.hpp"
#include "pipeline/run/limits.hpp"
#include "pipeline/run/plain_model.hpp"
#include "pipeline/run/plugin_host.hpp"
#include "pipeline/run/session.hpp"
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

// Why the engine does not fit beside the cameras. A GPU's own memory is looked at when the engine is made.
std::string memory_problem(const config::Config& config, const infer::ModelReport& report) {
  device::DeviceInfo info;
  info.works_in_host_memory = !is_eligible(config, "cuda");
  if (!info.works_in_host_memory) info.default_depth = 2;
  const infer::EngineMemory memory = engine_memory(config.model, report, info);
  return lane_problem(config, lane_cost(memory, config.cameras.size(), info), {process_limits(), {}, {}});
}

void add_engines(const config::Config& config, const infer::ModelReport& report, std::vector<Finding>& findings) {
  const auto usable = [&](const infer::EngineReport& e) { return e.runs && is_eligible(config, e.engine); };
  const bool any = std::any_of(report.engines.begin(), report.engines.end(), usable);
  if (const std::string problem = memory_problem(config, report); !problem.empty()) {
    findings.push_back({kArea, "memory", Health::kBroken, problem, ""});
  }
  bool advised = false;
  std::string advice;
  for (const infer::EngineReport& engine : report.engines) {
    const bool missed = !any && is_eligible(config, engine.engine);
    if (missed && !advised) advice = cut_advice(config, engine_options(config.model));
    advised = advised || missed;
    findings.push_back({kArea, "engine " + engine.engine,
                        engine.runs ? Health::kOk
                        : missed    ? Health::kBroken
                                    : Health::kAbsent,
                        (engine.runs ? "runs it: " : "cannot run it: ") + engine.detail + (missed ? advice : ""), ""});
  }
}

// The model ready to run on this machine's host, or null when no engine of the host runs it.
std::unique_ptr<infer::Engine> host_engine(const config::Config& config, device::Device& host) {
  infer::EngineOptions options = engine_options(config.model);
  options.kind = infer::EngineKind::kAuto;
  try {
    return infer::make_engine(config.model.path.string(), options, host);
  } catch (const base::Error&) {
    return nullptr;  // add_engines() says why
  }
}

// How the configured `detections` reads the outputs.
void add_configured_layouts(const config::Config& config, const camd_model& model, device::Device& host,
                            infer::Engine* engine, std::vector<Finding>& findings) {
  const std::size_t before = findings.size();
  for (const config::Postprocessor& entry : config.postprocess) {
    if (entry.plugin != "detections") continue;
    try {
      PluginHost plugins({{entry.plugin, entry.config_json, ""}}, base::system_clock());
      plugins.declare(model);
    } catch (const base::Error& error) {
      findings.push_back({kArea, "detections", Health::kBroken, error.what(), ""});
    }
  }
  if (findings.size() > before) return;
  if (engine != nullptr) {
    for (const LayoutDoubt& doubt : doubtful_layouts(config, host, *engine)) {
      findings.push_back({kArea, "detections", Health::kBroken, doubt.text, ""});
    }
  }
  if (findings.size() > before) return;
  findings.push_back({kArea, "detections", Health::kOk, "reads its outputs as configured", ""});
}

void add_layout(const config::Config& config, const infer::ModelReport& report, device::Device& host,
                std::vector<Finding>& findings) {
  const auto engine = host_engine(config, host);
  const std::string path = config.model.path.string();
  const std::vector<std::string> names = {"camera"};
  const PlainModel plain(report.input, engine ? engine->outputs() : report.outputs, path, config.model.card_json,
                         names);
  const bool configured = std::any_of(config.postprocess.begin(), config.postprocess.end(),
                                      [](const config::Postprocessor& entry) { return entry.plugin == "detections"; });
  if (configured) return add_configured_layouts(config, plain.model(), host, engine.get(), findings);
  std::vector<plugins::LayoutSuggestion> layouts;
  std::optional<plugins::OutputValues> values;
  try {
    if (engine) values = outputs_of_noise(host, *engine);
    layouts = plugins::suggest_layouts(plain.model(), "{}", values ? &*values : nullptr);
  } catch (const std::invalid_argument&) {
    layouts.clear();  // the card's own mistakes are told to those who use it
  }
  findings.push_back({kArea, "detections", layouts.empty() ? Health::kAbsent : Health::kOk,
                      plugins::suggestion_text(plain.model(), layouts, values ? &*values : nullptr), ""});
}

}  // namespace

std::vector<Finding> examine_model(const config::Config& config, infer::ReportDepth depth) {
  std::vector<Finding> findings;
  const std::string path = config.model.path.string();
  try {
    const auto host = device::make_host_device(base::system_clock());
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
    for (const infer::TensorSpec& size : model.size_inputs) {
      findings.push_back(
          {kArea, "input " + size.name, Health::kOk,
           fmt::format("{}, which camd fills: {}", described(size),
                       size.name == infer::kPixelMask ? "all of it is picture" : "boxes come in the network's pixels"),
           ""});
    }
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
    if (!report.tail.empty()) findings.push_back({kArea, "tail", Health::kOk, report.tail, ""});
    add_engines(config, report, findings);
    add_layout(config, report, *host, findings);
  } catch (const base::Error& error) {
    findings.push_back({kArea, "file", Health::kBroken, error.what(), ""});
  }
  return findings;
}

}  // namespace camd::pipeline
