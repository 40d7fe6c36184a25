// Session: one run of one configuration. Builds device, engine, plug-ins and pipeline in that order, so that nothing is
// written before everything that can be checked has been checked, and takes them down in reverse.
//
// Threads: constructor, start(), stop() [setup] one thread; wait(), request_end(), abort_lines() [any].
// Invariants: start() throws Error (its kind decides the exit code) and leaves nothing running; after stop() every
// frame is accounted for and every plug-in has finished its files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "config/config.hpp"
#include "pipeline/pipeline.hpp"
#include "pipeline/reporter.hpp"

namespace camd::pipeline {

struct SessionOptions {
  std::uint64_t frame_limit = 0;  // delivered frames after which the run ends; 0: none
};

class Session {
 public:
  // Throws Error(kDevice | kModel | kPlugin | kConfig) with the place in the configuration where there is one.
  Session(const config::Config& config, const SessionOptions& options, const base::Clock& clock, LineSink sink);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Starts the cameras and the metrics. Throws Error(kSource | kConfig | kDevice).
  void start();
  [[nodiscard]] EndReason wait(base::TimePoint deadline);
  void request_end();
  // wait() goes on after a request_end() that has been looked at; one that comes later ends it again.
  void forget_request();
  // Stops everything and returns the exit code: 0; 3 a plug-in could not finish; 4 every camera failed; 5 device lost.
  // The stop line carries it. `reason` is for the user.
  int stop(EndReason why);
  // A line that says where a stop that takes too long is stuck: what is in flight, by camera.
  [[nodiscard]] std::string stuck_line() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

[[nodiscard]] std::string_view to_string(EndReason reason) noexcept;

// Tells the plug-ins what runs. Throws what PluginHost::declare() throws.
void declare_model(PluginHost& plugins, const infer::Engine& engine, const std::string& path,
                   const std::string& card_json, const std::vector<std::string>& camera_names);

// What a configuration asks of the engine.
[[nodiscard]] infer::EngineOptions engine_options(const config::Model& model);

}  // namespace camd::pipeline
