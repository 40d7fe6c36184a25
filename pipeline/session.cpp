#include "pipeline/session.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "device/make_device.hpp"
#include "infer/engine.hpp"
#include "pipeline/path_choice.hpp"
#include "pipeline/plain_model.hpp"

namespace camd::pipeline {
namespace {

using base::Error;
using base::ErrorKind;

StreamStrategy stream_strategy(config::StreamMode mode) noexcept {
  switch (mode) {
    case config::StreamMode::kSplit: return StreamStrategy::kSplit;
    case config::StreamMode::kPerFrame: return StreamStrategy::kPerFrame;
    case config::StreamMode::kSingle: return StreamStrategy::kSingle;
  }
  return StreamStrategy::kSplit;
}

// Adds the place of `key` to an error that does not know it.
[[noreturn]] void rethrow_at(const config::Config& config, std::string_view key, const Error& error) {
  throw config.error(error.kind(), key, error.what());
}

}  // namespace

std::string_view to_string(EndReason reason) noexcept {
  switch (reason) {
    case EndReason::kTimeout: return "duration reached";
    case EndReason::kRequested: return "asked to stop";
    case EndReason::kSourcesEnded: return "every source has ended";
    case EndReason::kSourcesFailed: return "every source has failed";
    case EndReason::kFrameLimit: return "frame limit reached";
    case EndReason::kDeviceLost: return "device lost";
  }
  return "?";
}

infer::EngineOptions engine_options(const config::Model& model) {
  infer::EngineOptions options;
  switch (model.engine) {
    case config::EngineChoice::kAuto: options.kind = infer::EngineKind::kAuto; break;
    case config::EngineChoice::kCuda: options.kind = infer::EngineKind::kCuda; break;
    case config::EngineChoice::kCpu: options.kind = infer::EngineKind::kCpu; break;
    case config::EngineChoice::kOpencv: options.kind = infer::EngineKind::kOpenCv; break;
  }
  options.compute_type = model.precision == config::Precision::kF16 ? infer::DataType::kF16 : infer::DataType::kF32;
  options.cut_at = model.cut_at;
  const config::ModelInput& input = model.input;
  if (input.width) options.input.width = *input.width;
  if (input.height) options.input.height = *input.height;
  if (input.color) {
    options.input.color = *input.color == config::ColorOrder::kRgb ? infer::ColorOrder::kRgb : infer::ColorOrder::kBgr;
  }
  if (input.mean) options.input.mean = *input.mean;
  if (input.scale) options.input.scale = *input.scale;
  if (input.resize == config::ResizeMode::kStretch) {
    options.input.resize = infer::ResizeMode::kStretch;
  } else if (input.position == config::LetterboxPosition::kTopLeft) {
    options.input.resize = infer::ResizeMode::kLetterboxTopLeft;
  }
  if (input.pad) options.input.pad = *input.pad;
  return options;
}

void declare_model(PluginHost& plugins, const infer::Engine& engine, const std::string& path,
                   const std::string& card_json, const std::vector<std::string>& camera_names) {
  plugins.declare(PlainModel(engine.input(), engine.outputs(), path, card_json, camera_names).model());
}

struct Session::Parts {
  // Destroyed in reverse: reporter, pipeline, plug-ins, engine, device.
  config::Config config;
  const base::Clock& clock;
  std::unique_ptr<device::Device> device;
  std::unique_ptr<infer::Engine> engine;
  std::unique_ptr<PluginHost> plugins;
  std::unique_ptr<Reporter> reporter;  // listens to the pipeline, so it outlives it
  std::unique_ptr<Pipeline> pipeline;
  StartLine start_line;
};

Session::Session(const config::Config& config, const SessionOptions& options, const base::Clock& clock, LineSink sink)
    : parts_(new Parts{config, clock, nullptr, nullptr, nullptr, nullptr, nullptr, {}}) {
  Parts& parts = *parts_;
  try {
    parts.device = device::make_device(config::to_string(config.device));
  } catch (const Error& error) {
    rethrow_at(config, "device", error);
  }
  try {
    parts.engine = infer::make_engine(config.model.path.string(), engine_options(config.model), *parts.device);
  } catch (const Error& error) {
    rethrow_at(config, "model.path", error);
  }

  std::vector<PluginSpec> specs;
  for (std::size_t i = 0; i < config.postprocess.size(); ++i) {
    const config::Postprocessor& entry = config.postprocess[i];
    specs.push_back({entry.plugin, entry.config_json, config.at(fmt::format("postprocess.{}", i), "")});
    // at() ends with ": " and an empty message.
    while (!specs.back().where.empty() && (specs.back().where.back() == ' ' || specs.back().where.back() == ':')) {
      specs.back().where.pop_back();
    }
  }
  parts.plugins = std::make_unique<PluginHost>(specs, clock);

  std::vector<std::string> names;
  for (const config::Camera& camera : config.cameras) names.push_back(camera.name);
  declare_model(*parts.plugins, *parts.engine, config.model.path.string(), config.model.card_json, names);

  std::vector<CameraSpec> cameras;
  for (const config::Camera& camera : config.cameras) {
    cameras.push_back(
        {camera.name, capture::is_lossless(camera),
         [camera, &clock](capture::CameraIndex index, capture::FrameRing& ring, capture::SourceListener& listener) {
           return capture::make_source(camera, index, ring, listener, clock);
         }});
  }
  PipelineOptions pipeline;
  std::optional<Transfer> transfer;
  switch (config.pipeline.transfer) {
    case config::TransferMode::kAuto: break;
    case config::TransferMode::kPinned: transfer = Transfer::kPinned; break;
    case config::TransferMode::kDirect: transfer = Transfer::kDirect; break;
    case config::TransferMode::kMapped: transfer = Transfer::kMapped; break;
    case config::TransferMode::kPageable: transfer = Transfer::kPageable; break;
  }
  const PathChoice choice =
      choose_path(*parts.device, *parts.engine, *parts.plugins, stream_strategy(config.pipeline.streams), transfer);
  pipeline.path = choice.options;
  pipeline.slots = config.pipeline.slots;
  pipeline.max_age = config.pipeline.max_age;
  parts.reporter = std::make_unique<Reporter>(clock, config.metrics.period, std::move(sink));
  parts.pipeline = std::make_unique<Pipeline>(*parts.device, *parts.engine, *parts.plugins, clock, std::move(cameras),
                                              pipeline, parts.reporter.get());
  parts.pipeline->set_frame_limit(options.frame_limit);

  StartLine& line = parts.start_line;
  line.version = CAMD_VERSION;
  line.device = parts.device->info().name;
  line.engine = parts.engine->name();
  line.model = parts.engine->model();
  line.inputs = {parts.engine->input()};
  line.outputs = parts.engine->outputs();
  const bool host = parts.device->info().kind == device::DeviceKind::kHost;
  line.transfer = host ? "in_place" : to_string(choice.options.transfer);
  line.streams = choice.options.graph ? "split, as a graph" : config::to_string(config.pipeline.streams);
  line.choice = choice.figures;
  line.config_sha256 = config::effective_sha256(config);
}

Session::~Session() = default;

void Session::start() {
  // The start line comes first, so the reporter starts before the cameras; when they cannot start, its stop line says
  // so.
  parts_->reporter->start(*parts_->pipeline, *parts_->device, parts_->start_line);
  try {
    parts_->pipeline->start();
  } catch (const Error& error) {
    parts_->reporter->stop(base::exit_code(error.kind()), error.what());
    throw;
  }
}

EndReason Session::wait(base::TimePoint deadline) { return parts_->pipeline->wait_for_end(deadline); }

void Session::request_end() { parts_->pipeline->request_end(); }

void Session::forget_request() { parts_->pipeline->forget_request(); }

int Session::stop(EndReason why) {
  parts_->pipeline->stop(true);
  int exit_code = 0;
  if (why == EndReason::kSourcesFailed) exit_code = base::exit_code(ErrorKind::kSource);
  if (why == EndReason::kDeviceLost || !parts_->pipeline->device_status().ok()) {
    exit_code = base::exit_code(ErrorKind::kDeviceLost);
  }
  for (const std::string& problem : parts_->plugins->finish()) {
    base::log().error("{}", problem);
    if (exit_code == 0) exit_code = base::exit_code(ErrorKind::kPlugin);
  }
  parts_->reporter->stop(exit_code, std::string(to_string(why)));
  return exit_code;
}

std::string Session::stuck_line() const {
  std::string line = "still waiting for";
  const Pipeline& pipeline = *parts_->pipeline;
  for (std::size_t i = 0; i < pipeline.cameras().size(); ++i) {
    const Totals totals = pipeline.ledger().totals(static_cast<capture::CameraIndex>(i));
    line += fmt::format("{} {} frames of camera {}", i == 0 ? "" : ",", totals.in_flight, pipeline.cameras()[i].name);
  }
  return line;
}

}  // namespace camd::pipeline
