// PluginInstance: one entry of `postprocess:` as the plug-in host sees it. There are two implementations: in camd's own
// process (in_process_plugin.hpp), and in a worker process (pipeline/plugin_process/remote_plugin.hpp).
//
// Threads: declare(), prepare(), open(), close(), rename(), destroy() [setup]; exchange(), reopen() [setup], between
// two calls; call() [post]; sample() [metrics]; numbers(), works(), works_on() [any]. Invariants: calls of
// one instance never overlap: a lock inside. Nothing is thrown in call(). What call() leaves in the list of detections
// is not checked yet: problem_of() does that.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "pipeline/plugin/frame_events.hpp"
#include "pipeline/plugin/plugin_counters.hpp"
#include "pipeline/plugin/plugin_outlet.hpp"
#include "plugins/camd_plugin.h"

namespace camd::pipeline {

enum class Isolation : std::uint8_t { kNone, kProcess };
enum class OnFailure : std::uint8_t { kDropFrames, kPassThrough, kStop };

// How an entry runs, when it runs in a worker process.
struct IsolationSpec {
  Isolation isolation = Isolation::kNone;
  std::string worker;  // entries of one name share a process; empty: one of its own
  base::Duration deadline = std::chrono::seconds(1);
  std::uint64_t memory_bytes = 0;  // 0: no limit
  OnFailure on_failure = OnFailure::kDropFrames;
  bool network = false;
  bool gpu = false;
  std::vector<std::string> files;  // that may be written: folders and files
  std::string python;              // the interpreter of a plug-in in Python
  bool confined = true;            // false: nothing of the system is taken from its process
  int nice = 0;                    // of its process: 0 as camd, 19 last of all

  friend bool operator==(const IsolationSpec&, const IsolationSpec&) = default;
};

// One entry of `postprocess:`.
struct PluginSpec {
  std::string plugin;              // a built-in's name, or the path of a .so or .py (contains a '/')
  std::string config_json = "{}";  // its `config:` as a JSON object
  std::string where;               // "FILE:LINE:COL: postprocess.0" for messages, may be empty
  IsolationSpec isolation{};
  bool for_each_camera = false;  // an instance for each
  std::string camera{};          // whose instance this is; empty: all cameras

  // "FILE:LINE:COL: postprocess.0: plug-in NAME", how messages begin.
  [[nodiscard]] std::string prefix() const;
  // Whether both are the same but for their place.
  [[nodiscard]] bool is(const PluginSpec& other) const {
    return plugin == other.plugin && config_json == other.config_json && isolation == other.isolation &&
           for_each_camera == other.for_each_camera;
  }
};

// What one plug-in wants of a model.
struct PluginNeeds {
  std::vector<camd_need> outputs;
  camd_need input = CAMD_NEED_NONE;
  bool picture = false;
  std::int32_t detections = 0;
  std::vector<camd_filter> filters{};  // that outputs on the host go through, where that can be done
};
// Checks what outputs() of a plug-in has left; numbers that are no value of their enumeration come as they are.
// Throws Error(kPlugin), its line begins with `prefix`.
[[nodiscard]] PluginNeeds checked_needs(const std::vector<int>& outputs, int input, int picture,
                                        std::int32_t detections, const std::string& prefix);
// The filters that outputs() of a plug-in has left, whose memory it owns. Throws Error(kPlugin) for one that reaches
// beyond the model's outputs, or names one that `wishes` does not want on the host.
[[nodiscard]] std::vector<camd_filter> checked_filters(const camd_needs& needs, const camd_model& model,
                                                       const std::vector<camd_need>& wishes, const std::string& prefix);
// Whether a filter reads values of an output.
[[nodiscard]] bool names(const camd_filter& filter, std::int32_t output) noexcept;

// How a plug-in in a worker process does.
struct PluginHealth {
  bool isolated = false;   // false: the rest says nothing
  std::string_view state;  // running | restarting | failed
  std::uint64_t restarts = 0;
  std::uint64_t frames_lost = 0;      // that it had, or could not be given
  std::uint64_t deadline_missed = 0;  // calls that took too long
  std::uint64_t bytes_copied = 0;     // of tensors and pictures that did not lie in shared memory
  std::string last_error;
  std::string confinement;  // what was taken from its process, in words
};

// How the instance of one camera does.
struct CameraHealth {
  std::string camera;
  PluginHealth health;
};

// One plug-in's own numbers.
struct PluginNumbers {
  std::string_view name;  // the plug-in's own; valid as long as its host, as are the counters' names
  std::vector<CounterValue> counters;
  std::vector<OutletRow> outlet;  // what became of its messages, if it sends any
  PluginHealth health{};
  std::vector<CameraHealth> cameras{};  // with an instance for each, in processes; `health` is what all come to
};

enum class CallResult : std::uint8_t {
  kDone,
  kFailed,   // this frame failed: the error says why
  kMissing,  // the plug-in did not see the frame, which goes on without it
};

// What an instance keeps of one frame in flight.
class PreparedFrame {
 public:
  virtual ~PreparedFrame() = default;
};

class PluginInstance {
 public:
  virtual ~PluginInstance() = default;

  // Asks it what it reads of this model. Throws Error(kPlugin).
  virtual void declare(const camd_model& model) = 0;
  [[nodiscard]] virtual const PluginNeeds& needs() const noexcept = 0;
  // For one frame in flight, whose tensors keep their addresses, as `tensors` itself does. Goes before the instance.
  // May be null. Throws Error(kPlugin).
  [[nodiscard]] virtual std::unique_ptr<PreparedFrame> prepare(const camd_tensors& tensors) = 0;
  // One frame. Of `results` the plug-in changes the count and the elements alone. Where it wrote another place or
  // length for the list, `moved` is set: what the count counts is not in the list then.
  [[nodiscard]] virtual CallResult call(PreparedFrame* prepared, const camd_frame& frame, const camd_tensors& tensors,
                                        camd_results& results, FrameEvents& events, camd_error& error,
                                        bool& moved) noexcept = 0;

  // Lets it bring its gauges up to date, unless it is at work.
  virtual void sample() = 0;
  // What could not be opened; empty when all is well.
  [[nodiscard]] virtual std::string reopen() = 0;
  [[nodiscard]] virtual PluginNumbers numbers() const = 0;

  // ---- Cameras that come and go
  [[nodiscard]] virtual bool knows_cameras() const noexcept = 0;
  [[nodiscard]] virtual const std::vector<std::string>& names() const noexcept = 0;
  virtual void rename(std::vector<std::string> names) = 0;
  // Throws Error(kPlugin).
  [[nodiscard]] virtual void* open(std::int32_t index, const std::string& name) = 0;
  [[nodiscard]] virtual void* exchange(std::int32_t index, void* camera) noexcept = 0;
  // What could not be finished.
  [[nodiscard]] virtual std::string close(void* camera) = 0;

  // What could not be finished; empty when all is well. Calls after the first do nothing.
  virtual std::string destroy() noexcept = 0;

  // Whether it says that it keeps nothing from frame to frame (camd.stateless/1).
  [[nodiscard]] virtual bool stateless() const noexcept { return false; }
  // Whether its calls come back by themselves: a process that takes too long is ended.
  [[nodiscard]] virtual bool bounded() const noexcept = 0;
  // Whether process() is under way, with this frame or with any.
  [[nodiscard]] virtual bool works_on(const FrameEvents& events) const noexcept = 0;
  [[nodiscard]] virtual bool works() const noexcept = 0;

  // Whether an entry of another configuration is this instance's, and its file too.
  [[nodiscard]] virtual bool is(const PluginSpec& spec) const = 0;
  [[nodiscard]] virtual bool is_current() const = 0;
};

[[nodiscard]] std::vector<std::string> camera_names_of(const camd_model& model);

// What is wrong with a list of detections that a plug-in has left; null: nothing.
[[nodiscard]] const char* problem_of(const camd_results& results) noexcept;

}  // namespace camd::pipeline
