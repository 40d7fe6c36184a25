// What a Session is made of: what one configuration names, and what runs. Private to session*.cpp.
//
// Threads: [setup], but for the functions of Run that say otherwise.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.hpp"
#include "config/difference.hpp"
#include "device/device.hpp"
#include "infer/engine.hpp"
#include "infer/model_report.hpp"
#include "pipeline/core/pipeline.hpp"
#include "pipeline/run/interrupted_cpus.hpp"
#include "pipeline/run/plugin_host.hpp"
#include "pipeline/run/reporter.hpp"
#include "pipeline/run/session.hpp"

namespace camd::pipeline {

// A model's file as it was when it was looked at.
struct ModelFile {
  std::filesystem::file_time_type written{};
  std::uintmax_t size_bytes = 0;

  [[nodiscard]] static ModelFile at(const std::filesystem::path& path);
  // Whether this is the file of before: untouched, or with the same contents.
  [[nodiscard]] bool is(const ModelFile& before, const std::string& sha256, const std::filesystem::path& path) const;
};

[[nodiscard]] CameraSpec camera_spec(const config::Camera& camera, const base::Clock& clock);

// One device with the engine on it.
struct LaneParts {
  std::string name;  // "cuda:0"
  // Destroyed in reverse.
  std::shared_ptr<device::Device> device;
  std::shared_ptr<infer::Engine> engine;
  FramePathOptions path;
  std::string figures;                // behind the choice of the path
  int in_flight = 0;                  // PathChoice::in_flight
  double frames_per_second = 0;       // PathChoice::frames_per_second
  infer::EngineMemory engine_memory;  // that it has taken, as it was reckoned
};

// What a configuration names, and where its cameras have their places.
struct Session::Parts {
  config::Config config;
  // Destroyed in reverse.
  std::vector<LaneParts> lanes;  // one or more
  std::shared_ptr<PluginHost> plugins;
  PipelineOptions pipeline;
  std::vector<std::string> slots;          // cameras by index; "": a free one
  std::vector<std::size_t> places;         // by camera of the configuration: its slot
  std::vector<bool> opened;                // by camera of the configuration: it is opened by this change
  std::vector<capture::CameraIndex> gone;  // slots of cameras that the configuration before had
  std::vector<std::string> changed;        // what is new, for the reload line; empty: nothing
  config::Difference difference;
  ModelFile model_file;
  bool way_changed = false;  // what the start line tells of device, model and path

  [[nodiscard]] StartLine start_line() const;
  [[nodiscard]] std::vector<LaneSpec> lane_specs() const;
};

// What runs, between start() and stop().
class Session::Run {
 public:
  // Throws Error(kDevice | kModel).
  Run(std::unique_ptr<Parts> parts, const SessionOptions& options, const base::Clock& clock, const LineSink& sink);

  // Starts the metrics and the cameras. Throws Error(kSource | kConfig | kDevice); all is stopped then.
  void start();
  // Pipeline::reload(). What was before is gone when it returns.
  void change_to(std::unique_ptr<Parts> next);
  // Pipeline::wait_for_end(). Meanwhile camd's threads are kept off the CPUs that serve the GPUs' interrupts.
  [[nodiscard]] EndReason wait(base::TimePoint deadline);
  [[nodiscard]] int stop(EndReason why, base::Duration plugin_patience);
  // Whether stop() or change_to() has left foreign code behind.
  [[nodiscard]] bool hangs() const noexcept { return hangs_; }
  [[nodiscard]] std::string stuck_line() const;
  [[nodiscard]] std::string status_line() const;
  [[nodiscard]] Progress progress() const;
  [[nodiscard]] Snapshot snapshot() const { return reporter_->snapshot(*pipeline_); }
  [[nodiscard]] const Parts& parts() const noexcept { return *parts_; }
  // Those whose device is not lost; all of them where none is left.
  [[nodiscard]] std::vector<LaneParts> lanes_left() const;
  [[nodiscard]] capture::SourceState state_of(std::size_t slot) const {
    return pipeline_->camera_status(static_cast<capture::CameraIndex>(slot)).state;
  }
  [[nodiscard]] Pipeline& pipeline() noexcept { return *pipeline_; }
  [[nodiscard]] Reporter& reporter() noexcept { return *reporter_; }

 private:
  const base::Clock& clock_;
  std::unique_ptr<Parts> parts_;
  std::unique_ptr<Reporter> reporter_;                 // listens to the pipeline, so it outlives it
  std::vector<std::shared_ptr<device::Device>> lost_;  // pictures of cameras may still lie in their host memory
  std::unique_ptr<Pipeline> pipeline_;
  InterruptedCpus interrupted_{clock_, allowed_cpus(), move_threads};
  bool hangs_ = false;
};

}  // namespace camd::pipeline
