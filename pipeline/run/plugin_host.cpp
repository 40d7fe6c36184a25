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
#include "pipeline/plugin/frame_events.hpp"
#include "pipeline/plugin/in_process_plugin.hpp"
#include "pipeline/plugin/plugin_calls.hpp"
#include "pipeline/plugin_process/shared_memory.hpp"
#include "pipeline/run/plain_model.hpp"
#include "pipeline/run/plugin_maker.hpp"

namespace camd::pipeline {
namespace {

using base::Error;
using base::ErrorKind;
using base::Status;

// What a plug-in may offer, by name, and camd knows.
constexpr std::array kPluginExtensions = {CAMD_EXTENSION_COUNTERS, CAMD_EXTENSION_CAMERAS, CAMD_EXTENSION_REOPEN,
                                          CAMD_EXTENSION_CHECK};

}  // namespace

PluginHost::PluginHost(const std::vector<PluginSpec>& specs, const base::Clock& clock, PluginHostOptions options)
    : PluginHost(specs, clock, std::move(options), nullptr, false) {}

PluginHost::PluginHost(const std::vector<PluginSpec>& specs, const base::Clock& clock, PluginHostOptions options,
                       const PluginHost& running, bool other_cameras)
    : PluginHost(specs, clock, std::move(options), &running, other_cameras) {}

PluginHost::PluginHost(const std::vector<PluginSpec>& specs, const base::Clock& clock, PluginHostOptions options,
                       const PluginHost* running, bool other_cameras)
    : clock_(clock), options_(std::move(options)) {
  const auto maker = std::make_shared<PluginMaker>(clock_, options_);
  std::vector<std::string> problems;
  for (const PluginSpec& spec : specs) {
    std::shared_ptr<PluginInstance> plugin;
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
      if (!shared) plugin = maker->make(spec);
      entries_.push_back({std::move(plugin), spec.prefix(), shared, {}, {}});
    } catch (const Error& error) {
      problems.emplace_back(error.what());
    }
  }
  if (!problems.empty()) throw Error(ErrorKind::kPlugin, fmt::format("{}", fmt::join(problems, "\n")));
}

bool PluginHost::entry_is(const PluginSpec& entry, const PluginSpec& spec) { return entry.is(spec); }

bool PluginHost::entry_is(const Entry& entry, const PluginSpec& spec) { return entry.plugin->is(spec); }

PluginHost::~PluginHost() {
  for (Entry& entry : entries_) {
    for (const Opened& one : entry.opened) (void)entry.plugin->close(one.camera);
  }
  (void)finish();
}

void PluginHost::add(const camd_plugin& table, const std::string& config_json) {
  const PluginSpec spec{table.name ? table.name : "?", config_json, "", {}};
  entries_.push_back({std::make_shared<InProcessPlugin>(table, nullptr, spec, clock_, options_.reloads),
                      spec.prefix(),
                      false,
                      {},
                      {}});
}

void PluginHost::declare(const camd_model& model) {
  needs_ = {};
  needs_.outputs.assign(static_cast<std::size_t>(model.output_count), CAMD_NEED_NONE);
  needs_.device_outputs.assign(static_cast<std::size_t>(model.output_count), false);
  needs_.exported_outputs = needs_.device_outputs;
  std::vector<std::string> problems;
  for (Entry& entry : entries_) {
    try {
      if (entry.shared) {
        prepare_cameras(entry, camera_names_of(model));
      } else {
        declare(entry, model);
      }
    } catch (const Error& error) {
      problems.emplace_back(error.what());
      continue;
    }
    const PluginNeeds& wishes = entry.plugin->needs();
    for (std::size_t i = 0; i < needs_.outputs.size(); ++i) {
      const camd_need wish = wishes.outputs[i];
      if (wish == CAMD_NEED_DEVICE) {
        needs_.device_outputs[i] = true;
        if (entry.plugin->bounded()) needs_.exported_outputs[i] = true;
      } else {
        needs_.outputs[i] = std::max(needs_.outputs[i], wish);
      }
    }
    needs_.input = std::max(needs_.input, wishes.input);
    needs_.picture = needs_.picture || wishes.picture;
    if (wishes.picture && entry.plugin->bounded()) needs_.picture_memory = &allocate_shared_alone;
    needs_.detections = std::max(needs_.detections, wishes.detections);
  }
  if (!problems.empty()) throw Error(ErrorKind::kPlugin, fmt::format("{}", fmt::join(problems, "\n")));
  merge_filters();
}

// Whether the plug-in's filters name an output.
bool PluginHost::filters(const PluginInstance& plugin, std::size_t output) {
  const std::vector<camd_filter>& filters = plugin.needs().filters;
  return std::any_of(filters.begin(), filters.end(),
                     [output](const camd_filter& filter) { return names(filter, static_cast<std::int32_t>(output)); });
}

// Outputs that somebody reads on the host without a filter.
std::vector<bool> PluginHost::read_whole() const {
  std::vector<bool> whole(needs_.outputs.size(), false);
  for (const Entry& entry : entries_) {
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const bool filtered = entry.filtered && filters(*entry.plugin, i);
      if (entry.plugin->needs().outputs[i] == CAMD_NEED_HOST && !filtered) whole[i] = true;
    }
  }
  return whole;
}

// An output that somebody reads as a whole comes as a whole. There is nothing to gain then for others that filter it:
// they lose their filters, and read as a whole what these named.
void PluginHost::merge_filters() {
  for (Entry& entry : entries_) entry.filtered = !entry.plugin->needs().filters.empty();
  for (auto loser = entries_.begin(); loser != entries_.end();) {
    const std::vector<bool> whole = read_whole();
    loser = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
      for (std::size_t i = 0; i < whole.size() && entry.filtered; ++i) {
        if (whole[i] && filters(*entry.plugin, i)) return true;
      }
      return false;
    });
    if (loser != entries_.end()) loser->filtered = false;
  }
  for (Entry& entry : entries_) {
    if (!entry.filtered) continue;
    entry.first_filter = needs_.filters.size();
    const std::vector<camd_filter>& filters = entry.plugin->needs().filters;
    needs_.filters.insert(needs_.filters.end(), filters.begin(), filters.end());
  }
}

void PluginHost::declare(Entry& entry, const camd_model& model) {
  if (entry.plugin->bounded()) {
    entry.plugin->declare(model);
    return;
  }
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
      if (entry.plugin->bounded()) {
        entry.opened.push_back({index, entry.plugin->open(index, now)});
        continue;
      }
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
    for (std::size_t p = 0; p < entries.size(); ++p) {
      fill_view(entries[p].plugin->needs(), tensors, views_[p]);
      if (entries[p].filtered && !tensors.passed.empty()) {
        views_[p].tensors.passed = tensors.passed.data() + entries[p].first_filter;
      }
      views_[p].prepared = entries[p].plugin->prepare(views_[p].tensors);
    }
  }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  ~Frame() override = default;

  Status process(const camd_frame& frame, camd_results& results) noexcept override;
  [[nodiscard]] std::int32_t event_count() const noexcept override { return events_.count(); }
  [[nodiscard]] const camd_event* event(std::int32_t index) const noexcept override { return events_.get(index); }
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
    std::unique_ptr<PreparedFrame> prepared;
  };
  void fill_view(const PluginNeeds& needs, const FrameTensors& tensors, View& view) const;

  const std::vector<Entry>& entries_;
  // Tensors without data, for those who asked for shapes only.
  std::vector<DLTensor> shapes_;
  DLTensor input_shape_;
  std::vector<View> views_;  // one per plug-in
  FrameEvents events_;
};

void PluginHost::Frame::fill_view(const PluginNeeds& needs, const FrameTensors& tensors, View& view) const {
  view.outputs.assign(tensors.host.size(), nullptr);
  view.device_outputs.assign(tensors.host.size(), nullptr);
  for (std::size_t i = 0; i < tensors.host.size(); ++i) {
    switch (needs.outputs[i]) {
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
  if (needs.input == CAMD_NEED_SHAPE) view.tensors.input = &input_shape_;
  if (needs.input == CAMD_NEED_HOST) view.tensors.input = &tensors.input;
  view.tensors.stream = tensors.stream;
}

Status PluginHost::Frame::process(const camd_frame& frame, camd_results& results) noexcept {
  events_.clear();
  camd_frame seen = frame;
  for (std::size_t p = 0; p < entries_.size(); ++p) {
    camd_error error = no_error();
    bool moved = false;
    PluginInstance& plugin = *entries_[p].plugin;
    switch (plugin.call(views_[p].prepared.get(), seen, views_[p].tensors, results, events_, error, moved)) {
      case CallResult::kDone: break;
      case CallResult::kMissing: seen.flags |= CAMD_FRAME_INCOMPLETE; continue;
      case CallResult::kFailed:
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

std::shared_ptr<std::byte> PluginHost::shared_memory(std::size_t size_bytes) {
  const bool wanted =
      std::any_of(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.plugin->bounded(); });
  return wanted ? allocate_shared(size_bytes) : nullptr;
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

std::vector<PluginNumbers> PluginHost::numbers() const {
  std::vector<PluginNumbers> numbers;
  for (const Entry& entry : entries_) {
    if (entry.plugin != nullptr) numbers.push_back(entry.plugin->numbers());
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
