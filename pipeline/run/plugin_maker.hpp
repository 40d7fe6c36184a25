// Makes the instances of a chain: in this process, or in worker processes that it starts.
//
// Threads: [setup]; on_give_up comes on a worker's thread.
// Invariants: entries of one worker's name share its process. An instance keeps its worker alive, and an entry with an
// instance for each camera its maker.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "pipeline/plugin/plugin_calls.hpp"
#include "pipeline/plugin/plugin_instance.hpp"
#include "pipeline/plugin/plugin_library.hpp"
#include "pipeline/plugin/plugin_question.hpp"
#include "pipeline/plugin_process/remote_plugin.hpp"
#include "pipeline/plugin_process/worker.hpp"

namespace camd::pipeline {

// A plug-in's table, and the library that it lives in; a built-in has none.
struct LoadedPlugin {
  std::unique_ptr<PluginLibrary> library;
  const camd_plugin* table = nullptr;
};

// A built-in by its name, or the library at a path (contains a '/'). Throws Error(kPlugin). What the table holds is not
// looked at.
[[nodiscard]] LoadedPlugin load_plugin(const std::string& plugin);

[[nodiscard]] bool is_python(const std::string& plugin);

struct PluginHostOptions {
  std::uint32_t reloads = 0;  // camd_host.reloads
  Patience patience{};        // for create(), with the loading of a library, and for outputs(); of each plug-in
  RestartPolicy restart{};    // of worker processes
  std::function<void()> on_give_up{};  // a plug-in with on_failure: stop was given up. Any thread. May be empty
  // The largest number that an instance has as camd_host.reloads. Those that are made later, after a restart or for a
  // camera that comes, get the next ones, so that no two of them begin with the same, such as `track`'s identities.
  std::shared_ptr<std::atomic<std::uint32_t>> latest = std::make_shared<std::atomic<std::uint32_t>>(0);
};

class PluginMaker : public std::enable_shared_from_this<PluginMaker> {
 public:
  PluginMaker(const base::Clock& clock, PluginHostOptions options) : clock_(clock), options_(std::move(options)) {}

  // [blocks] Throws Error(kPlugin), with the entry's place. For an entry with several instances this has to be a
  // shared pointer's.
  [[nodiscard]] std::shared_ptr<PluginInstance> make(const PluginSpec& spec);
  // [blocks] Asks a plug-in that is to run in a worker about its configuration, in a process that is granted nothing
  // and ends with the answer. Throws Error(kPlugin), without the entry's place.
  void check(const PluginSpec& spec, PluginQuestion& question);

 private:
  // `reloads`: camd_host.reloads.
  [[nodiscard]] std::shared_ptr<PluginInstance> make_one(const PluginSpec& spec, std::uint32_t reloads);
  [[nodiscard]] std::shared_ptr<PluginInstance> make_here(const PluginSpec& spec, std::uint32_t reloads) const;
  [[nodiscard]] std::shared_ptr<PluginInstance> make_in_worker(const PluginSpec& spec, std::uint32_t reloads);
  [[nodiscard]] std::shared_ptr<RemotePlugin> connect(const PluginSpec& spec, std::uint32_t reloads);
  [[nodiscard]] std::shared_ptr<Worker> worker_for(const PluginSpec& spec);

  const base::Clock& clock_;
  const PluginHostOptions options_;
  std::map<std::string, std::weak_ptr<Worker>> workers_;  // by name
};

}  // namespace camd::pipeline
