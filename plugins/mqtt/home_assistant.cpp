#include "plugins/mqtt/home_assistant.hpp"

#include "plugins/paths.hpp"

namespace camd::plugins {
namespace {

using Json = nlohmann::ordered_json;

// Home Assistant takes letters, digits, '-' and '_'.
std::string id_part(std::string_view name) { return replaced(file_part(name), ".", "_"); }

std::string device_id(const MqttPluginOptions& options, std::string_view camera) {
  return id_part(options.broker.client_id) + "_" + id_part(camera);
}

// A text in a template of Jinja, between single quotes.
std::string quoted(const std::string& text) { return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'"; }

}  // namespace

std::string text_of(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string discovery_topic(const MqttPluginOptions& options, std::string_view camera) {
  return options.discovery_prefix + "/device/" + device_id(options, camera) + "/config";
}

std::string discovery_payload(const MqttPluginOptions& options, const std::string& camera,
                              const std::string& camera_topic, const std::vector<std::string>& classes,
                              const char* version) {
  const std::string id = device_id(options, camera);
  const auto component = [&id](const char* platform, const std::string& name, const std::string& part) {
    return Json{{"p", platform}, {"name", name}, {"unique_id", id + "_" + part}};
  };
  Json components = Json::object();
  for (const std::string& name : classes) {
    const std::string part = id_part(name);
    const std::string count = "value_json.counts.get(" + quoted(name) + ", 0)";
    Json occupancy = component("binary_sensor", name, part + "_occupancy");
    occupancy["device_class"] = "occupancy";
    occupancy["value_template"] = "{{ 'ON' if " + count + " > 0 else 'OFF' }}";
    components[part + "_occupancy"] = std::move(occupancy);
    Json number = component("sensor", name + " count", part + "_count");
    number["state_class"] = "measurement";
    number["value_template"] = "{{ " + count + " }}";
    components[part + "_count"] = std::move(number);
  }
  Json latency = component("sensor", "latency", "latency");
  latency["device_class"] = "duration";
  latency["unit_of_measurement"] = "ms";
  latency["state_class"] = "measurement";
  latency["entity_category"] = "diagnostic";
  latency["value_template"] = "{{ value_json.latency_ms }}";
  components["latency"] = std::move(latency);
  Json delivering = component("binary_sensor", "delivering", "delivering");
  delivering["device_class"] = "connectivity";
  delivering["entity_category"] = "diagnostic";
  delivering["value_template"] = "{{ 'ON' if value_json.delivering else 'OFF' }}";
  components["delivering"] = std::move(delivering);

  Json payload;
  payload["dev"] =
      Json{{"ids", Json::array({id})}, {"name", camera}, {"mf", "camd"}, {"mdl", "camera"}, {"sw", version}};
  payload["o"] = Json{{"name", "camd"}, {"sw", version}};
  payload["cmps"] = std::move(components);
  payload["state_topic"] = camera_topic + "/state";
  payload["availability"] = Json::array({Json{{"topic", options.broker.status_topic}}});
  payload["qos"] = options.broker.qos;
  return text_of(payload);
}

}  // namespace camd::plugins
