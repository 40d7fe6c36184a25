// Session: what `camd run` runs, one configuration after the other.
//
// A reload is a transaction. The new configuration is compared with the one that runs. What differs is built beside
// what runs: device, engine, plug-ins, cameras. Only when everything could be built, frames take the new way, each
// camera's between two of them (Pipeline::reload()). What does not differ stays: the other cameras lose no frame,
// plug-ins whose entry is the same keep their instance, totals go on. The first start builds everything, by the same
// functions.
//
// Threads: constructor, destructor, start(), reload(), reopen_files(), wait(), forget_request(), stop() [setup] one
// thread; request_end(), stuck_line(), status_line(), progress(), snapshot(),
// find_camera() [any].
// Invariants: a reload that is refused leaves what runs as it was. A camera that cannot be opened refuses nothing: it
// is `failed` or `reconnecting`. Once stopped, every frame is accounted for and every plug-in has finished its files,
// or was named as one that hangs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "config/loader.hpp"
#include "infer/engine.hpp"
#include "pipeline/core/pipeline.hpp"
#include "pipeline/run/plugin_host.hpp"
#include "pipeline/run/reporter.hpp"

namespace camd::pipeline {

// What a plug-in may take for one frame while a reload waits for it.
inline constexpr base::Duration kReloadPatience = std::chrono::seconds(5);

// Reads a configuration.
using ConfigLoader = std::function<config::Reading()>;

// What a configuration names beside the pipeline, and what a reload changes with it: all or nothing.
class SideService {
 public:
  virtual ~SideService() = default;
  // [setup] Makes what the configuration asks for, beside what runs. Throws Error: the start or the reload is refused.
  // commit() or discard() follows, and nothing does after a throw.
  virtual void prepare(const config::Config& next) = 0;
  // [setup] What was prepared stays, and what was there before goes.
  virtual void commit() noexcept = 0;
  // [setup] What was prepared goes. Does nothing where nothing is prepared.
  virtual void discard() noexcept = 0;
};

struct SessionOptions {
  std::uint64_t frame_limit = 0;  // delivered frames after which the run ends; 0: none
  // Told that a drain begins (true) and that all is stopped (false). May be empty. [setup]
  std::function<void(bool)> draining;
  base::Duration plugin_patience = kPluginPatience;
  base::Duration reload_patience = kReloadPatience;
  Patience set_up_patience;     // for each plug-in's create() and outputs()
  RestartPolicy restart{};      // of plug-ins' processes
  SideService* side = nullptr;  // outlives the session
  FrameTap* tap = nullptr;      // outlives the session
  // [setup] Makes the device of a word of the configuration, and throws as device::make_device() does, which it is
  // where this is empty. For tests: a device that can be lost.
  std::function<std::unique_ptr<device::Device>(const std::string& word)> make_device;
};

// How far what runs has come.
struct Progress {
  std::uint64_t finished = 0;  // frames that have passed the device and the plug-ins, or were turned back on the way
  std::int64_t in_flight = 0;  // waiting for it, or there now
};

class Session {
 public:
  // Builds nothing yet. The clock outlives the session.
  Session(ConfigLoader load, SessionOptions options, const base::Clock& clock, LineSink sink);
  ~Session();  // stop(), if something runs
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // [blocks] Loads, builds, starts the cameras and the metrics. Nothing runs yet. Throws Error(kConfig | kDevice |
  // kModel | kPlugin | kSource) with the place in the configuration where there is one; nothing runs then either, but
  // for a plug-in that hangs: see hangs().
  void start();
  // [blocks] Brings what runs to what the configuration says now. Cameras that have failed for good are opened anew.
  // Logs the outcome and writes it as a `reload` line. False: it was refused, with all mistakes in one message, and
  // what runs goes on. Something must run. Refused after kReloadPatience where a plug-in does not return from a frame.
  bool reload();
  // [blocks] The plug-ins open their files anew, because somebody may have renamed or removed them. What cannot be
  // opened is logged. Something must run.
  void reopen_files();
  [[nodiscard]] bool running() const noexcept { return run_ != nullptr; }
  // [any] Whether a plug-in with on_failure: stop was given up: wait() returns kRequested then, and stop() 3.
  [[nodiscard]] bool plugin_given_up() const noexcept { return plugin_given_up_; }

  // [blocks] until what runs ends, or something was asked for, or the deadline has passed. Something must run.
  [[nodiscard]] EndReason wait(base::TimePoint deadline);
  // Makes wait() return kRequested, now or at its next call.
  void request_end();
  // A request has been looked at: wait() goes on. One that comes later ends it again.
  void forget_request();
  // [blocks] Stops everything and returns the exit code: 0; 3 a plug-in could not finish; 4 every camera failed; 5
  // device lost. The stop line carries it and `why`. What hangs is named and left behind within seconds: see hangs().
  int stop(EndReason why);
  // Whether foreign code that was left behind still runs, or destroying what has ended would take long. The destructor
  // waits for that: a process that wants to end leaves without destructors.
  [[nodiscard]] bool hangs() const noexcept {
    return hangs_ || plugin_threads_left_behind() || capture::left_threads_behind();
  }
  // Where a drain that takes too long is stuck: what is in flight, by camera.
  [[nodiscard]] std::string stuck_line() const;
  // How it goes, in one line: the cameras, and why the last reload was refused if it was.
  [[nodiscard]] std::string status_line() const;
  [[nodiscard]] Progress progress() const;
  // Nothing where nothing runs.
  [[nodiscard]] std::optional<Snapshot> snapshot() const;
  // The slot of the camera of that name; nothing where there is none.
  [[nodiscard]] std::optional<capture::CameraIndex> find_camera(std::string_view name) const;

 private:
  struct Parts;  // what one configuration names
  class Run;     // what runs: its parts may change
  [[nodiscard]] std::unique_ptr<Parts> build(config::Reading reading, const Run* run);
  void place_cameras(Parts& next, const Run* running) const;
  void settle_side(bool accepted) const;
  void show(Run* run);

  const ConfigLoader load_;
  const SessionOptions options_;
  const base::Clock& clock_;
  const LineSink sink_;
  // Of instances that are made now.
  [[nodiscard]] PluginHostOptions plugin_options();

  std::atomic<bool> plugin_given_up_{false};
  std::shared_ptr<std::atomic<std::uint32_t>> latest_ =
      std::make_shared<std::atomic<std::uint32_t>>(0);  // as in PluginHostOptions
  std::uint32_t starts_ = 0;                            // the first one, and reloads that changed something
  std::unique_ptr<Run> run_;                            // [setup]
  std::unique_ptr<Run> left_behind_;                    // what was run_, where it hangs
  bool hangs_ = false;
  mutable base::Mutex mutex_;
  Run* shown_ CAMD_GUARDED_BY(mutex_) = nullptr;  // run_, for [any]
  bool end_requested_ CAMD_GUARDED_BY(mutex_) = false;
  std::string refused_ CAMD_GUARDED_BY(mutex_);  // why the last reload was; empty: it was not
};

[[nodiscard]] std::string_view to_string(EndReason reason) noexcept;

// Tells the plug-ins what runs. Throws what PluginHost::declare() throws.
void declare_model(PluginHost& plugins, const infer::Engine& engine, const std::string& path,
                   const std::string& card_json, const std::vector<std::string>& camera_names);

// What a configuration asks of the engine.
[[nodiscard]] infer::EngineOptions engine_options(const config::Model& model);

}  // namespace camd::pipeline
