// An outbox's connection to an MQTT broker (3.1.1), by libmosquitto, which is driven from the outbox's thread: its own
// threads wait with select(), which knows no descriptor above 1023.
//
// Threads: as Connection.
// Invariants: each open() makes a new client with a clean session, so that the outbox alone decides what is sent again.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "plugins/mqtt/retained.hpp"
#include "plugins/outbox/connection.hpp"

namespace camd::plugins {

struct MqttOptions {
  std::string host;
  int port = 1883;
  bool tls = false;
  std::string ca_file;    // "": the system's certificates
  std::string cert_file;  // of the client, "": none
  std::string key_file;
  bool verify = true;  // that the certificate is the broker's
  std::string user;    // "": none
  std::string password;
  std::string client_id;
  int qos = 1;
  std::string status_topic;  // "online" is retained there while connected, "offline" otherwise (last will)
  std::string birth_topic;   // where "online" asks for all retained values again; "": nowhere
};

// `retained` is sent besides messages: all of it after each connect.
[[nodiscard]] std::unique_ptr<Connection> connect_mqtt(MqttOptions options, std::shared_ptr<Retained> retained);

}  // namespace camd::plugins
