#include "apps/http/prometheus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

namespace camd::http {
namespace {

using pipeline::CameraSnapshot;
using pipeline::DurationTotals;
using pipeline::LaneView;
using pipeline::PluginSnapshot;
using pipeline::Snapshot;

using Labels = std::span<const std::pair<std::string_view, std::string>>;
using OneLabel = std::pair<std::string_view, std::string>;

// A label's value: what is not UTF-8 is replaced, and three characters are escaped.
std::string escaped(const std::string& value) {
  const auto plain = [](char c) { return c >= ' ' && c <= '~' && c != '\\' && c != '"'; };
  if (std::all_of(value.begin(), value.end(), plain)) return value;  // nearly all are
  // The JSON library replaces bad bytes; its quotes go away again.
  const auto text =
      nlohmann::json::parse(nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  std::string result;
  for (const char c : text.get<std::string>()) {
    if (c == '\\' || c == '"') result += '\\';
    if (c == '\n') {
      result += "\\n";
    } else {
      result += c;
    }
  }
  return result;
}

class Page {
 public:
  // All samples of a family follow it.
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    add("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  template <class Number>
  void sample(const std::vector<OneLabel>& labels, Number value, std::string_view suffix = {}) {
    add("{}{}", name_, suffix);
    char separator = '{';
    for (const auto& [name, text] : labels) add("{}{}=\"{}\"", std::exchange(separator, ','), name, escaped(text));
    add("{}{}\n", labels.empty() ? " " : "} ", value);
  }
  void histogram(std::vector<OneLabel> labels, const DurationTotals& totals) {
    std::uint64_t count = 0;
    labels.emplace_back("le", "");
    for (std::size_t i = 0; i + 1 < totals.counts.size(); ++i) {
      count += totals.counts[i];
      labels.back().second = fmt::format("{}", static_cast<double>(DurationTotals::longest_ns(i)) / 1e9);
      sample(labels, count, "_bucket");
    }
    count += totals.counts.back();
    labels.back().second = "+Inf";
    sample(labels, count, "_bucket");
    labels.pop_back();
    sample(labels, totals.sum_ns / 1e9, "_sum");
    sample(labels, count, "_count");
  }
  [[nodiscard]] std::string text() const { return fmt::to_string(text_); }

 private:
  template <class... Values>
  void add(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Values>(values)...);
  }
  fmt::memory_buffer text_;
  std::string_view name_;
};

double seconds(base::Duration duration) { return std::chrono::duration<double>(duration).count(); }

// One sample a camera.
template <class Value>
void each_camera(Page& page, const Snapshot& now, std::string_view name, std::string_view type, std::string_view help,
                 Value&& value) {
  page.family(name, type, help);
  for (const CameraSnapshot& camera : now.cameras) page.sample({{"camera", camera.camera}}, value(camera));
}

void add_frames(Page& page, const Snapshot& now) {
  each_camera(page, now, "camd_frames_captured_total", "counter", "Frames that exist, whatever became of them.",
              [](const CameraSnapshot& camera) { return camera.totals.captured; });
  page.family("camd_frames_total", "counter",
              "Frames by outcome: delivered, or why not. With those in flight they are the captured ones.");
  for (const CameraSnapshot& camera : now.cameras) {
    page.sample({{"camera", camera.camera}, {"outcome", "delivered"}}, camera.totals.delivered);
    for (int i = 0; i < pipeline::kDropReasonCount; ++i) {
      page.sample(
          {{"camera", camera.camera}, {"outcome", std::string(to_string(static_cast<pipeline::DropReason>(i)))}},
          camera.totals.dropped[static_cast<std::size_t>(i)]);
    }
  }
  each_camera(page, now, "camd_frames_in_flight", "gauge", "Frames that have no outcome yet.",
              [](const CameraSnapshot& camera) { return camera.totals.in_flight; });
  page.family("camd_stage_duration_seconds", "histogram",
              "Time of delivered frames by stage. total: from the capture stamp to the last plug-in's return.");
  for (const CameraSnapshot& camera : now.cameras) {
    for (std::size_t i = 0; i < pipeline::kStageCount; ++i) {
      page.histogram({{"camera", camera.camera}, {"stage", std::string(to_string(static_cast<pipeline::Stage>(i)))}},
                     camera.stages[i]);
    }
  }
}

void add_cameras(Page& page, const Snapshot& now) {
  page.family("camd_camera_state", "gauge", "1 for the state that the camera is in, 0 for the others.");
  for (const CameraSnapshot& camera : now.cameras) {
    for (const std::string_view state : pipeline::camera_states()) {
      const std::string word(state);
      page.sample({{"camera", camera.camera}, {"state", word}}, camera.state == word ? 1 : 0);
    }
  }
  each_camera(page, now, "camd_upstream_packets_lost_total", "counter", "Packets that were lost before camd.",
              [](const CameraSnapshot& camera) { return camera.upstream.packets_lost; });
  each_camera(page, now, "camd_upstream_frames_damaged_total", "counter",
              "Pictures of which something was missing or wrong.",
              [](const CameraSnapshot& camera) { return camera.upstream.frames_damaged; });
  each_camera(page, now, "camd_upstream_frames_missing_total", "counter", "Pictures that never came.",
              [](const CameraSnapshot& camera) { return camera.upstream.frames_missing; });
  each_camera(page, now, "camd_copied_bytes_total", "counter", "Bytes of pictures that the CPU copied into slots.",
              [](const CameraSnapshot& camera) { return camera.copied_bytes; });
  page.family("camd_clock_source", "gauge", "1, with what the camera's capture times rest on.");
  for (const CameraSnapshot& camera : now.cameras) {
    page.sample({{"camera", camera.camera}, {"source", std::string(capture::to_string(camera.clock.source))}}, 1);
  }
  each_camera(page, now, "camd_clock_offset_seconds", "gauge", "How far the camera's clock is ahead of this machine's.",
              [](const CameraSnapshot& camera) { return seconds(camera.clock.offset); });
  each_camera(page, now, "camd_clock_uncertainty_seconds", "gauge",
              "By how much the last picture's capture time may be off.",
              [](const CameraSnapshot& camera) { return seconds(camera.clock.uncertainty); });
  each_camera(page, now, "camd_clock_drift_ratio", "gauge", "Above 0 the camera's clock is fast.",
              [](const CameraSnapshot& camera) { return camera.clock.drift_ppm * 1e-6; });
  each_camera(page, now, "camd_clock_steps_total", "counter", "Steps of the camera's stamps.",
              [](const CameraSnapshot& camera) { return camera.clock.steps; });
  page.family("camd_decoder_info", "gauge", "1, with what decodes the camera's pictures.");
  for (const CameraSnapshot& camera : now.cameras) {
    if (camera.decoder.name.empty()) continue;
    page.sample({{"camera", camera.camera}, {"decoder", camera.decoder.name}, {"device", camera.decoder.device}}, 1);
  }
}

std::vector<OneLabel> labels_of(const Snapshot& now, const PluginSnapshot& plugin) {
  return {{"plugin", plugin.name}, {"index", fmt::format("{}", &plugin - now.plugins.data())}};
}
std::vector<OneLabel> with(std::vector<OneLabel> labels, std::string_view name, std::string value) {
  labels.emplace_back(name, std::move(value));
  return labels;
}

void add_counters(Page& page, const Snapshot& now, camd_counter_kind kind, std::string_view name, std::string_view type,
                  std::string_view help) {
  page.family(name, type, help);
  for (const PluginSnapshot& plugin : now.plugins) {
    for (const PluginSnapshot::Counter& counter : plugin.counters) {
      if (counter.kind != kind) continue;
      const std::vector<OneLabel> labels = with(labels_of(now, plugin), "name", counter.name);
      if (kind == CAMD_GAUGE) {
        page.sample(labels, counter.level);
      } else {
        page.sample(labels, counter.count);
      }
    }
  }
}

void add_plugins(Page& page, const Snapshot& now) {
  add_counters(page, now, CAMD_COUNTER, "camd_plugin_events_total", "counter", "What a plug-in counts itself.");
  add_counters(page, now, CAMD_GAUGE, "camd_plugin_level", "gauge",
               "What a plug-in measures itself, as it was in the last metrics line.");
  page.family("camd_plugin_worker_state", "gauge", "1 for the state that a plug-in's process is in, 0 for the others.");
  for (const PluginSnapshot& plugin : now.plugins) {
    if (!plugin.health.isolated) continue;
    for (const std::string_view state : {"running", "restarting", "failed"}) {
      page.sample(with(labels_of(now, plugin), "state", std::string(state)), plugin.health.state == state ? 1 : 0);
    }
  }
  const auto each_worker = [&](std::string_view name, std::string_view help, auto&& value) {
    page.family(name, "counter", help);
    for (const PluginSnapshot& plugin : now.plugins) {
      if (plugin.health.isolated) page.sample(labels_of(now, plugin), value(plugin.health));
    }
  };
  each_worker("camd_plugin_worker_restarts_total", "How often a plug-in's process was started again.",
              [](const pipeline::PluginHealth& health) { return health.restarts; });
  each_worker("camd_plugin_worker_frames_lost_total", "Frames that a plug-in's process had, or could not be given.",
              [](const pipeline::PluginHealth& health) { return health.frames_lost; });
  each_worker("camd_plugin_worker_deadlines_missed_total", "Calls that took too long.",
              [](const pipeline::PluginHealth& health) { return health.deadline_missed; });
  each_worker("camd_plugin_worker_copied_bytes_total", "What did not lie in shared memory and was copied.",
              [](const pipeline::PluginHealth& health) { return health.bytes_copied; });
}

void add_outlets(Page& page, const Snapshot& now) {
  const auto each = [&](std::string_view name, std::string_view type, std::string_view help, auto&& samples) {
    page.family(name, type, help);
    for (const PluginSnapshot& plugin : now.plugins) {
      for (const pipeline::OutletRow& row : plugin.outlet) {
        samples(with(labels_of(now, plugin), "camera", row.camera), row);
      }
    }
  };
  using Row = pipeline::OutletRow;
  each("camd_outlet_messages_taken_total", "counter", "Messages that an outlet was given.",
       [&](const std::vector<OneLabel>& labels, const Row& row) { page.sample(labels, row.taken); });
  each("camd_outlet_messages_total", "counter",
       "Messages by outcome: acknowledged, or why they were dropped. With those pending they are the taken ones.",
       [&](const std::vector<OneLabel>& labels, const Row& row) {
         page.sample(with(labels, "outcome", "acknowledged"), row.acknowledged);
         for (const auto& [reason, count] : row.dropped) page.sample(with(labels, "outcome", reason), count);
       });
  each("camd_outlet_messages_pending", "gauge", "Messages that wait, in memory or on disk.",
       [&](const std::vector<OneLabel>& labels, const Row& row) {
         page.sample(with(labels, "place", "memory"), row.waiting);
         page.sample(with(labels, "place", "spool"), row.spooled);
       });
}

void add_devices(Page& page, const Snapshot& now) {
  const auto each = [&](std::string_view name, std::string_view help, auto&& value) {
    page.family(name, "gauge", help);
    for (std::size_t i = 0; i < now.lanes.size(); ++i) {
      page.sample({{"device", now.lanes[i].name}, {"lane", fmt::format("{}", i)}}, value(now.lanes[i]));
    }
  };
  each("camd_device_up", "1, or 0 where the device is lost.", [](const LaneView& lane) { return lane.lost ? 0 : 1; });
  each("camd_device_cameras", "Cameras that the device works for.", [](const LaneView& lane) { return lane.cameras; });
  each("camd_device_busy_ratio", "Part of the last second in which the device had a frame.",
       [](const LaneView& lane) { return lane.busy; });
  each("camd_device_load_ratio", "Part of the device's time that its cameras ask for.",
       [](const LaneView& lane) { return lane.load; });
  each("camd_device_memory_bytes", "Memory of the device that camd has taken; 0 where it works in host memory.",
       [](const LaneView& lane) { return lane.memory_bytes; });
}

}  // namespace

std::string prometheus_text(const Snapshot& now, const std::string& version, const config::Shard& shard) {
  Page page;
  page.family("camd_build_info", "gauge", "1, with camd's version, and which part of a fleet's cameras it has.");
  page.sample({{"version", version}, {"shard", fmt::format("{}/{}", shard.index, shard.count)}}, 1);
  add_frames(page, now);
  add_cameras(page, now);
  add_plugins(page, now);
  add_outlets(page, now);
  add_devices(page, now);
  page.family("process_cpu_seconds_total", "counter", "CPU time of camd, its plug-ins' processes aside.");
  page.sample({}, seconds(now.process.cpu_time));
  page.family("process_resident_memory_bytes", "gauge", "Memory of camd, its plug-ins' processes aside.");
  page.sample({}, now.process.rss_bytes);
  page.family("process_threads", "gauge", "Threads of camd.");
  page.sample({}, now.process.threads);
  return page.text();
}

}  // namespace camd::http
