// The built-in `kafka` against librdkafka's mock cluster, which speaks Kafka's protocol on loopback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "plugins/tables.hpp"
#include "tests/plugins/harness.hpp"

namespace camd::plugins {
namespace CAMD_TEST_FILE {

using nlohmann::json;

rd_kafka_t* make(rd_kafka_type_t type, const std::map<std::string, std::string>& keys) {
  std::array<char, 512> why{};
  rd_kafka_conf_t* const conf = rd_kafka_conf_new();
  rd_kafka_conf_set_log_cb(conf, [](const rd_kafka_t*, int, const char*, const char*) {});
  for (const auto& [key, value] : keys) {
    if (rd_kafka_conf_set(conf, key.c_str(), value.c_str(), why.data(), why.size()) != RD_KAFKA_CONF_OK) {
      throw std::runtime_error(why.data());
    }
  }
  rd_kafka_t* const made = rd_kafka_new(type, conf, why.data(), why.size());
  if (made == nullptr) throw std::runtime_error(why.data());
  return made;
}

// A cluster of two brokers and a topic of four partitions.
class Cluster {
 public:
  Cluster() : owner_(make(RD_KAFKA_PRODUCER, {})), mock_(rd_kafka_mock_cluster_new(owner_, 2)) {
    rd_kafka_mock_topic_create(mock_, "found", 4, 2);
  }
  ~Cluster() {
    rd_kafka_mock_cluster_destroy(mock_);
    rd_kafka_destroy(owner_);
  }
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  [[nodiscard]] std::string brokers() const { return rd_kafka_mock_cluster_bootstraps(mock_); }
  // The next Produce requests (key 0) are answered so.
  void answer_produce_with(rd_kafka_resp_err_t error) { rd_kafka_mock_push_request_errors(mock_, 0, 1, error); }
  // Each answer takes so long.
  void delay_answers(int ms) {
    for (const std::int32_t broker : {1, 2}) rd_kafka_mock_broker_set_rtt(mock_, broker, ms);
  }
  void set_up(bool up) {
    for (const std::int32_t broker : {1, 2}) {
      up ? rd_kafka_mock_broker_set_up(mock_, broker) : rd_kafka_mock_broker_set_down(mock_, broker);
    }
  }

 private:
  rd_kafka_t* owner_;
  rd_kafka_mock_cluster_t* mock_;
};

struct Record {
  std::int32_t partition;
  std::string key;
  json value;
};

// [blocks] until the topic has so many records; all of them, by partition in order.
std::vector<Record> records(const Cluster& cluster, std::size_t count) {
  rd_kafka_t* const consumer =
      make(RD_KAFKA_CONSUMER,
           {{"bootstrap.servers", cluster.brokers()}, {"group.id", "test"}, {"auto.offset.reset", "earliest"}});
  rd_kafka_topic_partition_list_t* const all = rd_kafka_topic_partition_list_new(4);
  for (std::int32_t i = 0; i < 4; ++i)
    rd_kafka_topic_partition_list_add(all, "found", i)->offset = RD_KAFKA_OFFSET_BEGINNING;
  rd_kafka_assign(consumer, all);
  rd_kafka_topic_partition_list_destroy(all);
  std::vector<Record> found;
  while (found.size() < count) {
    rd_kafka_message_t* const message = rd_kafka_consumer_poll(consumer, 100);
    if (message == nullptr) continue;
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
      found.push_back({message->partition, std::string(static_cast<const char*>(message->key), message->key_len),
                       json::parse(std::string(static_cast<const char*>(message->payload), message->len))});
    }
    rd_kafka_message_destroy(message);
  }
  rd_kafka_consumer_close(consumer);
  rd_kafka_destroy(consumer);
  return found;
}

class KafkaTest : public ::testing::Test {
 protected:
  void begin(const std::string& further = "") {
    model_.cameras = {"door", "yard", "gate"};
    ASSERT_EQ(plugin_.create(R"({"brokers":")" + cluster_.brokers() +
                             R"(","topic":"found","publish":"frame","outbox":{"retry_max":"100ms"})" + further + "}"),
              CAMD_OK)
        << plugin_.error();
    ASSERT_EQ(plugin_.outputs(model_), CAMD_OK) << plugin_.error();
  }
  // Frames `from` to `to` of each camera.
  void frames(std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t sequence = from; sequence < to; ++sequence) {
      for (std::int32_t camera = 0; camera < 3; ++camera) {
        plugin_.frame.camera = model_.cameras[static_cast<std::size_t>(camera)].c_str();
        plugin_.frame.camera_index = camera;
        plugin_.frame.sequence = sequence;
        ASSERT_EQ(plugin_.process(model_, {}), CAMD_OK) << plugin_.error();
      }
    }
  }
  // Each camera is in one partition, under its name, its frames in order. Frames may come again.
  static void expect_all(const std::vector<Record>& found, std::uint64_t count) {
    std::map<std::string, std::int32_t> partition;
    std::map<std::string, std::uint64_t> next;
    for (const Record& record : found) {
      EXPECT_EQ(record.value["camera"], record.key);
      EXPECT_EQ(partition.try_emplace(record.key, record.partition).first->second, record.partition) << record.key;
      const std::uint64_t sequence = record.value["seq"];
      EXPECT_LE(sequence, next[record.key]) << record.key;
      if (sequence == next[record.key]) ++next[record.key];
    }
    EXPECT_EQ(next, (std::map<std::string, std::uint64_t>{{"door", count}, {"gate", count}, {"yard", count}}));
  }

  Cluster cluster_;
  testing::FakeModel model_{32, 32};
  testing::Instance plugin_{kafka_table()};
};

TEST_F(KafkaTest, SendsEachCameraToOnePartitionInOrder) {
  begin();
  frames(0, 20);
  const std::vector<Record> found = records(cluster_, 60);
  EXPECT_EQ(found.size(), 60U);
  expect_all(found, 20);
}

TEST_F(KafkaTest, TriesAgainWhatABrokerCannotTakeJustNowWithoutADouble) {
  cluster_.answer_produce_with(RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION);
  begin();
  frames(0, 10);
  const std::vector<Record> found = records(cluster_, 30);
  EXPECT_EQ(found.size(), 30U);
  expect_all(found, 10);
}

TEST_F(KafkaTest, SendsWhatWaitedWhileNoBrokerWasThere) {
  cluster_.set_up(false);
  begin();
  frames(0, 10);
  cluster_.set_up(true);
  expect_all(records(cluster_, 30), 10);
}

TEST_F(KafkaTest, ReachesABrokerWhoseAnswersTakeAFifthOfASecond) {
  cluster_.delay_answers(200);
  begin();
  frames(0, 2);
  expect_all(records(cluster_, 6), 2);
}

TEST(KafkaOptions, SaysAllThatIsWrongAtOnce) {
  testing::Instance plugin(kafka_table());
  EXPECT_NE(plugin.create("{}"), CAMD_OK);
  EXPECT_EQ(plugin.error(),
            "config.brokers: is needed: HOST:PORT, with commas between several; config.topic: is needed");
  EXPECT_NE(plugin.create(R"({"brokers":"h:1","topic":"a b","mechanism":"PLAN","ca_file":"x","password":"p"})"),
            CAMD_OK);
  EXPECT_EQ(
      plugin.error(),
      "config.topic: must have 1 to 249 letters, digits, '.', '_' and '-'; config.ca_file: is for tls: true only; "
      "config.ca_file: x does not exist; config.password: needs a 'user'; config.mechanism: 'PLAN' is none of PLAIN, "
      "SCRAM-SHA-256, SCRAM-SHA-512 (did you mean 'PLAIN'?)");
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins
