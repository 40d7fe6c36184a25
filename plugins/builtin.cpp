#include "plugins/builtin.hpp"

#include <array>

#include "plugins/annotate/elements.hpp"
#include "plugins/detections/projects.hpp"
#include "plugins/detections/suggest.hpp"
#include "plugins/frame_json.hpp"
#include "plugins/tables.hpp"

namespace camd::plugins {
namespace {

std::array<const camd_plugin*, 15> tables() noexcept {
  return {annotate_table(), coco_table(),    codes_table(), detections_table(), jsonl_table(),
          kafka_table(),    mot_table(),     mqtt_table(),  onvif_table(),      record_table(),
          snapshot_table(), tensors_table(), track_table(), webhook_table(),    zones_table()};
}

// A host that has nothing but a frame's events.
struct EventsHost {
  static const EventsHost& of(const camd_host* host) { return *reinterpret_cast<const EventsHost*>(host); }
  static std::int32_t count(const camd_host* host) { return static_cast<std::int32_t>(of(host).events.size()); }
  static const camd_event* get(const camd_host* host, std::int32_t index) {
    return &of(host).events[static_cast<std::size_t>(index)];
  }
  static std::int32_t add(const camd_host* /*host*/, const camd_event* /*event*/) { return CAMD_ERROR_INVALID; }

  camd_host host{};  // the first member, so the address of one is the address of the other
  std::span<const camd_event> events;
};

}  // namespace

const camd_plugin* find_builtin(std::string_view name) noexcept {
  for (const camd_plugin* table : tables()) {
    if (name == table->name) return table;
  }
  return nullptr;
}

std::vector<std::string_view> builtin_names() {
  std::vector<std::string_view> names;
  for (const camd_plugin* table : tables()) names.emplace_back(table->name);
  return names;
}

std::vector<LayoutSuggestion> suggest_layouts(const camd_model& model, std::string_view config_json,
                                              const OutputValues* values) {
  return fitting_layouts(model, read_options(model.card_json != nullptr ? model.card_json : "{}", config_json), values);
}

std::string_view layout_of_project(std::span<const std::string> names) { return layout_by_names(names); }
bool has_key_point_head(std::span<const std::string> names) { return has_key_points(names); }
std::string_view input_of_project(std::span<const std::string> names) { return input_by_names(names); }

std::string doubt_layout(const camd_model& model, std::string_view config_json, const OutputValues& values) {
  return doubt(model, read_options(model.card_json != nullptr ? model.card_json : "{}", config_json), values);
}

std::string frame_line(const camd_frame& frame, const camd_results& results, std::span<const camd_event> events,
                       std::int64_t now_ns) {
  static constexpr camd_events kEvents{sizeof(camd_events), &EventsHost::count, &EventsHost::get, &EventsHost::add};
  const EventsHost host{{}, events};
  camd_results list = results;
  JsonBuffer line;
  put_frame(line, frame, camd::plugin::Results(&list), camd::plugin::Events(&host.host, &kEvents), now_ns);
  return fmt::to_string(line);
}

std::vector<ElementFinding> builtin_elements() { return annotate_elements(); }

}  // namespace camd::plugins
