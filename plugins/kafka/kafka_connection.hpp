// An outbox's connection to a Kafka cluster, by librdkafka, as an idempotent producer: a message is on its partition
// once while a connection lasts. The key is the message's topic, which is the camera's name, so that a camera's
// messages are in one partition, in order.
//
// Threads: as Connection. librdkafka has threads of its own.
// Invariants: each open() makes a new producer; after close() none of its messages is on its way. A message counts when
// all
//   in-sync replicas have it (delivery reports).
#pragma once

#include <memory>
#include <string>

#include "plugins/outbox/connection.hpp"

namespace camd::plugins {

struct KafkaOptions {
  std::string brokers;  // "a:9092,b:9092"
  std::string topic;
  std::string client_id = "camd";
  std::string compression = "none";
  bool tls = false;
  std::string ca_file;    // "": the system's certificates
  std::string cert_file;  // of the client, "": none
  std::string key_file;
  bool verify = true;
  std::string mechanism = "PLAIN";  // of SASL
  std::string user;                 // "": none
  std::string password;
};

// Throws std::runtime_error when no descriptor is left.
[[nodiscard]] std::unique_ptr<Connection> connect_kafka(KafkaOptions options);

}  // namespace camd::plugins
