// Builds a configuration's parts in order, and what a user is told about a run.
#include "pipeline/run/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "base/secrets.hpp"
#include "base/sha256.hpp"
#include "config/difference.hpp"
#include "config/value.hpp"
#include "device/make_device.hpp"
#include "infer/engine.hpp"
#include "pipeline/run/config_check.hpp"
#include "pipeline/run/cut_advice.hpp"
#include "pipeline/run/layout_check.hpp"
#include "pipeline/run/limits.hpp"
#include "pipeline/run/mistakes.hpp"
#include "pipeline/run/path_choice.hpp"
#include "pipeline/run/plain_model.hpp"

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
  const bool channels_last = infer::takes_pixels_last(engine.model().inputs.at(0).shape);
  plugins.declare(PlainModel(engine.input(), engine.outputs(), path, card_json, camera_names, channels_last).model());
}

namespace {

// A model's file as it was when it was looked at.
struct ModelFile {
  std::filesystem::file_time_type written{};
  std::uintmax_t size_bytes = 0;

  [[nodiscard]] static ModelFile at(const std::filesystem::path& path) {
    std::error_code ignored;  // whoever reads the file says what is wrong with it
    return {std::filesystem::last_write_time(path, ignored), std::filesystem::file_size(path, ignored)};
  }
  // Whether this is the file of before: untouched, or with the same contents.
  [[nodiscard]] bool is(const ModelFile& before, const std::string& sha256, const std::filesystem::path& path) const {
    if (written == before.written && size_bytes == before.size_bytes) return true;
    std::ifstream file(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    return base::sha256(bytes) == sha256;
  }
};

}  // namespace

// What a configuration names, and where its cameras have their places.
struct Session::Parts {
  config::Config config;
  // Destroyed in reverse.
  std::shared_ptr<device::Device> device;
  std::shared_ptr<infer::Engine> engine;
  std::shared_ptr<PluginHost> plugins;
  PipelineOptions pipeline;
  std::string figures;                     // behind the choice of the path
  infer::EngineMemory engine_memory;       // that it has taken, as it was reckoned
  std::vector<std::string> slots;          // cameras by index; "": a free one
  std::vector<std::size_t> places;         // by camera of the configuration: its slot
  std::vector<bool> opened;                // by camera of the configuration: it is opened by this change
  std::vector<capture::CameraIndex> gone;  // slots of cameras that the configuration before had
  std::vector<std::string> changed;        // what is new, for the reload line; empty: nothing
  config::Difference difference;
  ModelFile model_file;
  bool way_changed = false;  // what the start line tells of device, model and path

  [[nodiscard]] StartLine start_line() const;
};

namespace {

std::vector<PluginSpec> plugin_specs(const config::Config& config) {
  std::vector<PluginSpec> specs;
  for (std::size_t i = 0; i < config.postprocess.size(); ++i) {
    const config::Postprocessor& entry = config.postprocess[i];
    specs.push_back({entry.plugin, entry.config_json, config.at(fmt::format("postprocess.{}", i), ""), {}});
    IsolationSpec& isolation = specs.back().isolation;
    if (entry.isolation == config::Isolation::kProcess) {
      isolation.isolation = Isolation::kProcess;
      isolation.worker = entry.worker;
      isolation.deadline = entry.deadline;
      isolation.memory_bytes = static_cast<std::uint64_t>(entry.memory_bytes);
      isolation.python = entry.python;
      switch (entry.on_failure) {
        case config::OnFailure::kDropFrames: break;
        case config::OnFailure::kPassThrough: isolation.on_failure = OnFailure::kPassThrough; break;
        case config::OnFailure::kStop: isolation.on_failure = OnFailure::kStop; break;
      }
      for (const std::string& grant : entry.allow) {
        const std::string_view path = config::granted_path(grant);
        if (path.empty()) {
          isolation.network = true;
        } else {
          isolation.files.emplace_back(path);
        }
      }
    }
    // at() ends with ": " and an empty message.
    while (!specs.back().where.empty() && (specs.back().where.back() == ' ' || specs.back().where.back() == ':')) {
      specs.back().where.pop_back();
    }
  }
  return specs;
}

std::optional<Transfer> wanted_transfer(config::TransferMode mode) noexcept {
  switch (mode) {
    case config::TransferMode::kAuto: break;
    case config::TransferMode::kPinned: return Transfer::kPinned;
    case config::TransferMode::kDirect: return Transfer::kDirect;
    case config::TransferMode::kMapped: return Transfer::kMapped;
    case config::TransferMode::kPageable: return Transfer::kPageable;
  }
  return std::nullopt;
}

std::unique_ptr<infer::Engine> engine_of(const config::Config& config, device::Device& device) {
  try {
    return infer::make_engine(config.model.path.string(), engine_options(config.model), device);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kModel) rethrow_at(config, "model.path", error);
    const std::string advice = cut_advice(config, engine_options(config.model));
    rethrow_at(config, "model.path", Error(error.kind(), error.what() + advice));
  }
}

CameraSpec camera_spec(const config::Camera& camera, const base::Clock& clock) {
  return {camera.name, capture::is_lossless(camera),
          [camera, &clock](capture::CameraIndex index, capture::FrameRing& ring, capture::SourceListener& listener) {
            return capture::make_source(camera, index, ring, listener, clock);
          }};
}

}  // namespace

StartLine Session::Parts::start_line() const {
  StartLine line;
  line.version = CAMD_VERSION;
  line.device = device->info().name;
  line.engine = engine->name();
  line.model = engine->model();
  line.inputs = {engine->input()};
  line.outputs = engine->outputs();
  const bool in_place = device->info().works_in_host_memory;
  line.transfer = in_place ? "in_place" : to_string(pipeline.path.transfer);
  line.streams = pipeline.path.graph ? "split, as a graph" : config::to_string(config.pipeline.streams);
  line.choice = figures;
  line.config_sha256 = config::effective_sha256(config);
  return line;
}

// What runs, between start() and stop().
class Session::Run {
 public:
  // Throws Error(kDevice | kModel).
  Run(std::unique_ptr<Parts> parts, std::uint64_t frame_limit, const base::Clock& clock, const LineSink& sink);

  // Starts the metrics and the cameras. Throws Error(kSource | kConfig | kDevice); all is stopped then.
  void start();
  // Pipeline::reload(). What was before is gone when it returns.
  void change_to(std::unique_ptr<Parts> next);
  [[nodiscard]] int stop(EndReason why, base::Duration plugin_patience);
  // Whether stop() or change_to() has left foreign code behind.
  [[nodiscard]] bool hangs() const noexcept { return hangs_; }
  [[nodiscard]] std::string stuck_line() const;
  [[nodiscard]] std::string status_line() const;
  [[nodiscard]] Progress progress() const;
  [[nodiscard]] const Parts& parts() const noexcept { return *parts_; }
  [[nodiscard]] capture::SourceState state_of(std::size_t slot) const {
    return pipeline_->camera_status(static_cast<capture::CameraIndex>(slot)).state;
  }
  [[nodiscard]] Pipeline& pipeline() noexcept { return *pipeline_; }
  [[nodiscard]] Reporter& reporter() noexcept { return *reporter_; }

 private:
  const base::Clock& clock_;
  std::unique_ptr<Parts> parts_;
  std::unique_ptr<Reporter> reporter_;  // listens to the pipeline, so it outlives it
  std::unique_ptr<Pipeline> pipeline_;
  bool hangs_ = false;
};

Session::Run::Run(std::unique_ptr<Parts> parts, std::uint64_t frame_limit, const base::Clock& clock,
                  const LineSink& sink)
    : clock_(clock), parts_(std::move(parts)) {
  std::vector<CameraSpec> cameras;
  for (const config::Camera& camera : parts_->config.cameras) cameras.push_back(camera_spec(camera, clock));
  reporter_ = std::make_unique<Reporter>(clock, parts_->config.metrics.period, sink);
  pipeline_ = std::make_unique<Pipeline>(*parts_->device, *parts_->engine, *parts_->plugins, clock, std::move(cameras),
                                         parts_->pipeline, reporter_.get());
  pipeline_->set_frame_limit(frame_limit);
}

void Session::Run::start() {
  // The start line comes first, so the reporter starts before the cameras; when they cannot start, its stop line says
  // so.
  reporter_->start(*pipeline_, *parts_->plugins, parts_->start_line());
  try {
    pipeline_->start();
  } catch (const Error& error) {
    reporter_->stop(base::exit_code(error.kind()), error.what());
    throw;
  }
}

void Session::Run::change_to(std::unique_ptr<Parts> next) {
  const bool other_plugins = next->plugins != parts_->plugins;
  PipelineChange change{*next->device, *next->engine, *next->plugins, next->pipeline, {}, next->gone, {}};
  for (std::size_t i = 0; i < next->config.cameras.size(); ++i) {
    if (!next->opened[i]) continue;
    change.cameras.push_back(
        {static_cast<capture::CameraIndex>(next->places[i]), camera_spec(next->config.cameras[i], clock_)});
  }
  change.accepted = [&] {
    if (other_plugins) next->plugins->enter();
  };
  const bool other_way = next->engine != parts_->engine || !(next->pipeline == parts_->pipeline);
  if (other_plugins || other_way || !change.cameras.empty() || !change.removed.empty()) pipeline_->reload(change);
  if (next->difference.period) reporter_->set_period(next->config.metrics.period);
  const std::unique_ptr<Parts> before = std::exchange(parts_, std::move(next));
  if (!other_plugins) return;
  reporter_->set_plugins(*parts_->plugins);
  for (const std::string& problem : parts_->plugins->leave()) base::log().error("{}", problem);
  for (const std::string& problem : before->plugins->finish()) base::log().error("{}", problem);
  hangs_ = hangs_ || before->plugins->hangs();
}

int Session::Run::stop(EndReason why, base::Duration plugin_patience) {
  const bool ended = pipeline_->stop(true, plugin_patience);
  int exit_code = 0;
  if (why == EndReason::kSourcesFailed) exit_code = base::exit_code(ErrorKind::kSource);
  if (why == EndReason::kDeviceLost || !pipeline_->device_status().ok()) {
    exit_code = base::exit_code(ErrorKind::kDeviceLost);
  }
  for (const std::string& problem : parts_->plugins->finish()) {
    base::log().error("{}", problem);
    if (exit_code == 0) exit_code = base::exit_code(ErrorKind::kPlugin);
  }
  if (!ended && exit_code == 0) exit_code = base::exit_code(ErrorKind::kInternal);
  hangs_ = hangs_ || !ended || parts_->plugins->hangs();
  reporter_->stop(exit_code, std::string(to_string(why)));
  return exit_code;
}

std::string Session::Run::stuck_line() const {
  std::string line = "still waiting for";
  const char* separator = "";
  for (const CameraView& camera : pipeline_->cameras()) {
    const Totals totals = pipeline_->ledger().totals(camera.index);
    line += fmt::format("{} {} frames of camera {}", std::exchange(separator, ","), totals.in_flight, camera.name);
  }
  return line;
}

std::string Session::Run::status_line() const {
  constexpr std::size_t kMostNamed = 5;
  std::size_t running = 0;
  std::vector<std::string> others;
  const std::vector<CameraView> cameras = pipeline_->cameras();
  for (const CameraView& camera : cameras) {
    const CameraStatus status = pipeline_->camera_status(camera.index);
    if (status.state == capture::SourceState::kRunning) {
      ++running;
    } else {
      others.push_back(fmt::format("{} {}", camera.name, capture::to_string(status.state)));
    }
  }
  std::string line = fmt::format("{} of {} cameras running", running, cameras.size());
  for (std::size_t i = 0; i < std::min(others.size(), kMostNamed); ++i) line += ", " + others[i];
  if (others.size() > kMostNamed) line += fmt::format(", and {} more", others.size() - kMostNamed);
  return line;
}

// What a ring drops by itself is no progress: it does so too when nobody takes anything out of it.
Progress Session::Run::progress() const {
  const Totals totals = pipeline_->ledger().totals();
  Progress now{totals.delivered, totals.in_flight};
  for (const DropReason reason : {DropReason::kTooOld, DropReason::kDeviceError, DropReason::kPluginError}) {
    now.finished += totals.dropped[static_cast<std::size_t>(reason)];
  }
  return now;
}

Session::Session(ConfigLoader load, SessionOptions options, const base::Clock& clock, LineSink sink)
    : load_(std::move(load)), options_(std::move(options)), clock_(clock), sink_(std::move(sink)) {}

Session::~Session() {
  if (running()) (void)stop(EndReason::kRequested);
}

// Where the cameras have their places: those that stay keep theirs, others get free ones. A place that becomes free is
// not given away before the next reload, because its frames are still on their way.
void Session::place_cameras(Parts& next, const Run* running) const {
  const std::vector<config::Camera>& cameras = next.config.cameras;
  const std::vector<std::string> before = running == nullptr ? std::vector<std::string>() : running->parts().slots;
  next.slots.assign(before.size(), "");
  next.places.assign(cameras.size(), 0);
  next.opened.assign(cameras.size(), running == nullptr);
  const bool everything = running != nullptr && (next.device != running->parts().device ||
                                                 picture_memory(next.pipeline.path.transfer) !=
                                                     picture_memory(running->parts().pipeline.path.transfer));
  for (std::size_t i = 0; i < cameras.size(); ++i) {
    const auto found = std::find(before.begin(), before.end(), cameras[i].name);
    if (found == before.end()) continue;
    next.places[i] = static_cast<std::size_t>(found - before.begin());
    next.slots[next.places[i]] = cameras[i].name;
    if (everything) next.opened[i] = true;
    const auto& altered = next.difference.cameras_altered;
    if (std::find(altered.begin(), altered.end(), i) != altered.end()) {
      next.opened[i] = true;
    } else if (running->state_of(next.places[i]) == capture::SourceState::kFailed) {
      next.opened[i] = true;
      next.changed.push_back(fmt::format("camera {} opened again", cameras[i].name));
    }
  }
  std::size_t free = 0;
  for (std::size_t i = 0; i < cameras.size(); ++i) {
    if (std::find(before.begin(), before.end(), cameras[i].name) != before.end()) continue;
    while (free < before.size() && !before[free].empty()) ++free;
    if (free >= next.slots.size()) next.slots.resize(free + 1);
    next.places[i] = free;
    next.slots[free++] = cameras[i].name;
    next.opened[i] = true;
  }
  for (std::size_t slot = 0; slot < before.size(); ++slot) {
    if (!before[slot].empty() && next.slots[slot].empty()) {
      next.gone.push_back(static_cast<capture::CameraIndex>(slot));
    }
  }
}

PluginHostOptions Session::plugin_options() {
  return {starts_, options_.set_up_patience, options_.restart, [this] {
            plugin_given_up_ = true;
            request_end();
          }};
}

// What the reading's configuration names, taken from what runs where it is the same. Nothing that runs hears of it.
// Throws Error(kDevice | kModel | kPlugin | kSource | kConfig) with all that is wrong.
std::unique_ptr<Session::Parts> Session::build(config::Reading reading, const Run* run) {
  Mistakes mistakes(reading.config.file.file);
  const std::vector<LoadedPlugin> loaded = check_config(reading, options_.set_up_patience, mistakes);
  if (!reading.problems.empty()) {
    (void)check_model(reading.config, mistakes);
    mistakes.raise();
  }

  auto next = std::make_unique<Parts>();
  const Parts* const running = run == nullptr ? nullptr : &run->parts();
  next->config = std::move(reading.config);
  const config::Config& wanted = next->config;
  if (running != nullptr) {
    next->difference = config::difference(running->config, wanted);
    next->changed = next->difference.names(running->config, wanted);
  }
  const auto note = [&next](const char* what) {
    if (std::find(next->changed.begin(), next->changed.end(), what) == next->changed.end()) {
      next->changed.emplace_back(what);
    }
  };
  const config::Difference& difference = next->difference;
  next->model_file = ModelFile::at(wanted.model.path);
  if (running != nullptr && !difference.engine && !difference.device &&
      !next->model_file.is(running->model_file, running->engine->model().sha256, wanted.model.path)) {
    note("model");
    next->difference.engine = true;
  }
  const bool same_device = running != nullptr && !difference.device;
  const bool same_engine = same_device && !difference.engine;
  std::optional<infer::ModelReport> report;
  if (!same_engine) report = check_model(wanted, mistakes);
  mistakes.raise();
  mistakes.collect(wanted.place_of("model.path"), [&] {
    try {
      next->device = same_device ? running->device : device::make_device(config::to_string(wanted.device));
    } catch (const Error& error) {
      rethrow_at(wanted, "device", error);
    }
    next->engine_memory = report ? engine_memory(wanted.model, *report, next->device->info()) : running->engine_memory;
    if (running == nullptr || !next->changed.empty()) {  // before anything of the new lane is made
      Room room{process_limits(), next->device->free_bytes(), {}};
      if (running != nullptr) {
        room.beside = lane_cost(running->engine_memory, running->config.cameras.size(), running->device->info());
      }
      check_lane(wanted, lane_cost(next->engine_memory, wanted.cameras.size(), next->device->info()), room);
    }
    next->engine = same_engine ? running->engine : engine_of(wanted, *next->device);
  });
  if (running == nullptr) mistakes.raise();  // plug-ins make their files: a start that is refused leaves none behind
  const bool other_cameras = !difference.cameras_added.empty() || !difference.cameras_removed.empty();
  const bool same_files = running != nullptr && running->plugins->is_current();
  if (running != nullptr && !same_files) note("postprocess");
  const bool same_model = same_engine && !difference.card;
  if (same_model && !difference.plugins && !other_cameras && same_files) {
    next->plugins = running->plugins;
  } else {
    mistakes.collect(wanted.place_of("postprocess"), [&] {
      const std::vector<PluginSpec> specs = plugin_specs(wanted);
      next->plugins =
          same_model ? std::make_shared<PluginHost>(specs, clock_, plugin_options(), *running->plugins, other_cameras)
                     : std::make_shared<PluginHost>(specs, clock_, plugin_options());
    });
  }
  mistakes.raise();

  next->pipeline.slots = wanted.pipeline.slots;
  next->pipeline.max_age = wanted.pipeline.max_age;
  std::optional<Transfer> transfer = wanted_transfer(wanted.pipeline.transfer);
  // What was measured for this device stands: other memory would cost every camera its connection.
  const bool same_transfer = same_device && !difference.buffers;
  if (same_transfer) transfer = running->pipeline.path.transfer;
  if (same_engine && !difference.path && same_transfer) next->pipeline.path = running->pipeline.path;
  place_cameras(*next, run);
  if (next->plugins != (running == nullptr ? nullptr : running->plugins)) {
    declare_model(*next->plugins, *next->engine, wanted.model.path.string(), wanted.model.card_json, next->slots);
    for (const LayoutDoubt& doubt : doubtful_layouts(wanted, *next->device, *next->engine)) {
      base::log().warn("{}", wanted.at(doubt.key, doubt.text));
    }
  }
  if (!same_engine || difference.path || !same_transfer) {
    PathChoice choice =
        choose_path(*next->device, *next->engine, *next->plugins, stream_strategy(wanted.pipeline.streams), transfer);
    next->pipeline.path = choice.options;
    next->figures = std::move(choice.figures);
    next->way_changed = true;
  }
  if (same_transfer) next->figures = running->figures;
  // The path may have brought other memory for the pictures.
  next->gone.clear();
  std::erase_if(next->changed, [](const std::string& what) { return what.ends_with(" opened again"); });
  place_cameras(*next, run);
  return next;
}

// What [any] sees from now on.
void Session::show(Run* run) {
  const base::MutexLock lock(mutex_);
  shown_ = run;
  if (run != nullptr && end_requested_) run->pipeline().request_end();
}

void Session::start() {
  run_ = std::make_unique<Run>(build(load_(), nullptr), options_.frame_limit, clock_, sink_);
  ++starts_;
  show(run_.get());
  try {
    run_->start();
  } catch (...) {
    show(nullptr);
    run_ = nullptr;
    throw;
  }
}

bool Session::reload() {
  const base::TimePoint begun = clock_.now();
  ReloadLine line;
  try {
    std::unique_ptr<Parts> next = build(load_(), run_.get());
    line.changed = next->changed;
    const bool other_way = next->way_changed;
    if (!next->changed.empty()) {
      // Frames go the new way behind those that go the old one: nothing is touched while one of them hangs.
      const std::vector<std::string> hanging = run_->pipeline().hanging(options_.reload_patience);
      if (!hanging.empty()) throw Error(ErrorKind::kPlugin, fmt::format("{}", fmt::join(hanging, "\n")));
      run_->change_to(std::move(next));
      ++starts_;
    }
    if (other_way) line.start = run_->parts().start_line();
    base::log().info("reloaded: {}",
                     line.changed.empty() ? "nothing has changed" : fmt::format("{}", fmt::join(line.changed, ", ")));
  } catch (const std::exception& error) {
    std::istringstream lines(error.what());
    for (std::string one; std::getline(lines, one);) line.errors.push_back(one);
    if (line.errors.empty()) line.errors.emplace_back("no reason was given");
    base::log().error("reload refused, the old configuration runs on:{}{}", line.errors.size() == 1 ? ' ' : '\n',
                      error.what());
  }
  {
    const base::MutexLock lock(mutex_);
    refused_ = line.errors.empty() ? "" : line.errors.front();
  }
  line.config_sha256 = config::effective_sha256(run_->parts().config);
  line.duration = clock_.now() - begun;
  run_->reporter().reloaded(line);
  return line.errors.empty();
}

void Session::reopen_files() {
  const std::vector<std::string> problems = run_->parts().plugins->reopen();
  for (const std::string& problem : problems) base::log().error("{}", problem);
  if (problems.empty()) base::log().info("files opened anew");
}

EndReason Session::wait(base::TimePoint deadline) { return run_->pipeline().wait_for_end(deadline); }

void Session::request_end() {
  const base::MutexLock lock(mutex_);
  end_requested_ = true;
  if (shown_ != nullptr) shown_->pipeline().request_end();
}

void Session::forget_request() {
  const base::MutexLock lock(mutex_);
  end_requested_ = false;
  if (shown_ != nullptr) shown_->pipeline().forget_request();
}

int Session::stop(EndReason why) {
  if (options_.draining) options_.draining(true);
  const int exit_code = run_->stop(why, options_.plugin_patience);
  hangs_ = run_->hangs();
  if (options_.draining) options_.draining(false);
  show(nullptr);
  if (hangs_) left_behind_ = std::move(run_);
  run_ = nullptr;
  return exit_code;
}

std::string Session::stuck_line() const {
  const base::MutexLock lock(mutex_);
  return shown_ == nullptr ? "nothing runs" : shown_->stuck_line();
}

std::string Session::status_line() const {
  const base::MutexLock lock(mutex_);
  if (shown_ == nullptr) return "nothing runs";
  return shown_->status_line() +
         (refused_.empty() ? "" : "; the last reload was refused: " + base::without_secrets(refused_));
}

Progress Session::progress() const {
  const base::MutexLock lock(mutex_);
  return shown_ == nullptr ? Progress{} : shown_->progress();
}

}  // namespace camd::pipeline
