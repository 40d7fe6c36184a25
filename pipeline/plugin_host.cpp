#include "pipeline/plugin_host.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/log.hpp"
#include "base/mutex.hpp"
#include "pipeline/plugin_library.hpp"
#include "plugins/builtin.hpp"

namespace camd::pipeline {
namespace {

using base::Error;
using base::ErrorKind;
using base::Status;

// Refuses a table before anything of it is called.
void check_table(const camd_plugin& table, const std::string& label) {
  if (table.abi_version != CAMD_PLUGIN_ABI_VERSION) {
    throw Error(ErrorKind::kPlugin,
                fmt::format("plug-in {}: has ABI version {}, this camd speaks version {}: build it against this camd's "
                            "camd_plugin.h",
                            label, table.abi_version, CAMD_PLUGIN_ABI_VERSION));
  }
  if (table.struct_size < sizeof(camd_plugin)) {
    throw Error(ErrorKind::kPlugin, fmt::format("plug-in {}: its table has {} bytes, at least {} are needed", label,
                                                table.struct_size, sizeof(camd_plugin)));
  }
  const auto need = [&label](bool present, const char* what) {
    if (!present) throw Error(ErrorKind::kPlugin, fmt::format("plug-in {}: its table has no {}", label, what));
  };
  need(table.name != nullptr && table.name[0] != '\0', "name");
  need(table.version != nullptr, "version");
  need(table.description != nullptr, "description");
  need(table.create != nullptr, "create()");
  need(table.outputs != nullptr, "outputs()");
  need(table.process != nullptr, "process()");
  need(table.destroy != nullptr, "destroy()");
}

// The plug-in's message: one line, always ended.
std::string message_of(camd_error& error) {
  error.message[CAMD_ERROR_BYTES - 1] = '\0';
  std::string text = error.message[0] == '\0' ? "gave no message" : error.message;
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// What a plug-in wrote, which may be no value of the enumeration.
int number_of(const camd_need& need) noexcept {
  int number = 0;
  static_assert(sizeof(number) == sizeof(need));
  std::memcpy(&number, &need, sizeof(number));
  return number;
}

const char* problem_of(const camd_results& results) noexcept {
  if (results.count < 0 || results.count > results.capacity) return "left a count of detections outside 0..capacity";
  for (std::int32_t i = 0; i < results.count; ++i) {
    camd_detection& d = results.items[i];
    d.class_name[CAMD_CLASS_NAME_BYTES - 1] = '\0';
    if (d.keypoint_count < 0 || d.keypoint_count > CAMD_MAX_KEYPOINTS) {
      return "left a detection whose keypoint_count is outside 0..CAMD_MAX_KEYPOINTS";
    }
    bool finite = std::isfinite(d.score);
    for (const float value : d.box) finite = finite && std::isfinite(value);
    for (std::int32_t k = 0; k < d.keypoint_count; ++k) {
      finite = finite && std::isfinite(d.keypoints[k][0]) && std::isfinite(d.keypoints[k][1]);
    }
    if (!finite) return "left a detection with a number that is not finite";
  }
  return nullptr;
}

}  // namespace

class PluginHost::Plugin {
 public:
  Plugin(const camd_plugin& table, std::unique_ptr<PluginLibrary> library, std::string label, const camd_host& host,
         const std::string& config_json, const std::string& where)
      : library_(std::move(library)), table_(table), label_(std::move(label)) {
    check_table(table_, label_);
    prefix_ = where.empty() ? fmt::format("plug-in {}", label_) : fmt::format("{}: plug-in {}", where, label_);
    camd_error error{};
    if (table_.create(&host, config_json.c_str(), &instance_, &error) != CAMD_OK) {
      throw Error(ErrorKind::kPlugin, fmt::format("{}: {}", prefix_, message_of(error)));
    }
  }
  ~Plugin() { (void)destroy(); }
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  void declare(const camd_model& model) {
    outputs_.assign(static_cast<std::size_t>(model.output_count), CAMD_NEED_NONE);
    camd_needs needs{};
    needs.size = sizeof(needs);
    needs.outputs = outputs_.data();
    camd_error error{};
    if (table_.outputs(instance_, &model, &needs, &error) != CAMD_OK) {
      throw Error(ErrorKind::kPlugin, fmt::format("{}: {}", prefix_, message_of(error)));
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const int wish = number_of(outputs_[i]);
      if (wish < CAMD_NEED_NONE || wish > CAMD_NEED_DEVICE) {
        throw Error(
            ErrorKind::kPlugin,
            fmt::format("{}: outputs() asked for need {} of output {}, which does not exist", prefix_, wish, i));
      }
    }
    const int input = number_of(needs.input), picture = number_of(needs.picture);
    if (input < CAMD_NEED_NONE || input > CAMD_NEED_HOST) {
      throw Error(ErrorKind::kPlugin,
                  fmt::format("{}: the network's input can be had as NONE, SHAPE or HOST", prefix_));
    }
    if (picture != CAMD_NEED_NONE && picture != CAMD_NEED_HOST) {
      throw Error(ErrorKind::kPlugin, fmt::format("{}: the source picture can be had as NONE or HOST", prefix_));
    }
    input_ = needs.input;
    picture_ = picture == CAMD_NEED_HOST;
  }

  // [post] One call at a time.
  [[nodiscard]] int call(const camd_frame& frame, const camd_tensors& tensors, camd_results& results,
                         camd_error& error) noexcept {
    base::MutexLock lock(mutex_);
    camd_frame seen = frame;
    if (!picture_) seen.picture = nullptr;
    return table_.process(instance_, &seen, &tensors, &results, &error);
  }

  // What could not be finished; empty when all is well.
  std::string destroy() noexcept {
    if (instance_ == nullptr && destroyed_) return {};
    destroyed_ = true;
    camd_error error{};
    const int code = table_.destroy(std::exchange(instance_, nullptr), &error);
    return code == CAMD_OK ? std::string() : fmt::format("{}: {}", prefix_, message_of(error));
  }

  [[nodiscard]] const std::string& prefix() const noexcept { return prefix_; }
  [[nodiscard]] const std::vector<camd_need>& outputs() const noexcept { return outputs_; }
  [[nodiscard]] camd_need input() const noexcept { return input_; }
  [[nodiscard]] bool picture() const noexcept { return picture_; }

 private:
  std::unique_ptr<PluginLibrary> library_;  // first member: outlives the instance
  const camd_plugin& table_;
  const std::string label_;
  std::string prefix_;
  void* instance_ = nullptr;
  bool destroyed_ = false;
  base::Mutex mutex_;
  std::vector<camd_need> outputs_;
  camd_need input_ = CAMD_NEED_NONE;
  bool picture_ = false;
};

PluginHost::PluginHost(const std::vector<PluginSpec>& specs, const base::Clock& clock)
    : host_{{sizeof(camd_host), CAMD_VERSION, &PluginHost::log_line, &PluginHost::now}, &clock} {
  for (const PluginSpec& spec : specs) {
    const std::string prefix = spec.where.empty() ? std::string() : spec.where + ": ";
    if (spec.plugin.find('/') == std::string::npos) {
      const camd_plugin* table = plugins::find_builtin(spec.plugin);
      if (table == nullptr) {
        throw Error(ErrorKind::kPlugin,
                    fmt::format("{}plug-in {}: is no built-in (built-ins are {}; a file's path contains a '/', e.g. "
                                "./{}.so)",
                                prefix, spec.plugin, fmt::join(plugins::builtin_names(), ", "), spec.plugin));
      }
      plugins_.push_back(
          std::make_unique<Plugin>(*table, nullptr, spec.plugin, host_.table, spec.config_json, spec.where));
      continue;
    }
    try {
      auto library = std::make_unique<PluginLibrary>(spec.plugin);
      const camd_plugin& table = library->table(spec.plugin);
      plugins_.push_back(
          std::make_unique<Plugin>(table, std::move(library), spec.plugin, host_.table, spec.config_json, ""));
    } catch (const Error& error) {
      throw Error(ErrorKind::kPlugin, prefix + error.what());
    }
  }
}

PluginHost::~PluginHost() { (void)finish(); }

void PluginHost::add(const camd_plugin& table, const std::string& config_json) {
  plugins_.push_back(
      std::make_unique<Plugin>(table, nullptr, table.name ? table.name : "?", host_.table, config_json, ""));
}

void PluginHost::declare(const camd_model& model) {
  needs_ = {};
  needs_.outputs.assign(static_cast<std::size_t>(model.output_count), CAMD_NEED_NONE);
  needs_.device_outputs.assign(static_cast<std::size_t>(model.output_count), false);
  for (const auto& plugin : plugins_) {
    plugin->declare(model);
    for (std::size_t i = 0; i < needs_.outputs.size(); ++i) {
      const camd_need wish = plugin->outputs()[i];
      if (wish == CAMD_NEED_DEVICE) {
        needs_.device_outputs[i] = true;
      } else {
        needs_.outputs[i] = std::max(needs_.outputs[i], wish);
      }
    }
    needs_.input = std::max(needs_.input, plugin->input());
    needs_.picture = needs_.picture || plugin->picture();
  }
}

std::unique_ptr<PluginViews> PluginHost::make_views(const FrameTensors& tensors) const {
  auto made = std::make_unique<PluginViews>();
  made->shapes_ = tensors.host;
  for (DLTensor& shape : made->shapes_) shape.data = nullptr;
  made->input_shape_ = tensors.input;
  made->input_shape_.data = nullptr;
  made->views_.resize(plugins_.size());
  for (std::size_t p = 0; p < plugins_.size(); ++p) {
    const Plugin& plugin = *plugins_[p];
    PluginViews::View& view = made->views_[p];
    view.outputs.assign(tensors.host.size(), nullptr);
    view.device_outputs.assign(tensors.host.size(), nullptr);
    for (std::size_t i = 0; i < tensors.host.size(); ++i) {
      switch (plugin.outputs()[i]) {
        case CAMD_NEED_NONE: break;
        case CAMD_NEED_SHAPE: view.outputs[i] = &made->shapes_[i]; break;
        case CAMD_NEED_HOST: view.outputs[i] = &tensors.host[i]; break;
        case CAMD_NEED_DEVICE: view.device_outputs[i] = &tensors.device[i]; break;
      }
    }
    view.tensors.size = sizeof(camd_tensors);
    view.tensors.output_count = static_cast<std::int32_t>(tensors.host.size());
    view.tensors.outputs = view.outputs.data();
    view.tensors.device_outputs = view.device_outputs.data();
    if (plugin.input() == CAMD_NEED_SHAPE) view.tensors.input = &made->input_shape_;
    if (plugin.input() == CAMD_NEED_HOST) view.tensors.input = &tensors.input;
    view.tensors.stream = tensors.stream;
  }
  return made;
}

Status PluginHost::process(const camd_frame& frame, const PluginViews& views, camd_results& results) noexcept {
  for (std::size_t p = 0; p < plugins_.size(); ++p) {
    camd_error error;
    error.message[0] = '\0';
    if (plugins_[p]->call(frame, views.views_[p].tensors, results, error) != CAMD_OK) {
      return {ErrorKind::kPlugin, fmt::format("{}: {}", plugins_[p]->prefix(), message_of(error))};
    }
    if (const char* problem = problem_of(results)) {
      results.count = 0;
      return {ErrorKind::kPlugin, fmt::format("{}: {}", plugins_[p]->prefix(), problem)};
    }
  }
  return {};
}

std::vector<std::string> PluginHost::finish() noexcept {
  std::vector<std::string> problems;
  while (!plugins_.empty()) {
    if (std::string problem = plugins_.back()->destroy(); !problem.empty()) problems.push_back(std::move(problem));
    plugins_.pop_back();
  }
  return problems;
}

void PluginHost::log_line(const camd_host* /*host*/, camd_log_level level, const char* message) {
  if (message == nullptr) return;
  switch (level) {
    case CAMD_LOG_ERROR: base::log().error("{}", message); break;
    case CAMD_LOG_WARN: base::log().warn("{}", message); break;
    case CAMD_LOG_INFO: base::log().info("{}", message); break;
    default: base::log().debug("{}", message); break;
  }
}

std::int64_t PluginHost::now(const camd_host* host) {
  return base::to_ns(reinterpret_cast<const HostTable*>(host)->clock->now());
}

PluginInfo inspect_plugin(const std::string& path) {
  const PluginLibrary library(path);
  const camd_plugin& table = library.table(path);
  check_table(table, path);
  return {table.name, table.version, table.description, table.abi_version};
}

}  // namespace camd::pipeline
