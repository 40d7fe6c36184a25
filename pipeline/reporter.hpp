// Reporter: writes the metrics lines: one per camera and one for the process each period, changes of state at once,
// the totals at the end.
//
// Threads: constructor, start(), stop() [setup]; camera_changed(), device_lost() [any], they only note the change; the
// lines are written by the reporter's own thread [metrics], so a slow reader never holds up a frame.
// Invariants: in every camera line captured == delivered + sum(dropped) + in_flight; a broken equation is logged as a
// bug. The pipeline and the sink outlive the reporter.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "pipeline/metrics_lines.hpp"
#include "pipeline/pipeline.hpp"
#include "pipeline/process_stats.hpp"

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
  void start(Pipeline& pipeline, const device::Device& device, const StartLine& line);
  // Ends the periods, writes what has not been written yet (last camera lines, process) and the stop line. Idempotent.
  void stop(int exit_code, const std::string& reason);

  void camera_changed(capture::CameraIndex camera, capture::SourceState state, const std::string& reason) override;
  void device_lost(const std::string& reason) override;

 private:
  struct Change {
    bool device = false;
    capture::CameraIndex camera = 0;
    std::string state;
    std::string reason;
    base::TimePoint when;
  };
  void loop();
  void write_changes();
  void write_period(base::TimePoint now);

  const base::Clock& clock_;
  const base::Duration period_;
  const LineSink sink_;
  Pipeline* pipeline_ = nullptr;
  const device::Device* device_ = nullptr;
  base::TimePoint started_;
  base::TimePoint last_period_;
  std::vector<Totals> last_totals_;
  ProcessSampler sampler_;
  std::thread thread_;
  base::Mutex mutex_;
  base::CondVar wake_;
  bool stopping_ CAMD_GUARDED_BY(mutex_) = false;
  std::vector<Change> changes_ CAMD_GUARDED_BY(mutex_);
};

}  // namespace camd::pipeline
