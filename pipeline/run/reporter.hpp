// Reporter: writes the metrics lines: one per camera, one per plug-in and one for the process each period, changes of
// state at once, the totals at the end.
//
// Threads: constructor, start(), set_plugins(), set_period(), stop() [setup]; snapshot() [any]; camera_changed(),
// device_lost(), removed(), reloaded() [any], they only note the change; the lines are written by the reporter's own
// thread [metrics], so a slow reader never holds up a frame. Invariants: in every camera line captured == delivered +
// sum(dropped) + in_flight; a broken equation is logged as a bug. The pipeline and the sink outlive the reporter.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "pipeline/core/pipeline.hpp"
#include "pipeline/run/metrics_lines.hpp"
#include "pipeline/run/plugin_host.hpp"
#include "pipeline/run/process_stats.hpp"
#include "pipeline/run/snapshot.hpp"

namespace camd::pipeline {

// Takes one line without its newline. [metrics], and [setup] for the first and the last lines; never two at once.
using LineSink = std::function<void(std::string_view)>;

class Reporter final : public PipelineListener {
 public:
  Reporter(const base::Clock& clock, base::Duration period, LineSink sink);
  ~Reporter() override;
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  // Writes the start line and starts the periods.
  void start(Pipeline& pipeline, PluginHost& plugins, const StartLine& line);
  // [blocks] while the plug-ins that were there before are asked for their numbers; after that nobody asks them.
  void set_plugins(PluginHost& plugins);
  // Counts from now.
  void set_period(base::Duration period);
  // [any] How it is now, read under the locks that the lines take as well. Runs no plug-in's code, and waits neither
  // for one nor for whoever reads the lines.
  [[nodiscard]] Snapshot snapshot(Pipeline& pipeline) const;
  // [any] A line of its own, written soon.
  void reloaded(const ReloadLine& line);
  // Ends the periods, writes what has not been written yet (last camera lines, process) and the stop line. Idempotent.
  void stop(int exit_code, const std::string& reason);

  void camera_changed(capture::CameraIndex camera, capture::SourceState state, const std::string& reason) override;
  void device_lost(const std::string& device, const std::string& reason) override;
  // Its last line.
  void camera_removed(const std::string& name, const Totals& totals) override;

 private:
  struct Change {
    const char* what = "";  // as state_line() has it
    std::string name;
    std::string state;
    std::string reason;
    base::TimePoint when;
  };
  // A camera as the last period's lines told it.
  struct Told {
    std::string name;
    Totals totals;
  };
  void loop();
  void write_changes();
  void write_period(base::TimePoint now);
  void write_camera(const CameraView& camera, double seconds, base::TimePoint now);

  const base::Clock& clock_;
  const LineSink sink_;
  Pipeline* pipeline_ = nullptr;
  base::TimePoint started_;
  base::TimePoint last_period_;
  std::vector<Told> told_;  // [metrics] by slot
  ProcessSampler sampler_;
  std::thread thread_;
  base::Mutex plugins_mutex_;  // held while the plug-ins are asked
  PluginHost* plugins_ CAMD_GUARDED_BY(plugins_mutex_) = nullptr;
  mutable base::Mutex shown_mutex_;  // held while their numbers are read
  PluginHost* shown_plugins_ CAMD_GUARDED_BY(shown_mutex_) = nullptr;
  base::Mutex mutex_;
  base::CondVar wake_;
  bool stopping_ CAMD_GUARDED_BY(mutex_) = false;
  std::vector<Change> changes_ CAMD_GUARDED_BY(mutex_);
  std::vector<std::string> lines_ CAMD_GUARDED_BY(mutex_);  // to be written as they are
  base::Duration period_ CAMD_GUARDED_BY(mutex_);
  base::TimePoint next_ CAMD_GUARDED_BY(mutex_);  // period's end
};

}  // namespace camd::pipeline
