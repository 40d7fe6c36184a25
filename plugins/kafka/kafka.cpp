// The built-in `kafka`: sends detections and events to a Kafka topic (docs/outlets.md).
//
// Threads: as every plug-in (camd_plugin.h).
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "plugins/camd_plugin.hpp"
#include "plugins/json_object.hpp"
#include "plugins/kafka/kafka_connection.hpp"
#include "plugins/outbox/frame_outlet.hpp"
#include "plugins/paths.hpp"
#include "plugins/tables.hpp"

namespace camd::plugins {
namespace {

struct KafkaPluginOptions {
  KafkaOptions kafka;
  PublishOptions publish;
  OutboxOptions outbox;
};

// Notes in `keys` what is wrong.
KafkaPluginOptions read_keys(JsonObject& keys) {
  KafkaPluginOptions options;
  KafkaOptions& kafka = options.kafka;
  kafka.brokers = keys.text("brokers").value_or("");
  if (!keys.has("brokers") || kafka.brokers.empty()) {
    keys.fail("brokers", "is needed: HOST:PORT, with commas between several");
  }
  kafka.topic = keys.text("topic").value_or("");
  constexpr std::string_view kTopic = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  if (!keys.has("topic")) {
    keys.fail("topic", "is needed");
  } else if (kafka.topic.empty() || kafka.topic.size() > 249 ||
             kafka.topic.find_first_not_of(kTopic) != std::string::npos) {
    keys.fail("topic", "must have 1 to 249 letters, digits, '.', '_' and '-'");
  }
  kafka.client_id = keys.text("client_id").value_or("camd");
  kafka.compression = keys.one_of("compression", {"none", "gzip", "snappy", "lz4", "zstd"}).value_or("none");
  kafka.tls = keys.boolean("tls").value_or(false);
  for (const auto& [key, to] : {std::pair<const char*, std::string*>{"ca_file", &kafka.ca_file},
                                {"cert_file", &kafka.cert_file},
                                {"key_file", &kafka.key_file}}) {
    *to = keys.text(key).value_or("");
    if (to->empty()) continue;
    if (!kafka.tls) keys.fail(key, "is for tls: true only");
    if (!is_there(*to)) keys.fail(key, *to + " does not exist");
  }
  if (kafka.cert_file.empty() != kafka.key_file.empty()) keys.fail("cert_file", "goes with 'key_file'");
  kafka.verify = keys.boolean("verify").value_or(true);
  kafka.user = keys.text("user").value_or("");
  kafka.password = keys.text("password").value_or("");
  if (!kafka.password.empty() && kafka.user.empty()) keys.fail("password", "needs a 'user'");
  kafka.mechanism = keys.one_of("mechanism", {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}).value_or("PLAIN");
  options.publish = read_publish(keys);
  options.outbox = read_outbox(keys);
  return options;
}

KafkaPluginOptions read_kafka(std::string_view config_json) {
  JsonObject keys("config", config_json);
  KafkaPluginOptions options = read_keys(keys);
  keys.finish();
  return options;
}

class Kafka final : public FrameOutlet {
 public:
  Kafka(camd::plugin::Host host, std::string_view config_json) : Kafka(host, read_kafka(config_json)) {}

  static void check(const camd::plugin::Check& check) {
    JsonObject keys("config", check.config_json());
    const KafkaPluginOptions options = read_keys(keys);
    keys.report(check);
    check_spool(check, options.outbox);
  }

 private:
  Kafka(camd::plugin::Host host, const KafkaPluginOptions& options)
      : FrameOutlet(host, options.publish, options.outbox, connect_kafka(options.kafka),
                    "kafka " + options.kafka.brokers + " " + options.kafka.topic) {}
};

}  // namespace

const camd_plugin* kafka_table() noexcept {
  static constexpr camd_plugin kTable =
      camd::plugin::make_table<Kafka>("kafka", "1.0.0", "sends detections and events to a Kafka topic");
  return &kTable;
}

}  // namespace camd::plugins
