// What the built-in `mqtt` is configured with.
//
// Threads: [setup].
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/camd_plugin.hpp"
#include "plugins/json_object.hpp"
#include "plugins/mqtt/mqtt_connection.hpp"
#include "plugins/outbox/outbox.hpp"
#include "plugins/outbox/publish.hpp"

namespace camd::plugins {

struct MqttPluginOptions {
  MqttOptions broker;
  std::string topic = "camd";  // in front of all topics
  PublishOptions publish;
  std::vector<std::string> classes;  // that are counted; empty: all
  bool homeassistant = false;
  std::string discovery_prefix = "homeassistant";
  OutboxOptions outbox;
};

// Reads the keys that say which broker, and how: url, login, TLS, client_id, qos, topic, status_topic. `part`: of camd
// that has a connection of its own, for the defaults; "": all the rest. Returns the topic that stands in front of all.
// Notes in `keys` what is wrong.
[[nodiscard]] std::string read_broker(JsonObject& keys, MqttOptions& broker, const std::string& part);

// Throws std::invalid_argument with everything that is wrong.
[[nodiscard]] MqttPluginOptions read_mqtt(std::string_view config_json);
// Tells what is wrong, and that the spool's folder is this instance's alone.
void check_mqtt(const camd::plugin::Check& check);

}  // namespace camd::plugins
