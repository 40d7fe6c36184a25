// PluginHost: loads, checks, orders, times and unloads the postprocessors, and offers them the interface's extensions.
//
// A reload makes another host beside the one that runs. Where it can, it shares instances with it: the instance, its
// counters and its files go on. The last host that has an instance destroys it.
//
// Threads: constructor, add(), declare(), enter(), leave(), reopen(), finish() [setup]; counters() [metrics]; numbers()
// [any] after declare() and before finish(); process() of what prepare() made [post], several threads at once: calls of
// one plug-in's instance never overlap (a lock per instance), different plug-ins run side by side for different
// cameras. Invariants: libraries outlive their instances. Plug-ins run in the configured order. Nothing that a plug-in
// returns is trusted: its results and events are checked after every call. Nothing is thrown in process().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "pipeline/core/postprocessor_chain.hpp"
#include "pipeline/plugin/plugin_instance.hpp"
#include "pipeline/run/plugin_maker.hpp"
#include "plugins/camd_plugin.h"

namespace camd::pipeline {

class PluginHost final : public PostprocessorChain {
 public:
  // Loads every library, checks its ABI and creates the instances, each on a thread of its own. Throws Error(kPlugin)
  // with the plug-in's name and the reason; nothing is left loaded then, but for one that hangs, which is left behind
  // with its thread. All of them that fail are named, a line each.
  PluginHost(const std::vector<PluginSpec>& specs, const base::Clock& clock, PluginHostOptions options = {});
  // For a reload with the same model: shares the instances of `running` whose entries are the same and, where they come
  // from a library, whose file is the same too. With `other_cameras` only those that offer camd.cameras/1.
  PluginHost(const std::vector<PluginSpec>& specs, const base::Clock& clock, PluginHostOptions options,
             const PluginHost& running, bool other_cameras);
  ~PluginHost() override;
  PluginHost(const PluginHost&) = delete;
  PluginHost& operator=(const PluginHost&) = delete;

  // Adds an instance of a table that lives in this process (tests). Before declare().
  void add(const camd_plugin& table, const std::string& config_json);

  // Asks every plug-in what it reads of this model; those that it shares get ready for cameras that are new in it.
  // Throws Error(kPlugin) with all reasons, a line each. One that hangs is left behind.
  void declare(const camd_model& model);
  // The reload will not be refused any more: cameras that are new may send frames to shared instances.
  void enter() noexcept;
  // Cameras that are gone send none any more. Returns what shared instances could not finish of them, a line each.
  std::vector<std::string> leave() noexcept;
  // Lets those plug-ins that want it open their files anew, each between two of its frames. Returns what they could not
  // open, a line each. Before finish().
  std::vector<std::string> reopen();
  // Whether every library's file is still the one that was loaded.
  [[nodiscard]] bool is_current() const;
  [[nodiscard]] const MergedNeeds& needs() const noexcept override { return needs_; }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

  [[nodiscard]] std::unique_ptr<FramePostprocessing> prepare(const FrameTensors& tensors) override;
  [[nodiscard]] std::shared_ptr<std::byte> shared_memory(std::size_t size_bytes) override;

  // [metrics] The plug-ins' own numbers, in their order. First lets those plug-ins that want it bring theirs up to
  // date, unless they are working on a frame just then. After finish() the last ones. One call at a time.
  [[nodiscard]] std::vector<PluginNumbers> counters();
  // [any] The same as they were told last: runs no plug-in's code and waits for none.
  [[nodiscard]] std::vector<PluginNumbers> numbers() const;

  // [setup] [blocks] Destroys the instances in reverse order, but for those that another host shares. Returns what they
  // could not finish, a line each. One that is still in process() is left as it is. After `patience` of real time those
  // that are left are destroyed all at once; one whose destroy() does not return is left behind. Idempotent.
  std::vector<std::string> finish(base::Duration patience = kFinishPatience) noexcept;
  // [setup] Whether declare() or finish() has left an instance behind: foreign code still runs in this process.
  [[nodiscard]] bool hangs() const noexcept { return hangs_; }

 private:
  class Frame;
  // What a shared instance has made for a camera, and not yet got.
  struct Opened {
    std::int32_t index = 0;
    void* camera = nullptr;
  };
  struct Entry {
    std::shared_ptr<PluginInstance> plugin;  // null after finish(), where another host has it
    std::string prefix;                      // of messages: the place in the configuration and the plug-in's name
    bool shared = false;                     // with the host that ran before
    std::vector<Opened> opened;              // between declare() and enter()
    std::vector<std::int32_t> gone;          // until leave()
    bool left_behind = false;                // it hangs
    bool filtered = false;                   // outputs that its filters name come filtered
    std::size_t first_filter = 0;            // its first one in MergedNeeds::filters
  };
  PluginHost(const std::vector<PluginSpec>& specs, const base::Clock& clock, PluginHostOptions options,
             const PluginHost* running, bool other_cameras);
  [[nodiscard]] static bool entry_is(const PluginSpec& entry, const PluginSpec& spec);
  [[nodiscard]] static bool entry_is(const Entry& entry, const PluginSpec& spec);
  void declare(Entry& entry, const camd_model& model);
  void prepare_cameras(Entry& entry, const std::vector<std::string>& names);
  [[nodiscard]] static bool filters(const PluginInstance& plugin, std::size_t output);
  [[nodiscard]] std::vector<bool> read_whole() const;
  void merge_filters();

  const base::Clock& clock_;
  const PluginHostOptions options_;
  std::vector<Entry> entries_;
  std::vector<std::string> names_;  // of the cameras, by index, for shared instances
  MergedNeeds needs_;
  bool hangs_ = false;
};

// What `camd plugin FILE.so` prints. Loads the library, checks its table, runs nothing else of it.
// Throws Error(kPlugin) with the reason for a refusal.
struct PluginInfo {
  std::string name;
  std::string version;
  std::string description;
  std::uint32_t abi_version = 0;
  std::vector<std::string> extensions;  // of those that camd knows
};
[[nodiscard]] PluginInfo inspect_plugin(const std::string& path);

}  // namespace camd::pipeline
