// PluginHost: loads, checks, orders, times and unloads the postprocessors.
//
// Threads: constructor, declare(), finish() [setup]; process() [post], several threads at once: calls of one plug-in's
// instance never overlap (a lock per instance), different plug-ins run side by side for different cameras.
// Invariants: libraries outlive their instances. Plug-ins run in the configured order. Nothing that a plug-in returns
// is trusted: its results are checked after every call. Nothing is thrown in process().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "plugins/camd_plugin.h"

namespace camd::pipeline {

// One entry of `postprocess:`.
struct PluginSpec {
  std::string plugin;              // a built-in's name, or the path of a .so (contains a '/')
  std::string config_json = "{}";  // its `config:` as a JSON object
  std::string where;               // "FILE:LINE:COL: postprocess.0" for messages, may be empty
};

// What all plug-ins together want.
struct MergedNeeds {
  std::vector<camd_need> outputs;  // the strongest wish of each output; HOST and DEVICE may both be wished
  std::vector<bool> device_outputs;
  camd_need input = CAMD_NEED_NONE;
  bool picture = false;
};

// The tensors of one frame in flight, in every place that somebody asked for. Addresses stay the same for ever, so each
// plug-in's view is made once.
struct FrameTensors {
  std::vector<DLTensor> host;    // per output; data is null where only the shape is known
  std::vector<DLTensor> device;  // per output
  DLTensor input{};
  void* stream = nullptr;
};

class PluginViews;

class PluginHost {
 public:
  // Detections a frame can hold.
  static constexpr std::int32_t kResultCapacity = 512;

  // Loads every library, checks its ABI and creates the instances.
  // Throws Error(kPlugin) with the plug-in's name and the reason; nothing is left loaded then.
  PluginHost(const std::vector<PluginSpec>& specs, const base::Clock& clock);
  ~PluginHost();
  PluginHost(const PluginHost&) = delete;
  PluginHost& operator=(const PluginHost&) = delete;

  // Adds an instance of a table that lives in this process (tests). Before declare().
  void add(const camd_plugin& table, const std::string& config_json);

  // Asks every plug-in what it reads of this model. Throws Error(kPlugin).
  void declare(const camd_model& model);
  [[nodiscard]] const MergedNeeds& needs() const noexcept { return needs_; }
  [[nodiscard]] std::size_t size() const noexcept { return plugins_.size(); }

  // [setup] The views of one frame in flight. `tensors` must outlive them and not move.
  [[nodiscard]] std::unique_ptr<PluginViews> make_views(const FrameTensors& tensors) const;

  // [post] Runs the chain. `results.count` is 0 on entry. Stops at the first plug-in that fails: kPlugin with its name
  // and message. `frame.picture` is handed only to those that asked for it.
  base::Status process(const camd_frame& frame, const PluginViews& views, camd_results& results) noexcept;

  // [setup] Destroys the instances in reverse order. Returns what they could not finish, a line each.
  std::vector<std::string> finish() noexcept;

 private:
  class Plugin;
  // What a plug-in gets as its host. `table` is the first member, so the address of one is the address of the other.
  struct HostTable {
    camd_host table;
    const base::Clock* clock;
  };
  static void log_line(const camd_host* host, camd_log_level level, const char* message);
  static std::int64_t now(const camd_host* host);

  HostTable host_;
  std::vector<std::unique_ptr<Plugin>> plugins_;
  MergedNeeds needs_;
};

// What every plug-in sees of one frame in flight.
class PluginViews {
 private:
  friend class PluginHost;
  struct View {
    std::vector<const DLTensor*> outputs;
    std::vector<const DLTensor*> device_outputs;
    camd_tensors tensors{};
  };
  std::vector<View> views_;
  // Tensors without data, for those who asked for shapes only.
  std::vector<DLTensor> shapes_;
  DLTensor input_shape_{};
};

// What `camd plugin FILE.so` prints. Loads the library, checks its table, runs nothing else of it.
// Throws Error(kPlugin) with the reason for a refusal.
struct PluginInfo {
  std::string name;
  std::string version;
  std::string description;
  std::uint32_t abi_version = 0;
};
[[nodiscard]] PluginInfo inspect_plugin(const std::string& path);

}  // namespace camd::pipeline
