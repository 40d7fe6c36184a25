// The built-in `mqtt` against a real broker, Debian's mosquitto, on loopback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mosquitto.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "plugins/mqtt/mqtt_options.hpp"
#include "plugins/tables.hpp"
#include "tests/plugins/harness.hpp"

namespace camd::plugins {
namespace CAMD_TEST_FILE {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr const char* kBroker = "/usr/sbin/mosquitto";

int free_port() {
  const int file = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(::bind(file, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(file, reinterpret_cast<sockaddr*>(&address), &size), 0);
  ::close(file);
  return ntohs(address.sin_port);
}

// Everything that a broker has for `#`, as somebody who subscribes sees it.
class Listener {
 public:
  explicit Listener(int port) : client_(mosquitto_new(nullptr, true, this)) {
    mosquitto_connect_callback_set(client_,
                                   [](mosquitto* client, void*, int) { mosquitto_subscribe(client, nullptr, "#", 1); });
    mosquitto_subscribe_callback_set(client_, [](mosquitto*, void* self, int, int, const int*) {
      auto& me = *static_cast<Listener*>(self);
      const std::lock_guard lock(me.mutex_);
      me.subscribed_ = true;
      me.changed_.notify_all();
    });
    mosquitto_message_callback_set(client_, [](mosquitto*, void* self, const mosquitto_message* message) {
      auto& me = *static_cast<Listener*>(self);
      const std::lock_guard lock(me.mutex_);
      me.messages_.emplace_back(message->topic, std::string(static_cast<const char*>(message->payload),
                                                            static_cast<std::size_t>(message->payloadlen)));
      me.changed_.notify_all();
    });
    while (mosquitto_connect(client_, "127.0.0.1", port, 60) != MOSQ_ERR_SUCCESS) std::this_thread::yield();
    mosquitto_loop_start(client_);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return subscribed_; });
  }
  ~Listener() {
    mosquitto_disconnect(client_);
    mosquitto_loop_stop(client_, false);
    mosquitto_destroy(client_);
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // [blocks] until `count` messages of that topic have come. Returns all of them.
  std::vector<std::string> wait_for(const std::string& topic, std::size_t count) {
    std::unique_lock lock(mutex_);
    std::vector<std::string> found;
    changed_.wait(lock, [&] {
      found.clear();
      for (const auto& [name, payload] : messages_) {
        if (name == topic) found.push_back(payload);
      }
      return found.size() >= count;
    });
    return found;
  }
  // [blocks] until the topic's newest value is one that `is` holds for.
  json wait_until(const std::string& topic, const std::function<bool(const json&)>& is) {
    std::unique_lock lock(mutex_);
    json value;
    changed_.wait(lock, [&] {
      for (const auto& [name, payload] : messages_) {
        if (name == topic) value = json::parse(payload, nullptr, false);
      }
      return is(value);
    });
    return value;
  }
  void publish(const std::string& topic, const std::string& payload) {
    mosquitto_publish(client_, nullptr, topic.c_str(), static_cast<int>(payload.size()), payload.data(), 1, false);
  }

 private:
  mosquitto* client_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool subscribed_ = false;
  std::vector<std::pair<std::string, std::string>> messages_;
};

class MqttTest : public testing::InFolder {
 protected:
  void SetUp() override {
    if (::access(kBroker, X_OK) != 0) GTEST_SKIP() << "no " << kBroker << ": apt-get install mosquitto";
    port_ = free_port();
    begin_broker();
  }
  void TearDown() override { end_broker(SIGTERM); }

  void begin_broker(const std::string& further = "allow_anonymous true\n") {
    std::ofstream(path("mosquitto.conf")) << "listener " << port_ << " 127.0.0.1\nuser root\n" << further;
    const std::string file = path("mosquitto.conf");
    broker_ = ::fork();
    if (broker_ == 0) {
      if (::freopen("/dev/null", "w", stderr) == nullptr) ::_exit(127);
      ::execl(kBroker, kBroker, "-c", file.c_str(), nullptr);
      ::_exit(127);
    }
  }
  void end_broker(int signal) {
    if (broker_ <= 0) return;
    ::kill(broker_, signal);
    ::waitpid(broker_, nullptr, 0);
    broker_ = 0;
  }
  [[nodiscard]] std::string config(const std::string& further = "") const {
    return R"({"url":"mqtt://127.0.0.1:)" + std::to_string(port_) +
           R"(","client_id":"test","outbox":{"retry_max":"100ms"})" + further + "}";
  }
  void begin(const std::string& configuration) {
    ASSERT_EQ(plugin_.create(configuration), CAMD_OK) << plugin_.error();
    ASSERT_EQ(plugin_.outputs(model_), CAMD_OK) << plugin_.error();
  }
  void frame(std::uint64_t sequence, const std::vector<const char*>& classes) {
    std::vector<camd_detection> found;
    for (const char* name : classes) {
      camd_detection detection{};
      std::snprintf(detection.class_name, sizeof(detection.class_name), "%s", name);
      detection.score = 0.5F;
      found.push_back(detection);
    }
    plugin_.frame.sequence = sequence;
    ASSERT_EQ(plugin_.process(model_, found), CAMD_OK) << plugin_.error();
  }

  int port_ = 0;
  pid_t broker_ = 0;
  testing::FakeModel model_{32, 32};
  testing::Instance plugin_{mqtt_table()};
};

TEST_F(MqttTest, SendsTheDetectionsOfEveryFrameThatShowsSomethingElse) {
  Listener listener(port_);
  begin(config());
  frame(0, {"person"});
  frame(1, {"person"});
  frame(2, {"person", "car"});
  frame(3, {});
  const std::vector<std::string> sent = listener.wait_for("camd/door/detections", 3);
  ASSERT_EQ(sent.size(), 3U);
  EXPECT_EQ(json::parse(sent[0])["seq"], 0);
  EXPECT_EQ(json::parse(sent[1])["seq"], 2);
  EXPECT_EQ(json::parse(sent[1])["detections"].size(), 2U);
  EXPECT_EQ(json::parse(sent[2])["seq"], 3);
}

TEST_F(MqttTest, SendsEveryFrameOrOneAnIntervalWhenToldSo) {
  Listener listener(port_);
  begin(config(R"(,"publish":"interval","interval":"1s","topic":"site/a")"));
  for (int i = 0; i < 25; ++i) {
    plugin_.host.now_ns = i * 100'000'000LL;
    frame(static_cast<std::uint64_t>(i), {"person"});
  }
  const std::vector<std::string> sent = listener.wait_for("site/a/door/detections", 3);
  ASSERT_EQ(sent.size(), 3U);
  EXPECT_EQ(json::parse(sent[1])["seq"], 10);
  EXPECT_EQ(json::parse(sent[2])["seq"], 20);
}

TEST_F(MqttTest, RetainsWhatACameraSeesAndWhetherItDelivers) {
  begin(config(R"(,"classes":["person"])"));
  frame(0, {"person", "person", "car"});
  Listener late(port_);
  const json state =
      late.wait_until("camd/door/state", [](const json& v) { return v.is_object() && v.value("delivering", false); });
  EXPECT_EQ(state["counts"], (json{{"person", 2}}));
  plugin_.host.now_ns = 6'000'000'000;  // and no frame since
  plugin_.offered<camd_plugin_counters>(CAMD_EXTENSION_COUNTERS).sample(plugin_.instance, &plugin_.problem);
  static_cast<void>(
      late.wait_until("camd/door/state", [](const json& v) { return v.is_object() && !v.value("delivering", true); }));
}

TEST_F(MqttTest, IsOnlineWhileItRunsAndOfflineAfterwards) {
  Listener listener(port_);
  begin(config());
  EXPECT_EQ(listener.wait_for("camd/status", 1)[0], "online");
  EXPECT_EQ(plugin_.destroy(), CAMD_OK);
  EXPECT_EQ(listener.wait_for("camd/status", 2)[1], "offline");
}

TEST_F(MqttTest, TellsHomeAssistantOfEachCameraAndItsClasses) {
  Listener listener(port_);
  begin(config(R"(,"homeassistant":true)"));
  frame(0, {"person"});
  const json device = listener.wait_until("homeassistant/device/test_door/config", [](const json& v) {
    return v.is_object() && v["cmps"].contains("person_occupancy");
  });
  EXPECT_EQ(device["dev"]["ids"], json::array({"test_door"}));
  EXPECT_EQ(device["dev"]["name"], "door");
  EXPECT_EQ(device["o"]["name"], "camd");
  EXPECT_EQ(device["state_topic"], "camd/door/state");
  EXPECT_EQ(device["availability"][0]["topic"], "camd/status");
  EXPECT_EQ(device["cmps"]["person_occupancy"],
            (json{{"p", "binary_sensor"},
                  {"name", "person"},
                  {"unique_id", "test_door_person_occupancy"},
                  {"device_class", "occupancy"},
                  {"value_template", "{{ 'ON' if value_json.counts.get('person', 0) > 0 else 'OFF' }}"}}));
  for (const auto& [name, component] : device["cmps"].items()) {
    EXPECT_TRUE(component.contains("p")) << name;
    EXPECT_TRUE(component.contains("unique_id")) << name;
  }
}

TEST_F(MqttTest, TellsHomeAssistantAgainWhenThatHasStarted) {
  Listener listener(port_);
  begin(config(R"(,"homeassistant":true)"));
  const std::string topic = "homeassistant/device/test_door/config";
  static_cast<void>(listener.wait_for("camd/status", 1));
  const std::size_t before = listener.wait_for(topic, 1).size();
  listener.publish("homeassistant/status", "online");
  EXPECT_FALSE(listener.wait_for(topic, before + 1).back().empty());
}

TEST_F(MqttTest, RemovesTheDeviceOfACameraThatHasGone) {
  Listener listener(port_);
  begin(config(R"(,"homeassistant":true)"));
  const std::string topic = "homeassistant/device/test_door/config";
  EXPECT_FALSE(listener.wait_for(topic, 1)[0].empty());
  ASSERT_EQ(plugin_.change_camera(0, nullptr), CAMD_OK);
  EXPECT_EQ(listener.wait_for(topic, 2)[1], "");
}

TEST_F(MqttTest, SendsWhatWaitedWhileTheBrokerWasAway) {
  begin(config(R"(,"publish":"frame")"));
  { Listener(port_).wait_for("camd/status", 1); }
  end_broker(SIGKILL);
  for (std::uint64_t i = 0; i < 5; ++i) frame(i, {"person"});
  begin_broker();
  Listener listener(port_);
  // The first may have been sent before the listener was there: what it sees is in order, and ends with the newest.
  static_cast<void>(listener.wait_until("camd/door/detections",
                                        [](const json& v) { return v.is_object() && v.value("seq", 0) == 4; }));
}

TEST_F(MqttTest, TellsAWrongPasswordOnceAndNeverShowsIt) {
  end_broker(SIGTERM);
  begin_broker("allow_anonymous false\n");
  begin(config(R"(,"user":"me","password":"open sesame")"));
  for (;;) {
    const std::lock_guard lock(plugin_.host.mutex);
    if (!plugin_.host.lines.empty() && plugin_.host.lines.back().find("refused") != std::string::npos &&
        plugin_.host.lines.back().find("authori") != std::string::npos) {
      break;
    }
  }
  const std::lock_guard lock(plugin_.host.mutex);
  for (const std::string& line : plugin_.host.lines) EXPECT_EQ(line.find("sesame"), std::string::npos) << line;
}

// ---- What is configured

std::string problem_with(const std::string& config) {
  try {
    static_cast<void>(read_mqtt(config));
  } catch (const std::invalid_argument& problem) {
    return problem.what();
  }
  return "";
}

TEST(MqttOptions, SaysAllThatIsWrongAtOnce) {
  EXPECT_EQ(problem_with("{}"),
            "config.url: is needed: the broker, e.g. mqtt://localhost or mqtts://broker.example:8883");
  EXPECT_EQ(problem_with(R"({"url":"http://x","qos":3,"publish":"chang","outbox":{"capacity":0,"spol":"x"}})"),
            "config.url: must be mqtt://HOST:PORT or mqtts://HOST:PORT; a user goes into 'user' and 'password'; "
            "config.qos: must be a whole number in 0..2, not 3; "
            "config.publish: 'chang' is none of frame, change, interval (did you mean 'change'?); "
            "config.outbox.capacity: must be a whole number in 1..1000000, not 0; "
            "config.outbox.spol: unknown key (did you mean 'spool'?)");
}

TEST(MqttOptions, ReadsAddressesOfEveryKind) {
  const auto broker = [](const char* url) { return read_mqtt(std::string(R"({"url":")") + url + "\"}").broker; };
  EXPECT_EQ(broker("mqtt://host").port, 1883);
  EXPECT_EQ(broker("mqtts://host/").port, 8883);
  EXPECT_TRUE(broker("mqtts://host").tls);
  EXPECT_EQ(broker("mqtt://[::1]:99").host, "::1");
  EXPECT_EQ(broker("mqtt://[::1]:99").port, 99);
  for (const char* wrong :
       {"mqtt://", "mqtt://host:0", "mqtt://host:70000", "mqtt://host:1x", "mqtt://me:pw@host", "host"}) {
    EXPECT_THAT(problem_with(std::string(R"({"url":")") + wrong + "\"}"), HasSubstr("must be mqtt://")) << wrong;
  }
}

TEST(MqttOptions, ReadsSizesAndTimesWithTheirUnits) {
  const OutboxOptions box =
      read_mqtt(R"({"url":"mqtt://h","outbox":{"memory":"2MiB","spool":"s","spool_max":"3GiB","retry_max":"1min"}})")
          .outbox;
  EXPECT_EQ(box.memory_bytes, std::uint64_t{2} << 20U);
  EXPECT_EQ(box.spool_max_bytes, std::uint64_t{3} << 30U);
  EXPECT_EQ(box.retry_max.count(), 60'000);
  EXPECT_EQ(problem_with(R"({"url":"mqtt://h","outbox":{"memory":"2MB"}})"),
            "config.outbox.memory: must be a size such as 64KiB or 16MiB, in 64KiB..4GiB, not \"2MB\"");
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins
