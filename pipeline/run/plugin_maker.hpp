// Makes the instances of a chain: in this process, or in worker processes that it starts.
//
// Threads: [setup]; on_give_up comes on a worker's thread.
// Invariants: entries of one worker's name share its process. An instance keeps its worker alive.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/clock.hpp"
#include "pipeline/plugin/plugin_calls.hpp"
#include "pipeline/plugin/plugin_instance.hpp"
#include "pipeline/plugin/plugin_library.hpp"
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
};

class PluginMaker {
 public:
  PluginMaker(const base::Clock& clock, const PluginHostOptions& options) : clock_(clock), options_(options) {}

  // [blocks] Throws Error(kPlugin), with the entry's place.
  [[nodiscard]] std::shared_ptr<PluginInstance> make(const PluginSpec& spec);

 private:
  [[nodiscard]] std::shared_ptr<PluginInstance> make_here(const PluginSpec& spec) const;
  [[nodiscard]] std::shared_ptr<PluginInstance> make_in_worker(const PluginSpec& spec);
  [[nodiscard]] std::shared_ptr<Worker> worker_for(const PluginSpec& spec);

  const base::Clock& clock_;
  const PluginHostOptions& options_;
  std::map<std::string, std::weak_ptr<Worker>> workers_;  // by name
};

}  // namespace camd::pipeline
