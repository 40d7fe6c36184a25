// Calling an instance in this process, and the functions that it may call.
#include "pipeline/plugin/in_process_plugin.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "pipeline/plugin/plugin_calls.hpp"

namespace camd::pipeline {

using base::Error;
using base::ErrorKind;

namespace {

// What a plug-in wrote, which may be no value of the enumeration.
template <class Enumeration>
int number_of(const Enumeration& value) noexcept {
  int number = 0;
  static_assert(sizeof(number) == sizeof(value));
  std::memcpy(&number, &value, sizeof(number));
  return number;
}

}  // namespace

InProcessPlugin::InProcessPlugin(const camd_plugin& table, std::unique_ptr<PluginLibrary> library, PluginSpec spec,
                                 const base::Clock& clock, std::uint32_t reloads, CounterTable* numbers)
    : library_(std::move(library)),
      table_(table),
      spec_(std::move(spec)),
      clock_(clock),
      host_{{sizeof(camd_host), CAMD_VERSION, &log_line, &now, &get_extension, reloads}, this},
      own_numbers_(numbers == nullptr ? std::make_unique<CounterTable>() : nullptr),
      counters_(numbers == nullptr ? *own_numbers_ : *numbers) {
  check_table(table_, spec_.plugin);
  prefix_ = spec_.prefix();
  sampler_ = functions_of(table_, prefix_, CAMD_EXTENSION_COUNTERS, &camd_plugin_counters::sample);
  cameras_ = functions_of(table_, prefix_, CAMD_EXTENSION_CAMERAS, &camd_plugin_cameras::open,
                          &camd_plugin_cameras::exchange, &camd_plugin_cameras::close);
  reopener_ = functions_of(table_, prefix_, CAMD_EXTENSION_REOPEN, &camd_plugin_reopen::reopen);
  stateless_ = functions_of<camd_plugin_stateless>(table_, prefix_, CAMD_EXTENSION_STATELESS) != nullptr;
  camd_error error = no_error();
  const auto create = [&] { return table_.create(&host_.table, spec_.config_json.c_str(), &instance_, &error); };
  if (guarded(error, create) != CAMD_OK) {
    throw Error(ErrorKind::kPlugin, fmt::format("{}: {}", prefix_, message_of(error)));
  }
  instance_for_setup_ = instance_;
  process_ = table_.process;
}

void InProcessPlugin::declare(const camd_model& model) {
  names_ = camera_names_of(model);
  std::vector<camd_need> outputs(static_cast<std::size_t>(model.output_count), CAMD_NEED_NONE);
  camd_needs needs{};
  needs.struct_size = sizeof(needs);
  needs.outputs = outputs.data();
  needs.detections = CAMD_DEFAULT_DETECTIONS;
  camd_error error = no_error();
  {
    const base::MutexLock lock(mutex_);
    void* const instance = instance_;
    if (guarded(error, [&] { return table_.outputs(instance, &model, &needs, &error); }) != CAMD_OK) {
      throw Error(ErrorKind::kPlugin, fmt::format("{}: {}", prefix_, message_of(error)));
    }
  }
  counters_.close();
  std::vector<int> wishes;
  for (const camd_need& wish : outputs) wishes.push_back(number_of(wish));
  needs_ = checked_needs(wishes, number_of(needs.input), number_of(needs.picture), needs.detections, prefix_);
  needs_.filters = checked_filters(needs, model, needs_.outputs, prefix_);
}

CallResult InProcessPlugin::call(PreparedFrame* /*prepared*/, const camd_frame& frame, const camd_tensors& tensors,
                                 camd_results& results, FrameEvents& events, camd_error& error, bool& moved) noexcept {
  const base::MutexLock lock(mutex_);
  camd_frame seen = frame;
  if (!needs_.picture) seen.picture = nullptr;
  camd_results list = results;
  events_.store(&events, std::memory_order_relaxed);
  void* const instance = instance_;
  const auto process = process_;
  const int code = guarded(error, [&] { return process(instance, &seen, &tensors, &list, &error); });
  events_.store(nullptr, std::memory_order_relaxed);
  results.count = list.count;
  moved = list.items != results.items || list.capacity != results.capacity;
  return code == CAMD_OK ? CallResult::kDone : CallResult::kFailed;
}

void InProcessPlugin::sample() {
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

std::string InProcessPlugin::reopen() {
  if (reopener_ == nullptr) return {};
  const base::MutexLock lock(mutex_);
  camd_error error = no_error();
  void* const instance = instance_;
  const int code = guarded(error, [&] { return reopener_->reopen(instance, &error); });
  return code == CAMD_OK ? std::string() : message_of(error);
}

PluginNumbers InProcessPlugin::numbers() const {
  constexpr std::size_t kLongestName = 64;
  return {std::string_view(table_.name).substr(0, kLongestName), counters_.read(), outlet_.rows(), {}};
}

void* InProcessPlugin::open(std::int32_t index, const std::string& name) {
  camd_error error = no_error();
  void* camera = nullptr;
  const auto call = [&] { return cameras_->open(instance_for_setup_, index, name.c_str(), &camera, &error); };
  if (guarded(error, call) != CAMD_OK) {
    throw Error(ErrorKind::kPlugin, fmt::format("camera '{}': {}", name, message_of(error)));
  }
  return camera;
}

void* InProcessPlugin::exchange(std::int32_t index, void* camera) noexcept {
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

std::string InProcessPlugin::close(void* camera) {
  if (camera == nullptr) return {};
  camd_error error = no_error();
  const int code = guarded(error, [&] { return cameras_->close(instance_for_setup_, camera, &error); });
  return code == CAMD_OK ? std::string() : message_of(error);
}

std::string InProcessPlugin::destroy() noexcept {
  const base::MutexLock lock(mutex_);
  if (std::exchange(destroyed_, true)) return {};
  process_ = &gone;  // a frame may come out of another plug-in that was left behind
  camd_error error = no_error();
  void* const instance = std::exchange(instance_, nullptr);
  const int code = guarded(error, [&] { return table_.destroy(instance, &error); });
  return code == CAMD_OK ? std::string() : message_of(error);
}

std::int32_t InProcessPlugin::gone(void* /*instance*/, const camd_frame* /*frame*/, const camd_tensors* /*tensors*/,
                                   camd_results* /*results*/, camd_error* error) {
  std::snprintf(error->message, sizeof(error->message), "has ended");
  return CAMD_ERROR_FAILED;
}

std::int32_t InProcessPlugin::make_counter(const camd_host* host, camd_counter_kind kind, const char* name,
                                           camd_counter** counter, camd_error* error) {
  return plugin_of(host).counters_.make(number_of(kind), name, counter, error);
}

std::int32_t InProcessPlugin::report_outlet(const camd_host* host, const camd_outlet_row* rows, std::int32_t count,
                                            camd_error* error) {
  return plugin_of(host).outlet_.report(rows, count, error);
}

std::int32_t InProcessPlugin::count_events(const camd_host* host) {
  const FrameEvents* events = plugin_of(host).events_.load(std::memory_order_relaxed);
  return events != nullptr ? events->count() : 0;
}

const camd_event* InProcessPlugin::get_event(const camd_host* host, std::int32_t index) {
  const FrameEvents* events = plugin_of(host).events_.load(std::memory_order_relaxed);
  return events != nullptr ? events->get(index) : nullptr;
}

std::int32_t InProcessPlugin::add_event(const camd_host* host, const camd_event* event) {
  FrameEvents* events = plugin_of(host).events_.load(std::memory_order_relaxed);
  return events != nullptr ? events->add(event) : std::int32_t{CAMD_ERROR_INVALID};
}

const camd_counters InProcessPlugin::kCounters{sizeof(camd_counters), &InProcessPlugin::make_counter,
                                               &PluginCounters::add, &PluginCounters::set};
const camd_events InProcessPlugin::kEvents{sizeof(camd_events), &InProcessPlugin::count_events,
                                           &InProcessPlugin::get_event, &InProcessPlugin::add_event};

const camd_outlet InProcessPlugin::kOutlet{sizeof(camd_outlet), &InProcessPlugin::report_outlet};

void InProcessPlugin::log_line(const camd_host* /*host*/, camd_log_level level, const char* message) {
  if (message == nullptr) return;
  switch (level) {
    case CAMD_LOG_ERROR: base::log().error("{}", message); break;
    case CAMD_LOG_WARN: base::log().warn("{}", message); break;
    case CAMD_LOG_INFO: base::log().info("{}", message); break;
    default: base::log().debug("{}", message); break;
  }
}

const void* InProcessPlugin::get_extension(const camd_host* /*host*/, const char* id) {
  if (id == nullptr) return nullptr;
  const std::string_view name(id);
  if (name == CAMD_EXTENSION_COUNTERS) return &kCounters;
  if (name == CAMD_EXTENSION_EVENTS) return &kEvents;
  if (name == CAMD_EXTENSION_OUTLET) return &kOutlet;
  return nullptr;
}

}  // namespace camd::pipeline
