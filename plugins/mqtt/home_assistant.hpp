// Devices for Home Assistant: MQTT discovery, one device for each camera.
//
// Source: https://www.home-assistant.io/integrations/mqtt/#mqtt-discovery (device discovery: one payload with `dev`,
// `o` and `cmps`; every component has `p` and `unique_id`; an empty retained payload removes the device).
//
// Threads: [any], functions of their arguments.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/mqtt/mqtt_options.hpp"

namespace camd::plugins {

// One line; what is no UTF-8 becomes U+FFFD.
[[nodiscard]] std::string text_of(const nlohmann::ordered_json& json);

// "homeassistant/device/camd-host_door/config"
[[nodiscard]] std::string discovery_topic(const MqttPluginOptions& options, std::string_view camera);

// Sensors of one camera: for each class whether one is there (occupancy) and how many, and, for diagnosis, the latency
// and whether the camera delivers. They read the retained `CAMERA_TOPIC/state`.
[[nodiscard]] std::string discovery_payload(const MqttPluginOptions& options, const std::string& camera,
                                            const std::string& camera_topic, const std::vector<std::string>& classes,
                                            const char* version);

}  // namespace camd::plugins
