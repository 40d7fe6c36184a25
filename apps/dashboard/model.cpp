#include "apps/dashboard/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "apps/dashboard/text.hpp"

namespace camd::dashboard {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, kStageCount> kStageNames = {"total",      "capture", "queue", "h2d",
                                                                   "preprocess", "infer",   "d2h",   "postprocess"};
constexpr std::array<std::string_view, kDropReasons> kDropNames = {
    "superseded", "too_old", "gated", "source_error", "device_error", "plugin_error", "shutdown", "other"};
constexpr std::size_t kGated = 2;
constexpr std::size_t kMaxText = 200;  // bytes of one kept string, before escaping
constexpr std::int64_t kSchema = 1;

const Json* member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}

// Text is kept escaped: names come from configuration files, cameras and networks, and end on a terminal.
std::string text(std::string_view raw) { return printable(raw.substr(0, kMaxText)); }

std::string text(const Json* value) {
  return value != nullptr && value->is_string() ? text(value->get_ref<const std::string&>()) : std::string();
}

std::string text(const Json& object, const char* key) { return text(member(object, key)); }

// A plain string, or the named member of an object: {"chosen": "pinned", ...} says why beside it.
std::string text_or_member(const Json& line, const char* key, std::initializer_list<const char*> inside) {
  const Json* value = member(line, key);
  if (value == nullptr || value->is_string()) return text(value);
  for (const char* name : inside) {
    if (std::string found = text(*value, name); !found.empty()) return found;
  }
  return {};
}

std::uint64_t count(const Json* value) {
  return value != nullptr && value->is_number_unsigned() ? value->get<std::uint64_t>() : 0;
}

std::uint64_t count(const Json& object, const char* key) { return count(member(object, key)); }

// Negative when absent or no number.
double number(const Json& object, const char* key) {
  const Json* value = member(object, key);
  if (value == nullptr || !value->is_number()) return -1;
  const double found = value->get<double>();
  return std::isfinite(found) ? found : -1;
}

// Only values that leave room for differences: a hostile line must not overflow a subtraction.
std::optional<std::int64_t> mono_ns(const Json& line) {
  const Json* value = member(line, "mono_ns");
  if (value == nullptr || !value->is_number_unsigned()) return std::nullopt;
  const auto ns = value->get<std::uint64_t>();
  return ns < (std::uint64_t{1} << 62U) ? std::optional(static_cast<std::int64_t>(ns)) : std::nullopt;
}

// "2026-11-21T12:34:56.789Z" to "12:34:56" (RFC 3339, 5.6: the date is ten characters, then one of T, t, space).
std::string clock_of(const Json& line) {
  const std::string time = text(line, "time");
  return time.size() >= 19 ? time.substr(11, 8) : std::string();
}

std::string file_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

std::vector<Seen::Place> places(const Json& seen, const char* key, const char* first, const char* second) {
  std::vector<Seen::Place> found;
  const Json* all = member(seen, key);
  if (all == nullptr || !all->is_object()) return found;
  for (const auto& [name, numbers] : all->items()) {
    if (found.size() == Model::kMaxSeen) break;
    found.push_back({text(name), std::max(0.0, number(numbers, first)), std::max(0.0, number(numbers, second))});
  }
  return found;
}

std::optional<Seen> seen_of(const Json& line) {
  const Json* json = member(line, "seen");
  if (json == nullptr || !json->is_object()) return std::nullopt;
  Seen seen;
  seen.detections = std::max(0.0, number(*json, "detections"));
  seen.tracks = std::max(0.0, number(*json, "tracks"));
  seen.zones = places(*json, "zones", "inside", "entered");
  seen.lines = places(*json, "lines", "in", "out");
  if (const Json* texts = member(*json, "texts"); texts != nullptr && texts->is_array()) {
    for (const Json& one : *texts) {
      if (seen.texts.size() < Model::kMaxSeen) seen.texts.push_back(text(&one));
    }
  }
  return seen;
}

template <typename T>
void push_bounded(std::deque<T>& queue, T value, std::size_t limit) {
  queue.push_back(std::move(value));
  if (queue.size() > limit) queue.pop_front();
}

}  // namespace

std::string_view stage_name(std::size_t stage) noexcept { return kStageNames[stage]; }
std::string_view drop_reason(std::size_t reason) noexcept { return kDropNames[reason]; }
bool is_loss(std::size_t reason) noexcept { return reason != kGated; }

std::uint64_t Totals::dropped_sum() const noexcept {
  return std::accumulate(dropped.begin(), dropped.end(), std::uint64_t{0});
}

std::uint64_t Totals::lost_sum() const noexcept { return dropped_sum() - dropped[kGated]; }

bool Model::feed(std::string_view line) {
  const std::size_t first = line.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return false;
  const Json json = Json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
  const Json* event = member(json, "event");
  if (json.is_discarded() || event == nullptr || !event->is_string()) {
    ++junk_;
    return false;
  }
  const Json* schema = member(json, "schema");
  if (schema == nullptr || !schema->is_number_integer() || schema->get<std::int64_t>() != kSchema) {
    ++foreign_;
    foreign_schema_ = schema == nullptr ? "none" : text(schema->dump().substr(0, 16));
    return false;
  }
  const auto& kind = event->get_ref<const std::string&>();
  if (kind == "start") {
    on_start(json);
  } else if (kind == "camera") {
    if (!on_camera(json)) {
      ++junk_;
      return false;
    }
  } else if (kind == "plugin") {
    if (!on_plugin(json)) {
      ++junk_;
      return false;
    }
  } else if (kind == "outlet") {
    if (!on_outlet(json)) {
      ++junk_;
      return false;
    }
  } else if (kind == "process") {
    on_process(json);
  } else if (kind == "state") {
    on_state(json);
  } else if (kind == "reload") {
    on_reload(json);
  } else if (kind == "stop") {
    on_stop(json);
  } else {
    ++unknown_;
    return false;
  }
  if (const auto ns = mono_ns(json)) {
    if (!timed_) first_ns_ = *ns;
    timed_ = true;
    last_ns_ = std::max(*ns, first_ns_);
  }
  ++lines_;
  return true;
}

void Model::add_log(std::string_view line) {
  const std::size_t end = line.find_last_not_of(" \t\r\n");
  if (end == std::string_view::npos) return;
  push_bounded(logs_, printable(without_colours(line.substr(0, std::min(end + 1, 5 * kMaxText)))), kMaxLogs);
}

void Model::on_start(const Json& line) {
  if (started_) {  // several runs in one file
    cameras_.clear();
    places_.clear();
    devices_.clear();
    plugins_.clear();
    changes_.clear();
    process_ = {};
  }
  started_ = true;
  stopped_ = false;
  timed_ = false;
  exit_code_.reset();
  stop_reason_.clear();
  version_ = text(line, "version");
  take_way(line);
}

// What computes the frames: in the start line, and in that of a reload which has changed it.
void Model::take_way(const Json& line) {
  device_ = text_or_member(line, "device", {"name", "id", "kind"});
  engine_ = text_or_member(line, "engine", {"name", "chosen"});
  model_ = file_name(text_or_member(line, "model", {"path", "name"}));
  transfer_ = text_or_member(line, "transfer", {"chosen", "mode", "name"});
  streams_ = text_or_member(line, "streams", {"chosen", "mode", "name"});
}

Camera* Model::camera_named(const std::string& name) {
  const auto place = places_.find(name);
  if (place != places_.end()) return &cameras_[place->second];
  if (name.empty() || cameras_.size() >= kMaxCameras) return nullptr;
  places_.emplace(name, cameras_.size());
  cameras_.emplace_back().name = name;
  return &cameras_.back();
}

void Model::take_totals(Camera& camera, const Json& totals) {
  if (!totals.is_object()) return;
  Totals& t = camera.totals;
  const std::uint64_t before = t.lost_sum();
  t = {};
  t.captured = count(totals, "captured");
  t.delivered = count(totals, "delivered");
  t.in_flight = count(totals, "in_flight");
  if (const Json* dropped = member(totals, "dropped"); dropped != nullptr && dropped->is_object()) {
    for (const auto& [reason, value] : dropped->items()) {
      const auto known = std::find(kDropNames.begin(), kDropNames.end() - 1, reason);
      t.dropped[static_cast<std::size_t>(known - kDropNames.begin())] += count(&value);
    }
  }
  const std::uint64_t after = t.lost_sum();
  camera.newly_dropped = after > before ? after - before : 0;
}

bool Model::on_camera(const Json& line) {
  Camera* camera = camera_named(text(line, "camera"));
  if (camera == nullptr) return false;
  camera->state = text(line, "state");
  camera->device = text(line, "device");
  camera->period_s = number(line, "period_s");
  if (const Json* totals = member(line, "totals")) {
    take_totals(*camera, *totals);
    camera->dropped_lately = 0.8 * camera->dropped_lately + static_cast<double>(camera->newly_dropped);
  }
  const Json* fps = member(line, "fps");
  camera->fps_captured = fps != nullptr ? number(*fps, "captured") : -1;
  camera->fps_delivered = fps != nullptr ? number(*fps, "delivered") : -1;
  const Json* latency = member(line, "latency_us");
  for (std::size_t stage = 0; stage < kStageCount; ++stage) {
    Latency& l = camera->latency[stage];
    l = {};
    const Json* from = latency == nullptr ? nullptr : member(*latency, kStageNames[stage].data());
    if (from == nullptr) continue;
    l.count = count(*from, "count");
    l.p50 = std::max(0.0, number(*from, "p50"));
    l.p90 = std::max(0.0, number(*from, "p90"));
    l.p99 = std::max(0.0, number(*from, "p99"));
    l.p999 = std::max(0.0, number(*from, "p999"));
    l.max = std::max(0.0, number(*from, "max"));
  }
  const Latency& total = camera->latency[kTotal];
  push_bounded(camera->p99_history, total.count > 0 ? total.p99 : -1.0, kMaxHistory);
  if (total.count > 0) {
    camera->worst_p99 = std::max(camera->worst_p99, total.p99);
    camera->worst_max = std::max(camera->worst_max, total.max);
  }
  camera->seen = seen_of(line);
  const Json* moved = member(line, "bytes_per_frame");
  camera->h2d_bytes_per_frame = moved != nullptr ? number(*moved, "h2d") : -1;
  camera->d2h_bytes_per_frame = moved != nullptr ? number(*moved, "d2h") : -1;
  return true;
}

bool Model::on_plugin(const Json& line) {
  Plugin told;
  told.index = count(line, "index");
  told.name = text(line, "name");
  if (told.name.empty()) return false;
  if (const Json* counters = member(line, "counters"); counters != nullptr && counters->is_object()) {
    for (const auto& [name, value] : counters->items()) {
      if (told.numbers.size() == kMaxNumbers) break;
      if (!value.is_number() || !std::isfinite(value.get<double>())) continue;
      told.numbers.push_back({text(name), value.get<double>()});
    }
  }
  const auto place = std::lower_bound(plugins_.begin(), plugins_.end(), told.index,
                                      [](const Plugin& plugin, std::uint64_t index) { return plugin.index < index; });
  if (place != plugins_.end() && place->index == told.index) {
    *place = std::move(told);
    return true;
  }
  if (plugins_.size() == kMaxPlugins) return false;
  plugins_.insert(place, std::move(told));
  return true;
}

// All cameras of an outlet together, beside the plug-in's own numbers, whose line comes just before.
bool Model::on_outlet(const Json& line) {
  const std::uint64_t index = count(line, "index");
  const auto plugin =
      std::find_if(plugins_.begin(), plugins_.end(), [index](const Plugin& one) { return one.index == index; });
  if (plugin == plugins_.end()) return false;
  const auto add = [&plugin](const char* name, double value) {
    auto& numbers = plugin->numbers;
    const auto found =
        std::find_if(numbers.begin(), numbers.end(), [name](const Plugin::Number& one) { return one.name == name; });
    if (found != numbers.end()) {
      found->value += value;
    } else if (numbers.size() < kMaxNumbers) {
      numbers.push_back({name, value});
    }
  };
  for (const char* name : {"taken", "acknowledged", "waiting", "spooled"}) {
    add(name, static_cast<double>(count(line, name)));
  }
  std::uint64_t dropped = 0;
  if (const Json* reasons = member(line, "dropped"); reasons != nullptr && reasons->is_object()) {
    for (const auto& [reason, value] : reasons->items()) dropped += count(*reasons, reason.c_str());
  }
  add("dropped", static_cast<double>(dropped));
  return true;
}

void Model::on_process(const Json& line) {
  process_.cpu_percent = number(line, "cpu_percent");
  process_.rss_bytes = number(line, "rss_bytes");
  process_.gpu_memory_bytes = number(line, "gpu_memory_bytes");
  process_.threads = number(line, "threads");
  process_.allocations_per_frame = number(line, "allocations_per_frame");
  ++periods_;
  devices_.clear();
  const Json* devices = member(line, "devices");
  if (devices == nullptr || !devices->is_array()) return;
  for (const Json& entry : *devices) {
    if (devices_.size() == kMaxDevices) break;
    Device& device = devices_.emplace_back();
    device.name = text(entry, "device");
    device.product = text(entry, "name");
    device.state = text(entry, "state");
    device.cameras = number(entry, "cameras");
    device.fps = number(entry, "fps");
    device.busy_percent = number(entry, "busy_percent");
    device.load_percent = number(entry, "load_percent");
    device.memory_bytes = number(entry, "memory_bytes");
  }
}

void Model::on_state(const Json& line) {
  Change change;
  change.clock = clock_of(line);
  change.who = text(line, "camera");
  const bool is_camera = !change.who.empty();
  if (!is_camera) change.who = text_or_member(line, "device", {"name", "id"});
  if (change.who.empty()) change.who = "camd";
  change.from = text(line, "from");
  change.to = text(line, "state");
  if (change.to.empty()) change.to = text(line, "to");
  change.reason = text(line, "reason");
  if (is_camera) {
    if (Camera* camera = camera_named(change.who)) {
      if (change.from.empty() && camera->state != change.to) change.from = camera->state;
      camera->state = change.to;
    }
  }
  push_bounded(changes_, std::move(change), kMaxChanges);
}

void Model::on_reload(const Json& line) {
  Change change;
  change.clock = clock_of(line);
  change.who = "camd";
  change.to = "reload " + text(line, "result");
  const Json* errors = member(line, "errors");
  if (errors != nullptr && errors->is_array() && !errors->empty() && errors->front().is_string()) {
    change.reason = text(errors->front().get_ref<const std::string&>());
  }
  push_bounded(changes_, std::move(change), kMaxChanges);
  if (member(line, "engine") != nullptr) take_way(line);
}

void Model::on_stop(const Json& line) {
  stopped_ = true;
  const Json* code = member(line, "exit_code");
  if (code != nullptr && code->is_number_integer()) {
    exit_code_ = static_cast<int>(std::clamp<std::int64_t>(code->get<std::int64_t>(), 0, 255));
  }
  stop_reason_ = text(line, "reason");
  // Per camera: a list of {camera, totals}.
  const Json* cameras = member(line, "cameras");
  if (cameras == nullptr || !cameras->is_array()) return;
  for (const Json& entry : *cameras) {
    Camera* camera = camera_named(text(entry, "camera"));
    const Json* totals = member(entry, "totals");
    if (camera == nullptr || totals == nullptr) continue;
    take_totals(*camera, *totals);
    if (const Json* state = member(entry, "state")) camera->state = text(state);
  }
}

std::string Model::problem() const {
  if (foreign_ > 0) {
    return fmt::format("{} line{} of schema {}, this dashboard reads schema {}", foreign_, foreign_ == 1 ? "" : "s",
                       foreign_schema_, kSchema);
  }
  if (junk_ > 0) return fmt::format("{} line{} not understood", junk_, junk_ == 1 ? "" : "s");
  if (unknown_ > 0) return fmt::format("{} unknown event{}", unknown_, unknown_ == 1 ? "" : "s");
  return {};
}

std::optional<std::int64_t> mono_ns_of(std::string_view line) {
  return mono_ns(Json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false));
}

}  // namespace camd::dashboard
