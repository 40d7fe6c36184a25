// The effective configuration as JSON. Its keys are those of the key table, so that load_text() reads it back.
#include <nlohmann/json.hpp>

#include "base/secrets.hpp"
#include "base/sha256.hpp"
#include "config/config.hpp"
#include "config/secrets.hpp"
#include "config/value.hpp"

namespace camd::config {
namespace {

using nlohmann::json;

// The configuration writes formats in lower case, GStreamer in upper.
std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

void add_recovery(json& source, const Recovery& recovery) {
  source["timeout"] = duration_text(recovery.timeout);
  source["reconnect"] = {{"initial", duration_text(recovery.reconnect_initial)},
                         {"max", duration_text(recovery.reconnect_max)}};
}

// Texts are read back as what they are, not as references.
// NOLINTNEXTLINE(misc-no-recursion): a tree is at most kMaxDepth deep
json escaped(json value) {
  if (value.is_string()) return without_references(value.get<std::string>());
  for (json& element : value) {
    if (element.is_structured() || element.is_string()) element = escaped(element);
  }
  return value;
}

struct SourceFields {
  json& out;
  void operator()(const FileSource& source) const {
    out["path"] = without_references(source.path.string());
    out["loop"] = source.loop;
    out["realtime"] = source.realtime;
  }
  void operator()(const V4l2Source& source) const {
    out["device"] = without_references(source.device.string());
    out["width"] = source.width;
    out["height"] = source.height;
    out["fps"] = source.fps;
    add_recovery(out, source.recovery);
  }
  void operator()(const RtspSource& source) const {
    out["url"] = without_references(source.url);
    out["latency"] = duration_text(source.latency);
    out["transport"] = to_string(source.transport);
    add_recovery(out, source.recovery);
  }
  void operator()(const GStreamerSource& source) const {
    out["pipeline"] = without_references(source.pipeline);
    add_recovery(out, source.recovery);
  }
  void operator()(const TestSource& source) const {
    out["width"] = source.width;
    out["height"] = source.height;
    out["fps"] = source.fps;
    out["format"] = lower_case(base::to_string(source.format));
    out["frames"] = source.frames;
    out["realtime"] = source.realtime;
  }
};

json gate_json(const std::optional<MotionGate>& gate) {
  if (!gate) return "none";
  json motion = {{"threshold", gate->threshold}};
  if (!gate->region.empty()) motion["region"] = gate->region;
  return {{"motion", motion}, {"longest", duration_text(gate->longest)}};
}

json model_json(const Model& model) {
  json input = json::object();
  if (model.input.width) input["width"] = *model.input.width;
  if (model.input.height) input["height"] = *model.input.height;
  if (model.input.color) input["color"] = to_string(*model.input.color);
  if (model.input.mean) input["mean"] = *model.input.mean;
  if (model.input.scale) input["scale"] = *model.input.scale;
  if (model.input.resize) input["resize"] = to_string(*model.input.resize);
  if (model.input.position) input["position"] = to_string(*model.input.position);
  if (model.input.pad) input["pad"] = *model.input.pad;
  json out = {{"path", model.path.string()},
              {"engine", to_string(model.engine)},
              {"precision", to_string(model.precision)},
              {"input", input}};
  if (!model.cut_at.empty()) out["cut_at"] = model.cut_at;
  if (model.card) out["card"] = model.card->string();
  return out;
}

}  // namespace

std::string effective_text(const Config& config) {
  json root;
  if (config.all_devices) {
    root["devices"] = "all";
  } else if (!config.devices.empty()) {
    for (const DeviceChoice& device : config.devices) root["devices"].push_back(to_string(device));
  } else {
    root["device"] = to_string(config.device);
  }
  root["model"] = model_json(config.model);
  root["pipeline"] = {{"slots", config.pipeline.slots},
                      {"transfer", to_string(config.pipeline.transfer)},
                      {"streams", to_string(config.pipeline.streams)},
                      {"max_age", duration_text(config.pipeline.max_age)}};
  root["cameras"] = json::array();
  for (const Camera& camera : config.cameras) {
    json source = {{"type", type_name(camera.source)}};
    std::visit(SourceFields{source}, camera.source);
    root["cameras"].push_back({{"name", camera.name},
                               {"max_megapixels", camera.max_megapixels},
                               {"decode", to_string(camera.decode)},
                               {"damaged", to_string(camera.damaged)},
                               {"gate", gate_json(camera.gate)},
                               {"source", source}});
  }
  root["postprocess"] = json::array();
  for (const Postprocessor& entry : config.postprocess) {
    json one = {{"plugin", entry.plugin},
                {"config", escaped(json::parse(entry.config_json))},
                {"isolation", to_string(entry.isolation)},
                {"instances", to_string(entry.instances)}};
    if (entry.isolation == Isolation::kProcess) {
      one["deadline"] = duration_text(entry.deadline);
      one["memory"] = size_text(entry.memory_bytes);
      one["nice"] = entry.nice;
      one["on_failure"] = to_string(entry.on_failure);
      if (!entry.worker.empty()) one["worker"] = entry.worker;
      if (!entry.allow.empty()) one["allow"] = entry.allow;
      if (!entry.python.empty()) one["python"] = entry.python;
    }
    root["postprocess"].push_back(std::move(one));
  }
  root["metrics"] = {{"period", duration_text(config.metrics.period)}};
  if (!config.http.listen.empty()) {
    root["http"]["listen"] = config.http.listen;
    if (!config.http.token.empty()) root["http"]["token"] = without_references(config.http.token);
  }
  // The name of a folder need not be UTF-8; such bytes become U+FFFD.
  return root.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string effective_sha256(const Config& config) {
  // The card decides what is detected, too, but its keys have no place in a configuration.
  // A sum of a password could be tried out against a list of them.
  return base::sha256(base::without_secrets(effective_text(config)) +
                      (config.model.card ? config.model.card_json : ""));
}

}  // namespace camd::config
