// Builds what a configuration names, in order, and takes over from what runs what is the same.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/log.hpp"
#include "base/sha256.hpp"
#include "config/difference.hpp"
#include "device/make_device.hpp"
#include "infer/engine.hpp"
#include "pipeline/run/config_check.hpp"
#include "pipeline/run/cut_advice.hpp"
#include "pipeline/run/layout_check.hpp"
#include "pipeline/run/limits.hpp"
#include "pipeline/run/mistakes.hpp"
#include "pipeline/run/path_choice.hpp"
#include "pipeline/run/plain_model.hpp"
#include "pipeline/run/plugin_specs.hpp"
#include "pipeline/run/session_parts.hpp"

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

// Frames a second that a camera brings, infinity where they come as fast as they are taken. What only its stream will
// tell is taken for kUsualRate.
double rate_of(const config::Source& source) noexcept {
  constexpr double kUsualRate = 30;
  constexpr double kNoEnd = std::numeric_limits<double>::infinity();
  if (const auto* file = std::get_if<config::FileSource>(&source)) return file->realtime ? kUsualRate : kNoEnd;
  if (const auto* test = std::get_if<config::TestSource>(&source)) return test->realtime ? test->fps : kNoEnd;
  if (const auto* v4l2 = std::get_if<config::V4l2Source>(&source)) return v4l2->fps;
  return kUsualRate;
}

double rate_of(const std::vector<config::Camera>& cameras) noexcept {
  return std::accumulate(cameras.begin(), cameras.end(), 0.0,
                         [](double sum, const config::Camera& camera) { return sum + rate_of(camera.source); });
}

// Frames a second that come to each of so many devices.
double demand_of(const config::Config& config, std::size_t lanes) noexcept {
  return rate_of(config.cameras) / static_cast<double>(lanes);
}

// Whether frames of so many devices meet there. With fewer a second they hardly ever do.
bool many_frames(const config::Config& config, std::size_t lanes) noexcept {
  constexpr double kManyFrames = 1000;
  return demand_of(config, lanes) >= kManyFrames;
}

std::unique_ptr<infer::Engine> engine_of(const config::Config& config, device::Device& device, std::size_t lanes) {
  infer::EngineOptions options = engine_options(config.model);
  options.many_frames = many_frames(config, lanes);
  try {
    return infer::make_engine(config.model.path.string(), options, device);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kModel) rethrow_at(config, "model.path", error);
    const std::string advice = cut_advice(config, engine_options(config.model));
    rethrow_at(config, "model.path", Error(error.kind(), error.what() + advice));
  }
}

// The devices that a configuration names, without engines yet. A device that is named twice has two lanes.
std::vector<LaneParts> lanes_of(const config::Config& config, const SessionOptions& options) {
  const auto make = [&options](const std::string& word) {
    return options.make_device ? options.make_device(word) : device::make_device(word);
  };
  const bool several = config.all_devices || !config.devices.empty();
  std::vector<std::string> words;
  for (const config::DeviceChoice& device : config.devices) words.push_back(config::to_string(device));
  if (config.all_devices) words = device::all_devices();
  if (!several) words = {config::to_string(config.device)};
  std::vector<LaneParts> lanes;
  std::vector<std::string> made;  // by lane: the word
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto same = std::find(made.begin(), made.end(), words[i]);
    LaneParts lane;
    try {
      lane.device = same == made.end() ? std::shared_ptr(make(words[i]))
                                       : lanes[static_cast<std::size_t>(same - made.begin())].device;
    } catch (const Error& error) {
      rethrow_at(config, !several ? "device" : config.all_devices ? "devices" : fmt::format("devices.{}", i), error);
    }
    lane.name = device::word_of(lane.device->info());
    made.push_back(words[i]);
    lanes.push_back(std::move(lane));
  }
  return lanes;
}

// Plug-ins see one model, whichever device computes a frame.
void check_alike(const config::Config& config, const LaneParts& first, const LaneParts& other) {
  const auto same = [](const infer::TensorSpec& a, const infer::TensorSpec& b) {
    return a.name == b.name && a.shape == b.shape && a.type == b.type;
  };
  const std::vector<infer::TensorSpec>& ours = first.engine->outputs();
  const std::vector<infer::TensorSpec>& theirs = other.engine->outputs();
  if (same(first.engine->input(), other.engine->input()) &&
      std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end(), same)) {
    return;
  }
  throw config.error(ErrorKind::kConfig, "devices",
                     fmt::format("{} and {} run the model with other outputs (engines {} and {}): choose devices of "
                                 "one kind",
                                 first.name, other.name, first.engine->name(), other.engine->name()));
}

// Whether a camera's pictures must lie elsewhere from now on.
bool other_memory(const std::vector<LaneParts>& next, const std::vector<LaneParts>& running) {
  return std::any_of(next.begin(), next.end(), [&](const LaneParts& lane) {
    return std::none_of(running.begin(), running.end(), [&](const LaneParts& before) {
      return before.device == lane.device && picture_memory(before.path.transfer) == picture_memory(lane.path.transfer);
    });
  });
}

}  // namespace

infer::EngineOptions engine_options(const config::Model& model) {
  infer::EngineOptions options;
  switch (model.engine) {
    case config::EngineChoice::kAuto: options.kind = infer::EngineKind::kAuto; break;
    case config::EngineChoice::kCuda: options.kind = infer::EngineKind::kCuda; break;
    case config::EngineChoice::kCpu: options.kind = infer::EngineKind::kCpu; break;
    case config::EngineChoice::kOpencv: options.kind = infer::EngineKind::kOpenCv; break;
  }
  switch (model.precision) {
    case config::Precision::kAuto: break;
    case config::Precision::kF16: options.host_half = infer::HalfType::kF16; break;
    case config::Precision::kBf16: options.host_half = infer::HalfType::kBf16; break;
    case config::Precision::kTf32:
      options.tf32 = true;
      options.compute_type = infer::DataType::kF32;
      break;
    case config::Precision::kF32: options.compute_type = infer::DataType::kF32; break;
  }
  options.cut_at = model.cut_at;
  const config::ModelInput& input = model.input;
  if (input.width) options.input.width = *input.width;
  if (input.height) options.input.height = *input.height;
  if (input.color) {
    options.input.color = *input.color == config::ColorOrder::kRgb ? infer::ColorOrder::kRgb : infer::ColorOrder::kBgr;
  }
  if (input.mean) options.input.mean = *input.mean;
  if (input.scale) options.input.scale = *input.scale;
  options.input.scale_by_type = !input.mean && !input.scale;
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

ModelFile ModelFile::at(const std::filesystem::path& path) {
  std::error_code ignored;  // whoever reads the file says what is wrong with it
  return {std::filesystem::last_write_time(path, ignored), std::filesystem::file_size(path, ignored)};
}

bool ModelFile::is(const ModelFile& before, const std::string& sha256, const std::filesystem::path& path) const {
  if (written == before.written && size_bytes == before.size_bytes) return true;
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return base::sha256(bytes) == sha256;
}

CameraSpec camera_spec(const config::Camera& camera, const base::Clock& clock) {
  return {camera.name, capture::is_lossless(camera),
          [camera, &clock](capture::CameraIndex index, capture::FrameRing& ring, capture::SourceListener& listener) {
            return capture::make_source(camera, index, ring, listener, clock);
          },
          camera.gate};
}

StartLine Session::Parts::start_line() const {
  StartLine line;
  line.version = CAMD_VERSION;
  const infer::Engine& engine = *lanes.front().engine;
  line.engine = engine.name();
  line.model = engine.model();
  line.inputs = {engine.input()};
  line.outputs = engine.outputs();
  for (const LaneParts& lane : lanes) {
    StartLine::Device& device = line.devices.emplace_back();
    const bool in_place = lane.device->info().works_in_host_memory;
    device.device = lane.name;
    device.name = lane.device->info().name;
    device.transfer = in_place ? "in_place" : to_string(lane.path.transfer);
    device.streams = lane.path.graph ? "split, as a graph" : config::to_string(config.pipeline.streams);
    device.choice = lane.figures;
    device.in_flight = lane.in_flight > 0 ? lane.in_flight : lane.device->info().default_depth;
    device.frames_per_second = lane.frames_per_second;
  }
  line.config_sha256 = config::effective_sha256(config);
  line.shard = config.shard;
  line.cameras = config.cameras.size();
  line.cameras_in_file = config.cameras_in_file;
  return line;
}

std::vector<LaneSpec> Session::Parts::lane_specs() const {
  std::vector<LaneSpec> specs;
  for (const LaneParts& lane : lanes)
    specs.push_back({lane.name, *lane.device, *lane.engine, lane.path, lane.in_flight, lane.frames_per_second});
  return specs;
}

// Where the cameras have their places: those that stay keep theirs, others get free ones. A place that becomes free is
// not given away before the next reload, because its frames are still on their way.
void Session::place_cameras(Parts& next, const Run* running) const {
  const std::vector<config::Camera>& cameras = next.config.cameras;
  const std::vector<std::string> before = running == nullptr ? std::vector<std::string>() : running->parts().slots;
  next.slots.assign(before.size(), "");
  next.places.assign(cameras.size(), 0);
  next.opened.assign(cameras.size(), running == nullptr);
  const bool everything = running != nullptr && other_memory(next.lanes, running->parts().lanes);
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
  // No instance that is made later has the same.
  const std::uint32_t reloads = starts_ == 0 ? 0 : ++*latest_;
  const auto give_up = [this] {
    plugin_given_up_ = true;
    request_end();
  };
  return {reloads, options_.set_up_patience, options_.restart, give_up, latest_};
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
      !next->model_file.is(running->model_file, running->lanes.front().engine->model().sha256, wanted.model.path)) {
    note("model");
    next->difference.engine = true;
  }
  if (options_.side != nullptr) {
    mistakes.collect(wanted.place_of("http.listen"), [&] { options_.side->prepare(wanted); });
  }
  const bool same_device = running != nullptr && !difference.device;
  const bool same_engine = same_device && !difference.engine;
  std::optional<infer::ModelReport> report;
  if (!same_engine) report = check_model(wanted, mistakes);
  mistakes.raise();
  // A reload is too late for that: the driver may be loaded, and other threads read the environment. GPUs are not
  // counted yet, so it is decided as for one that gets all cameras.
  if (running == nullptr && wanted.device.kind != config::DeviceKind::kHost && many_frames(wanted, 1)) {
    device::prepare_for_many_streams();
  }
  mistakes.collect(wanted.place_of("model.path"), [&] {
    next->lanes = same_device ? run->lanes_left() : lanes_of(wanted, options_);
    for (LaneParts& lane : next->lanes) {
      const device::DeviceInfo& info = lane.device->info();
      if (report) lane.engine_memory = engine_memory(wanted.model, *report, info);
      if (running == nullptr || !next->changed.empty()) {  // before anything of the new lane is made
        Room room{process_limits(), lane.device->free_bytes(), {}};
        if (running != nullptr) {
          for (const LaneParts& before : running->lanes) {
            if (before.device != lane.device) continue;
            room.beside = lane_cost(before.engine_memory, running->config.cameras.size(), info);
          }
        }
        check_lane(wanted, lane_cost(lane.engine_memory, wanted.cameras.size(), info), room);
      }
      if (!same_engine) lane.engine = engine_of(wanted, *lane.device, next->lanes.size());
      check_alike(wanted, next->lanes.front(), lane);
    }
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
  const std::optional<Transfer> transfer = wanted_transfer(wanted.pipeline.transfer);
  // What was measured for a device stands: other memory would cost every camera its connection.
  const bool same_transfer = same_device && !difference.buffers;
  place_cameras(*next, run);
  infer::Engine& engine = *next->lanes.front().engine;
  if (next->plugins != (running == nullptr ? nullptr : running->plugins)) {
    declare_model(*next->plugins, engine, wanted.model.path.string(), wanted.model.card_json, next->slots);
    for (const LayoutDoubt& doubt : doubtful_layouts(wanted, *next->lanes.front().device, engine)) {
      base::log().warn("{}", wanted.at(doubt.key, doubt.text));
    }
  }
  const double demand = demand_of(wanted, next->lanes.size());
  if (!same_engine || difference.path || !same_transfer) {
    for (LaneParts& lane : next->lanes) {
      PathChoice choice =
          choose_path(clock_, *lane.device, *lane.engine, *next->plugins, stream_strategy(wanted.pipeline.streams),
                      same_transfer ? std::optional(lane.path.transfer) : transfer, demand);
      lane.path = choice.options;
      lane.in_flight = choice.in_flight;
      lane.frames_per_second = choice.frames_per_second;
      if (!same_transfer) lane.figures = std::move(choice.figures);
    }
    next->way_changed = true;
  }
  if (next->way_changed || other_cameras) {
    for (const LaneParts& lane : next->lanes) {
      const std::string text = too_many_frames(
          lane.name, {lane.path.transfer, 0, lane.frames_per_second, lane.path.goal}, demand, !next->way_changed);
      if (!text.empty()) base::log().warn("{}", text);
    }
  }
  // The path may have brought other memory for the pictures.
  next->gone.clear();
  std::erase_if(next->changed, [](const std::string& what) { return what.ends_with(" opened again"); });
  place_cameras(*next, run);
  return next;
}

}  // namespace camd::pipeline
