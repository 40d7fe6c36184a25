#include "pipeline/run/plugin_maker.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "config/suggest.hpp"
#include "pipeline/plugin/in_process_plugin.hpp"
#include "pipeline/run/camera_instances.hpp"
#include "pipeline/run/instance_pool.hpp"
#include "plugins/builtin.hpp"

namespace camd::pipeline {

using base::Error;
using base::ErrorKind;

namespace {

bool is_path(const std::string& plugin) { return plugin.find('/') != std::string::npos; }

Error no_builtin(const std::string& plugin) {
  const std::vector<std::string_view> names = plugins::builtin_names();
  const std::string_view meant = config::nearest(plugin, names);
  return {ErrorKind::kPlugin,
          fmt::format("plug-in {}: is no built-in{} (built-ins are {}; a file's path contains a '/', e.g. ./{}.so)",
                      plugin, meant.empty() ? std::string() : fmt::format(", did you mean {}?", meant),
                      fmt::join(names, ", "), plugin)};
}

// What is installed beside camd, or lies in its build's folders.
std::string installed(const std::string& what, std::initializer_list<const char*> folders) {
  const std::string program = program_folder();
  std::string first;
  for (const char* folder : folders) {
    std::string path = fmt::format("{}/{}/{}", program, folder, what);
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return path;
    if (first.empty()) first = path;
  }
  throw Error(ErrorKind::kPlugin, fmt::format("{} is not there: it is installed with camd", first));
}

// What the worker loads.
std::string file_of(const std::string& plugin) {
  if (is_path(plugin)) return plugin;
  if (plugins::find_builtin(plugin) == nullptr) throw no_builtin(plugin);
  return installed("camd_plugin_" + plugin + ".so", {"../" CAMD_LIBRARY_FOLDER "/camd", "../lib"});
}

}  // namespace

LoadedPlugin load_plugin(const std::string& plugin) {
  LoadedPlugin loaded;
  if (is_path(plugin)) {
    loaded.library = std::make_unique<PluginLibrary>(plugin);
    loaded.table = &loaded.library->table(plugin);
    return loaded;
  }
  loaded.table = plugins::find_builtin(plugin);
  if (loaded.table == nullptr) throw no_builtin(plugin);
  return loaded;
}

bool is_python(const std::string& plugin) { return plugin.ends_with(".py"); }

std::shared_ptr<PluginInstance> PluginMaker::make(const PluginSpec& spec) {
  if (!spec.for_each_camera) {
    std::shared_ptr<PluginInstance> first = make_one(spec, options_.reloads);
    if (!first->stateless()) return first;
    return std::make_shared<InstancePool>(std::move(first), [maker = shared_from_this(), spec] {
      return maker->make_one(spec, maker->options_.reloads);
    });
  }
  return std::make_shared<CameraInstances>(
      spec, [maker = shared_from_this(), spec](const std::string& camera, bool late) {
        PluginSpec one = spec;
        one.camera = camera;
        return maker->make_one(one, late ? ++*maker->options_.latest : maker->options_.reloads);
      });
}

std::shared_ptr<PluginInstance> PluginMaker::make_one(const PluginSpec& spec, std::uint32_t reloads) {
  const std::string prefix = spec.where.empty() ? std::string() : spec.where + ": ";
  try {
    return spec.isolation.isolation == Isolation::kProcess ? make_in_worker(spec, reloads) : make_here(spec, reloads);
  } catch (const Error& error) {
    const std::string text = error.what();
    throw Error(ErrorKind::kPlugin, !prefix.empty() && text.starts_with(prefix) ? text : prefix + text);
  }
}

std::shared_ptr<PluginInstance> PluginMaker::make_here(const PluginSpec& spec, std::uint32_t reloads) const {
  Aside<std::shared_ptr<PluginInstance>> work([spec, &clock = clock_, reloads] {
    LoadedPlugin loaded = load_plugin(spec.plugin);
    return std::make_shared<InProcessPlugin>(*loaded.table, std::move(loaded.library), spec, clock, reloads);
  });
  if (std::optional<std::shared_ptr<PluginInstance>> made = work.wait_for(options_.patience)) return *made;
  throw Error(ErrorKind::kPlugin,
              fmt::format("{}: hangs in create(), or while its library is loaded: it is left behind", spec.prefix()));
}

std::shared_ptr<Worker> PluginMaker::worker_for(const PluginSpec& spec) {
  const IsolationSpec& isolation = spec.isolation;
  WorkerSpec wanted;
  wanted.order.name = isolation.worker;
  if (wanted.order.name.empty()) {
    wanted.order.name = std::filesystem::path(spec.plugin).stem().string();
    if (!spec.camera.empty()) wanted.order.name += ":" + spec.camera;
  }
  wanted.order.network = isolation.network;
  wanted.order.gpu = isolation.gpu;
  wanted.order.files = isolation.files;
  wanted.order.memory_bytes = isolation.memory_bytes;
  wanted.order.nice = isolation.nice;
  wanted.order.confined = isolation.confined;
  if (is_python(spec.plugin)) wanted.order.python = isolation.python.empty() ? "python3" : isolation.python;
  if (!isolation.worker.empty()) {
    if (std::shared_ptr<Worker> there = workers_[isolation.worker].lock()) {
      const wire::WorkerOrder& has = there->spec().order;
      if (has.network == isolation.network && has.gpu == isolation.gpu && has.files == isolation.files &&
          has.memory_bytes == isolation.memory_bytes && has.nice == isolation.nice &&
          has.python == wanted.order.python) {
        return there;
      }
      throw Error(
          ErrorKind::kPlugin,
          fmt::format("{}: worker: {}: plug-ins that share a process have the same allow, memory, nice and python, "
                      "and are all libraries or all Python",
                      spec.prefix(), isolation.worker));
    }
  }
  wanted.program = installed("camd-plugin", {".", "../" CAMD_PROGRAM_FOLDER "/camd"});
  if (!wanted.order.python.empty()) {
    const std::string script = installed("camd_worker.py", {"../" CAMD_LIBRARY_FOLDER "/camd/python", "../lib/python"});
    wanted.order.python_code = script.substr(0, script.rfind('/'));
  }
  wanted.restart = options_.restart;
  auto made = std::make_shared<Worker>(std::move(wanted));
  if (!isolation.worker.empty()) workers_[isolation.worker] = made;
  return made;
}

std::shared_ptr<RemotePlugin> PluginMaker::connect(const PluginSpec& spec, std::uint32_t reloads) {
  const std::string file = file_of(spec.plugin);
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) {
    throw Error(ErrorKind::kPlugin, fmt::format("plug-in {}: no such file", spec.plugin));
  }
  RemotePatience patience;
  patience.set_up = options_.patience.longest;
  patience.stop_asked = options_.patience.stop_asked;
  return std::make_shared<RemotePlugin>(worker_for(spec), spec, file, RemoteReloads{reloads, options_.latest},
                                        std::move(patience), options_.on_give_up);
}

std::shared_ptr<PluginInstance> PluginMaker::make_in_worker(const PluginSpec& spec, std::uint32_t reloads) {
  std::shared_ptr<RemotePlugin> made = connect(spec, reloads);
  made->create();
  return made;
}

void PluginMaker::check(const PluginSpec& spec, PluginQuestion& question) {
  PluginSpec bare = spec;
  bare.where.clear();
  bare.isolation.worker.clear();
  bare.isolation.network = bare.isolation.gpu = false;
  bare.isolation.files.clear();
  connect(bare, options_.reloads)->check(question);
}

}  // namespace camd::pipeline
