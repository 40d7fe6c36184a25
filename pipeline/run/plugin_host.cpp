// Setting plug-ins up, and running them for each frame with what they return checked.
#include "pipeline/run/plugin_host.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "base/log.hpp"
#include "base/mutex.hpp"
#include "pipeline/run/bounded_text.hpp"
#include "pipeline/run/frame_events.hpp"
#include "pipeline/run/plain_model.hpp"
#include "pipeline/run/plugin_calls.hpp"
#include "pipeline/run/plugin_library.hpp"
#include "plugins/builtin.hpp"

namespace camd::pipeline {
namespace {

using base::Error;
using base::ErrorKind;
using base::Status;

// What a plug-in may offer, by name, and camd knows.
constexpr std::array kPluginExtensions = {CAMD_EXTENSION_COUNTERS, CAMD_EXTENSION_CAMERAS, CAMD_EXTENSION_REOPEN,
                                          CAMD_EXTENSION_CHECK};

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
    const camd_detection& d = results.items[i];
    if (!ends(d.class_name)) return "left a detection whose class_name does not end";
    if (!ends(d.text)) return "left a detection whose text does not end";
    if (d.keypoint_count < 0 || d.keypoint_count > CAMD_MAX_KEYPOINTS) {
      return "left a detection whose keypoint_count is outside 0..CAMD_MAX_KEYPOINTS";
    }
    bool finite = std::isfinite(d.score);
    for (const float value : d.box) finite = finite && std::isfinite(value);
    for (std::int32_t k = 0; k < d.keypoint_count; ++k) {
      finite = finite && std::isfinite(d.keypoints[k][0]) && std::isfinite(d.keypoints[k][1]);
    }
    if (!finite) return "left a detection with a number that is not finite";
    if (std::any_of(std::begin(d.reserved), std::end(d.reserved), [](std::uint32_t word) { return word != 0; })) {
      return "left a detection whose reserved words are not 0";
    }
  }
  return nullptr;
}

}  // namespace

// One instance, and what it sees as its host.
class PluginHost::Plugin {
 public:
  Plugin(const camd_plugin& table, std::unique_ptr<PluginLibrary> library, PluginSpec spec, const base::Clock& clock,
         std::uint32_t reloads)
      : library_(std::move(library)),
        table_(table),
        spec_(std::move(spec)),
        clock_(clock),
        host_{{sizeof(camd_host), CAMD_VERSION, &log_line, &now, &get_extension, reloads}, this} {
    check_table(table_, spec_.plugin);
    prefix_ = prefix_of(spec_);
    sampler_ = functions_of(table_, prefix_, CAMD_EXTENSION_COUNTERS, &camd_plugin_counters::sample);
    cameras_ = functions_of(table_, prefix_, CAMD_EXTENSION_CAMERAS, &camd_plugin_cameras::open,
                            &camd_plugin_cameras::exchange, &camd_plugin_cameras::close);
    reopener_ = functions_of(table_, prefix_, CAMD_EXTENSION_REOPEN, &camd_plugin_reopen::reopen);
    camd_error error = no_error();
    const auto create = [&] { return table_.create(&host_.table, spec_.config_json.c_str(), &instance_, &error); };
    if (guarded(error, create) != CAMD_OK) {
      throw Error(ErrorKind::kPlugin, fmt::format("{}: {}", prefix_, message_of(error)));
    }
    instance_for_setup_ = instance_;
    process_ = table_.process;
  }
  ~Plugin() { (void)destroy(); }
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  void declare(const camd_model& model) {
    names_ = names_of(model);
    outputs_.assign(static_cast<std::size_t>(model.output_count), CAMD_NEED_NONE);
    camd_needs needs{};
    needs.struct_size = sizeof(needs);
    needs.outputs = outputs_.data();
    needs.detections = CAMD_DEFAULT_DETECTIONS;
    camd_error error = no_error();
    {
      base::MutexLock lock(mutex_);
      void* const instance = instance_;
      if (guarded(error, [&] { return table_.outputs(instance, &model, &needs, &error); }) != CAMD_OK) {
        throw Error(ErrorKind::kPlugin, fmt::format("{}: {}", prefix_, message_of(error)));
      }
    }
    counters_.close();
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
    if (needs.detections < 0 || needs.detections > CAMD_MAX_DETECTIONS) {
      throw Error(ErrorKind::kPlugin,
                  fmt::format("{}: outputs() asked for room for {} detections a frame, 0 to {} can be had", prefix_,
                              needs.detections, CAMD_MAX_DETECTIONS));
    }
    input_ = needs.input;
    picture_ = picture == CAMD_NEED_HOST;
    detections_ = needs.detections;
  }

  // [post] One call at a time. Of `results` the plug-in changes the count and the elements alone. Where it wrote
  // another place or length for the list, `moved` is set: what the count counts is not in the list then.
  [[nodiscard]] int call(const camd_frame& frame, const camd_tensors& tensors, camd_results& results,
                         FrameEvents& events, camd_error& error, bool& moved) noexcept {
    base::MutexLock lock(mutex_);
    camd_frame seen = frame;
    if (!picture_) seen.picture = nullptr;
    camd_results list = results;
    events_.store(&events, std::memory_order_relaxed);
    void* const instance = instance_;
    const auto process = process_;
    const int code = guarded(error, [&] { return process(instance, &seen, &tensors, &list, &error); });
    events_.store(nullptr, std::memory_order_relaxed);
    results.count = list.count;
    moved = list.items != results.items || list.capacity != results.capacity;
    return code;
  }

  // [metrics] Lets the plug-in bring its gauges up to date, unless it is at work.
  void sample() {
    if (sampler_ == nullptr) return;
    if (!mutex_.try_lock()) return;
    camd_error error = no_error();
    void* const instance = instance_;
    const int code =
        destroyed_ ? static_cast<int>(CAMD_OK) : guarded(error, [&] { return sampler_->sample(instance, &error); });
    mutex_.unlock();
    if (code == CAMD_OK) {
      sample_failing_ = false;
    } else if (!std::exchange(sample_failing_, true)) {
      base::log().warn("{}: sample(): {} (further failures in a row are not told)", prefix_, message_of(error));
    }
  }
  // [setup] beside frames. What could not be opened; empty when all is well.
  [[nodiscard]] std::string reopen() {
    if (reopener_ == nullptr) return {};
    const base::MutexLock lock(mutex_);
    camd_error error = no_error();
    void* const instance = instance_;
    const int code = guarded(error, [&] { return reopener_->reopen(instance, &error); });
    return code == CAMD_OK ? std::string() : message_of(error);
  }
  [[nodiscard]] PluginNumbers numbers() const {
    constexpr std::size_t kLongestName = 64;
    return {std::string_view(table_.name).substr(0, kLongestName), counters_.read(), outlet_.rows()};
  }

  // ---- Cameras that come and go. [setup], beside process()
  [[nodiscard]] bool knows_cameras() const noexcept { return cameras_ != nullptr; }
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }
  void rename(std::vector<std::string> names) { names_ = std::move(names); }
  [[nodiscard]] static std::vector<std::string> names_of(const camd_model& model) {
    return {model.camera_names, model.camera_names + model.camera_count};
  }
  // Throws Error(kPlugin).
  [[nodiscard]] void* open(std::int32_t index, const std::string& name) const {
    camd_error error = no_error();
    void* camera = nullptr;
    const auto call = [&] { return cameras_->open(instance_for_setup_, index, name.c_str(), &camera, &error); };
    if (guarded(error, call) != CAMD_OK) {
      throw Error(ErrorKind::kPlugin, fmt::format("camera '{}': {}", name, message_of(error)));
    }
    return camera;
  }
  [[nodiscard]] void* exchange(std::int32_t index, void* camera) noexcept {
    const base::MutexLock lock(mutex_);
    camd_error error = no_error();
    void* before = nullptr;
    void* const instance = instance_;
    const auto call = [&] {
      before = cameras_->exchange(instance, index, camera);
      return std::int32_t{CAMD_OK};
    };
    if (guarded(error, call) != CAMD_OK) base::log().error("{}: camera {}: {}", prefix_, index, message_of(error));
    return before;
  }
  // What could not be finished.
  [[nodiscard]] std::string close(void* camera) const {
    if (camera == nullptr) return {};
    camd_error error = no_error();
    const int code = guarded(error, [&] { return cameras_->close(instance_for_setup_, camera, &error); });
    return code == CAMD_OK ? std::string() : message_of(error);
  }
  // What could not be finished; empty when all is well. Calls after the first do nothing.
  std::string destroy() noexcept {
    base::MutexLock lock(mutex_);
    if (std::exchange(destroyed_, true)) return {};
    process_ = &gone;  // a frame may come out of another plug-in that was left behind
    camd_error error = no_error();
    void* const instance = std::exchange(instance_, nullptr);
    const int code = guarded(error, [&] { return table_.destroy(instance, &error); });
    return code == CAMD_OK ? std::string() : message_of(error);
  }

  // [any] Whether process() is under way, with this frame or with any.
  [[nodiscard]] bool works_on(const FrameEvents& events) const noexcept {
    return events_.load(std::memory_order_relaxed) == &events;
  }
  [[nodiscard]] bool works() const noexcept { return events_.load(std::memory_order_relaxed) != nullptr; }

  // [setup] Whether an entry of another configuration is this instance's, and its library's file too.
  [[nodiscard]] bool is(const PluginSpec& spec) const {
    return spec.plugin == spec_.plugin && spec.config_json == spec_.config_json && is_current();
  }
  [[nodiscard]] bool is_current() const { return library_ == nullptr || library_->is_current(spec_.plugin); }
  [[nodiscard]] static std::string prefix_of(const PluginSpec& spec) {
    return fmt::format("{}{}plug-in {}", spec.where, spec.where.empty() ? "" : ": ", spec.plugin);
  }
  [[nodiscard]] const std::vector<camd_need>& outputs() const noexcept { return outputs_; }
  [[nodiscard]] camd_need input() const noexcept { return input_; }
  [[nodiscard]] bool picture() const noexcept { return picture_; }
  [[nodiscard]] std::int32_t detections() const noexcept { return detections_; }

 private:
  // `table` is the first member, so the address of one is the address of the other.
  struct HostTable {
    camd_host table;
    Plugin* plugin;
  };
  static std::int32_t gone(void* /*instance*/, const camd_frame* /*frame*/, const camd_tensors* /*tensors*/,
                           camd_results* /*results*/, camd_error* error) {
    std::snprintf(error->message, sizeof(error->message), "has ended");
    return CAMD_ERROR_FAILED;
  }
  static const camd_counters kCounters;
  static const camd_events kEvents;
  static const camd_outlet kOutlet;

  // The functions behind these tables.
  static Plugin& plugin_of(const camd_host* host) noexcept { return *reinterpret_cast<const HostTable*>(host)->plugin; }
  static void log_line(const camd_host* host, camd_log_level level, const char* message);
  static std::int64_t now(const camd_host* host) { return base::to_ns(plugin_of(host).clock_.now()); }
  static const void* get_extension(const camd_host* host, const char* id);
  static std::int32_t make_counter(const camd_host* host, camd_counter_kind kind, const char* name,
                                   camd_counter** counter, camd_error* error) {
    int number = 0;  // which may be no value of the enumeration
    static_assert(sizeof(number) == sizeof(kind));
    std::memcpy(&number, &kind, sizeof(number));
    return plugin_of(host).counters_.make(number, name, counter, error);
  }
  static std::int32_t report_outlet(const camd_host* host, const camd_outlet_row* rows, std::int32_t count,
                                    camd_error* error) {
    return plugin_of(host).outlet_.report(rows, count, error);
  }
  static std::int32_t count_events(const camd_host* host) {
    const FrameEvents* events = plugin_of(host).events_.load(std::memory_order_relaxed);
    return events != nullptr ? events->count() : 0;
  }
  static const camd_event* get_event(const camd_host* host, std::int32_t index) {
    const FrameEvents* events = plugin_of(host).events_.load(std::memory_order_relaxed);
    return events != nullptr ? events->get(index) : nullptr;
  }
  static std::int32_t add_event(const camd_host* host, const camd_event* event) {
    FrameEvents* events = plugin_of(host).events_.load(std::memory_order_relaxed);
    return events != nullptr ? events->add(event) : std::int32_t{CAMD_ERROR_INVALID};
  }

  std::unique_ptr<PluginLibrary> library_;  // first member: outlives the instance
  const camd_plugin& table_;
  const PluginSpec spec_;
  std::string prefix_;              // of what the constructor and declare() say, and sample()
  std::vector<std::string> names_;  // [setup] of the cameras, by index
  const base::Clock& clock_;
  const HostTable host_;
  PluginCounters counters_;
  PluginOutlet outlet_;
  const camd_plugin_counters* sampler_ = nullptr;
  const camd_plugin_cameras* cameras_ = nullptr;
  const camd_plugin_reopen* reopener_ = nullptr;
  bool sample_failing_ = false;                 // [metrics]
  std::atomic<FrameEvents*> events_ = nullptr;  // of the frame that process() is working on
  base::Mutex mutex_;
  void* instance_ CAMD_GUARDED_BY(mutex_) = nullptr;
  decltype(camd_plugin::process) process_ CAMD_GUARDED_BY(mutex_) = nullptr;
  void* instance_for_setup_ = nullptr;  // the same, for calls that may run beside process()
  bool destroyed_ CAMD_GUARDED_BY(mutex_) = false;
  std::vector<camd_need> outputs_;
  camd_need input_ = CAMD_NEED_NONE;
  bool picture_ = false;
  std::int32_t detections_ = 0;
};

const camd_counters PluginHost::Plugin::kCounters{sizeof(camd_counters), &Plugin::make_counter, &PluginCounters::add,
                                                  &PluginCounters::set};
const camd_events PluginHost::Plugin::kEvents{sizeof(camd_events), &Plugin::count_events, &Plugin::get_event,
                                              &Plugin::add_event};
const camd_outlet PluginHost::Plugin::kOutlet{sizeof(camd_outlet), &Plugin::report_outlet};

void PluginHost::Plugin::log_line(const camd_host* /*host*/, camd_log_level level, const char* message) {
  if (message == nullptr) return;
  switch (level) {
    case CAMD_LOG_ERROR: base::log().error("{}", message); break;
    case CAMD_LOG_WARN: base::log().warn("{}", message); break;
    case CAMD_LOG_INFO: base::log().info("{}", message); break;
    default: base::log().debug("{}", message); break;
  }
}

const void* PluginHost::Plugin::get_extension(const camd_host* /*host*/, const char* id) {
  if (id == nullptr) return nullptr;
  const std::string_view name(id);
  if (name == CAMD_EXTENSION_COUNTERS) return &kCounters;
  if (name == CAMD_EXTENSION_EVENTS) return &kEvents;
  if (name == CAMD_EXTENSION_OUTLET) return &kOutlet;
  return nullptr;
}

PluginHost::PluginHost(const std::vector<PluginSpec>& specs, const base::Clock& clock, PluginHostOptions options)
    : PluginHost(specs, clock, std::move(options), nullptr, false) {}

PluginHost::PluginHost(const std::vector<PluginSpec>& specs, const base::Clock& clock, PluginHostOptions options,
                       const PluginHost& running, bool other_cameras)
    : PluginHost(specs, clock, std::move(options), &running, other_cameras) {}

PluginHost::PluginHost(const std::vector<PluginSpec>& specs, const base::Clock& clock, PluginHostOptions options,
                       const PluginHost* running, bool other_cameras)
    : clock_(clock), options_(std::move(options)) {
  std::vector<std::string> problems;
  for (const PluginSpec& spec : specs) {
    std::shared_ptr<Plugin> plugin;
    // More of one kind than there were cannot be shared in part: the new one would not see that the old one stays.
    const auto same = [&spec](const auto& entry) { return entry_is(entry, spec); };
    const bool more = running != nullptr && std::count_if(specs.begin(), specs.end(), same) >
                                                std::count_if(running->entries_.begin(), running->entries_.end(), same);
    if (running != nullptr && !more) {
      for (const Entry& entry : running->entries_) {
        const bool taken = std::any_of(entries_.begin(), entries_.end(),
                                       [&](const Entry& mine) { return mine.plugin == entry.plugin; });
        if (!taken && entry.plugin->is(spec) && (!other_cameras || entry.plugin->knows_cameras())) {
          plugin = entry.plugin;
          break;
        }
      }
    }
    const bool shared = plugin != nullptr;
    try {
      if (!shared) plugin = make(spec);
      entries_.push_back({std::move(plugin), Plugin::prefix_of(spec), shared, {}, {}});
    } catch (const Error& error) {
      problems.emplace_back(error.what());
    }
  }
  if (!problems.empty()) throw Error(ErrorKind::kPlugin, fmt::format("{}", fmt::join(problems, "\n")));
}

bool PluginHost::entry_is(const PluginSpec& entry, const PluginSpec& spec) {
  return entry.plugin == spec.plugin && entry.config_json == spec.config_json;
}

bool PluginHost::entry_is(const Entry& entry, const PluginSpec& spec) { return entry.plugin->is(spec); }

std::shared_ptr<PluginHost::Plugin> PluginHost::make(const PluginSpec& spec) const {
  Aside<std::shared_ptr<Plugin>> work([spec, &clock = clock_, reloads = options_.reloads] {
    const std::string prefix = spec.where.empty() ? std::string() : spec.where + ": ";
    try {
      LoadedPlugin loaded = load_plugin(spec.plugin);
      return std::make_shared<Plugin>(*loaded.table, std::move(loaded.library), spec, clock, reloads);
    } catch (const Error& error) {
      const std::string text = error.what();
      throw Error(ErrorKind::kPlugin, !prefix.empty() && text.starts_with(prefix) ? text : prefix + text);
    }
  });
  if (std::optional<std::shared_ptr<Plugin>> made = work.wait_for(options_.patience)) return *made;
  throw Error(
      ErrorKind::kPlugin,
      fmt::format("{}: hangs in create(), or while its library is loaded: it is left behind", Plugin::prefix_of(spec)));
}

PluginHost::~PluginHost() {
  for (Entry& entry : entries_) {
    for (const Opened& one : entry.opened) (void)entry.plugin->close(one.camera);
  }
  (void)finish();
}

void PluginHost::add(const camd_plugin& table, const std::string& config_json) {
  const PluginSpec spec{table.name ? table.name : "?", config_json, ""};
  entries_.push_back({std::make_shared<Plugin>(table, nullptr, spec, clock_, options_.reloads),
                      Plugin::prefix_of(spec),
                      false,
                      {},
                      {}});
}

void PluginHost::declare(const camd_model& model) {
  needs_ = {};
  needs_.outputs.assign(static_cast<std::size_t>(model.output_count), CAMD_NEED_NONE);
  needs_.device_outputs.assign(static_cast<std::size_t>(model.output_count), false);
  std::vector<std::string> problems;
  for (Entry& entry : entries_) {
    try {
      if (entry.shared) {
        prepare_cameras(entry, Plugin::names_of(model));
      } else {
        declare(entry, model);
      }
    } catch (const Error& error) {
      problems.emplace_back(error.what());
      continue;
    }
    const Plugin& plugin = *entry.plugin;
    for (std::size_t i = 0; i < needs_.outputs.size(); ++i) {
      const camd_need wish = plugin.outputs()[i];
      if (wish == CAMD_NEED_DEVICE) {
        needs_.device_outputs[i] = true;
      } else {
        needs_.outputs[i] = std::max(needs_.outputs[i], wish);
      }
    }
    needs_.input = std::max(needs_.input, plugin.input());
    needs_.picture = needs_.picture || plugin.picture();
    needs_.detections = std::max(needs_.detections, plugin.detections());
  }
  if (!problems.empty()) throw Error(ErrorKind::kPlugin, fmt::format("{}", fmt::join(problems, "\n")));
}

void PluginHost::declare(Entry& entry, const camd_model& model) {
  Aside<bool> work([plugin = entry.plugin, copy = std::make_shared<OwnedModel>(model)] {
    plugin->declare(copy->model());
    return true;
  });
  if (work.wait_for(options_.patience)) return;
  entry.left_behind = hangs_ = true;
  throw Error(ErrorKind::kPlugin, fmt::format("{}: hangs in outputs(): it is left behind", entry.prefix));
}

void PluginHost::prepare_cameras(Entry& entry, const std::vector<std::string>& names) {
  names_ = names;
  const std::vector<std::string>& before = entry.plugin->names();
  for (std::size_t i = 0; i < std::max(names.size(), before.size()); ++i) {
    const std::string now = i < names.size() ? names[i] : "";
    const std::string then = i < before.size() ? before[i] : "";
    if (now == then) continue;
    const auto index = static_cast<std::int32_t>(i);
    if (now.empty()) {
      entry.gone.push_back(index);
      continue;
    }
    try {
      Aside<void*> work([plugin = entry.plugin, index, now] { return plugin->open(index, now); });
      const std::optional<void*> camera = work.wait_for(options_.patience);
      if (!camera) throw Error(ErrorKind::kPlugin, fmt::format("camera '{}': hangs in open(): it is left behind", now));
      entry.opened.push_back({index, *camera});
    } catch (const Error& error) {
      throw Error(ErrorKind::kPlugin, fmt::format("{}: {}", entry.prefix, error.what()));
    }
  }
}

void PluginHost::enter() noexcept {
  for (Entry& entry : entries_) {
    for (const Opened& one : std::exchange(entry.opened, {})) {
      (void)entry.plugin->close(entry.plugin->exchange(one.index, one.camera));  // there was none
    }
    if (entry.shared) entry.plugin->rename(names_);
  }
}

std::vector<std::string> PluginHost::leave() noexcept {
  std::vector<std::string> problems;
  for (Entry& entry : entries_) {
    for (const std::int32_t index : std::exchange(entry.gone, {})) {
      const std::string problem = entry.plugin->close(entry.plugin->exchange(index, nullptr));
      if (!problem.empty()) problems.push_back(fmt::format("{}: {}", entry.prefix, problem));
    }
  }
  return problems;
}

std::vector<std::string> PluginHost::reopen() {
  std::vector<std::string> problems;
  for (const Entry& entry : entries_) {
    const std::string problem = entry.plugin->reopen();
    if (!problem.empty()) problems.push_back(fmt::format("{}: {}", entry.prefix, problem));
  }
  return problems;
}

bool PluginHost::is_current() const {
  return std::all_of(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.plugin->is_current(); });
}

// What every plug-in sees of one frame in flight.
class PluginHost::Frame final : public FramePostprocessing {
 public:
  Frame(const std::vector<Entry>& entries, const FrameTensors& tensors)
      : entries_(entries), shapes_(tensors.host), input_shape_(tensors.input), views_(entries.size()) {
    for (DLTensor& shape : shapes_) shape.data = nullptr;
    input_shape_.data = nullptr;
    for (std::size_t p = 0; p < entries.size(); ++p) fill_view(*entries[p].plugin, tensors, views_[p]);
  }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  ~Frame() override = default;

  Status process(const camd_frame& frame, camd_results& results) noexcept override;
  [[nodiscard]] std::string_view inside() const noexcept override {
    for (const Entry& entry : entries_) {
      if (entry.plugin->works_on(events_)) return entry.prefix;
    }
    return {};
  }

 private:
  struct View {
    std::vector<const DLTensor*> outputs;
    std::vector<const DLTensor*> device_outputs;
    camd_tensors tensors{};
  };
  void fill_view(const Plugin& plugin, const FrameTensors& tensors, View& view) const;

  const std::vector<Entry>& entries_;
  // Tensors without data, for those who asked for shapes only.
  std::vector<DLTensor> shapes_;
  DLTensor input_shape_;
  std::vector<View> views_;  // one per plug-in
  FrameEvents events_;
};

void PluginHost::Frame::fill_view(const Plugin& plugin, const FrameTensors& tensors, View& view) const {
  view.outputs.assign(tensors.host.size(), nullptr);
  view.device_outputs.assign(tensors.host.size(), nullptr);
  for (std::size_t i = 0; i < tensors.host.size(); ++i) {
    switch (plugin.outputs()[i]) {
      case CAMD_NEED_NONE: break;
      case CAMD_NEED_SHAPE: view.outputs[i] = &shapes_[i]; break;
      case CAMD_NEED_HOST: view.outputs[i] = &tensors.host[i]; break;
      case CAMD_NEED_DEVICE: view.device_outputs[i] = &tensors.device[i]; break;
    }
  }
  view.tensors.struct_size = sizeof(camd_tensors);
  view.tensors.output_count = static_cast<std::int32_t>(tensors.host.size());
  view.tensors.outputs = view.outputs.data();
  view.tensors.device_outputs = view.device_outputs.data();
  if (plugin.input() == CAMD_NEED_SHAPE) view.tensors.input = &input_shape_;
  if (plugin.input() == CAMD_NEED_HOST) view.tensors.input = &tensors.input;
  view.tensors.stream = tensors.stream;
}

Status PluginHost::Frame::process(const camd_frame& frame, camd_results& results) noexcept {
  events_.clear();
  for (std::size_t p = 0; p < entries_.size(); ++p) {
    camd_error error = no_error();
    bool moved = false;
    if (entries_[p].plugin->call(frame, views_[p].tensors, results, events_, error, moved) != CAMD_OK) {
      return {ErrorKind::kPlugin, fmt::format("{}: {}", entries_[p].prefix, message_of(error))};
    }
    const char* const problem =
        moved ? "left a list with an `items` or a `capacity` that camd did not give it" : problem_of(results);
    if (problem != nullptr) {
      results.count = 0;
      return {ErrorKind::kPlugin, fmt::format("{}: {}", entries_[p].prefix, problem)};
    }
  }
  return {};
}

std::unique_ptr<FramePostprocessing> PluginHost::prepare(const FrameTensors& tensors) {
  return std::make_unique<Frame>(entries_, tensors);
}

std::vector<PluginNumbers> PluginHost::counters() {
  std::vector<PluginNumbers> numbers;
  for (const Entry& entry : entries_) {
    if (entry.plugin == nullptr) continue;
    entry.plugin->sample();
    numbers.push_back(entry.plugin->numbers());
  }
  return numbers;
}

std::vector<std::string> PluginHost::finish(base::Duration patience) noexcept {
  using std::chrono::steady_clock;
  struct Late {
    Entry* entry;
    Aside<std::string> work;
  };
  std::vector<std::string> problems;
  std::vector<Late> late;
  const auto collect = [&](Entry& entry, Aside<std::string>& work, steady_clock::time_point until) {
    const std::optional<std::string> problem = work.wait_until(until);
    if (problem && !problem->empty()) problems.push_back(fmt::format("{}: {}", entry.prefix, *problem));
    return problem.has_value();
  };
  const auto deadline = steady_clock::now() + patience;
  steady_clock::time_point last_begun;
  for (std::size_t i = entries_.size(); i-- > 0;) {
    Entry& entry = entries_[i];
    if (entry.plugin == nullptr || entry.left_behind) continue;
    if (entry.plugin.use_count() > 1) {  // [setup] alone copies these pointers, but for what is left behind
      entry.plugin = nullptr;
      continue;
    }
    if (entry.plugin->works()) {
      entry.left_behind = hangs_ = true;
      problems.push_back(fmt::format("{}: hangs in process(): it is left behind, not finished", entry.prefix));
      continue;
    }
    last_begun = steady_clock::now();
    Aside<std::string> work([plugin = entry.plugin] { return plugin->destroy(); });
    if (!collect(entry, work, deadline)) late.push_back({&entry, std::move(work)});
  }
  for (Late& one : late) {
    // One that had all the time, or as much as those that began last.
    if (collect(*one.entry, one.work, std::max(deadline, late.size() > 1 ? last_begun + patience : deadline))) {
      continue;
    }
    one.entry->left_behind = hangs_ = true;
    problems.push_back(fmt::format("{}: hangs in destroy(): it is left behind, not finished", one.entry->prefix));
  }
  return problems;
}

PluginInfo inspect_plugin(const std::string& path) {
  const PluginLibrary library(path);
  const camd_plugin& table = library.table(path);
  check_table(table, path);
  PluginInfo info{table.name, table.version, table.description, table.abi_version, {}};
  for (const char* id : kPluginExtensions) {
    if (extension_of(table, id, "plug-in " + path) != nullptr) info.extensions.emplace_back(id);
  }
  return info;
}

}  // namespace camd::pipeline
