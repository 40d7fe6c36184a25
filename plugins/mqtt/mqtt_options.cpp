#include "plugins/mqtt/mqtt_options.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <fstream>
#include <stdexcept>

#include "plugins/json_object.hpp"
#include "plugins/outbox/frame_outlet.hpp"
#include "plugins/paths.hpp"

namespace camd::plugins {
namespace {

using std::chrono::milliseconds;

// Whether something can be published there, and other levels may follow.
bool is_topic(const std::string& topic) {
  return !topic.empty() && topic.find_first_of("+#") == std::string::npos && topic.front() != '/' &&
         topic.front() != '$' && topic.back() != '/' && topic.size() <= 200;
}

// mqtt://HOST[:PORT], mqtts://HOST[:PORT]; a host in [] is an IPv6 address. False: it is none.
bool read_url(std::string_view url, MqttOptions& broker) {
  if (url.rfind("mqtts://", 0) == 0) {
    broker.tls = true;
    broker.port = 8883;
  } else if (url.rfind("mqtt://", 0) != 0) {
    return false;
  }
  url.remove_prefix(url.find("://") + 3);
  if (!url.empty() && url.back() == '/') url.remove_suffix(1);
  std::size_t end = url.find(':');
  if (!url.empty() && url.front() == '[') {
    const std::size_t close = url.find(']');
    if (close == std::string_view::npos) return false;
    broker.host = url.substr(1, close - 1);
    end = close + 1 < url.size() ? close + 1 : std::string_view::npos;
  } else {
    broker.host = url.substr(0, end);
  }
  if (broker.host.empty() || broker.host.find_first_of("/@?# ") != std::string::npos) return false;
  if (end == std::string_view::npos) return true;
  const std::string_view port = url.substr(end + 1);
  const auto [last, error] = std::from_chars(port.data(), port.data() + port.size(), broker.port);
  return url[end] == ':' && error == std::errc() && last == port.data() + port.size() && broker.port > 0 &&
         broker.port < 65536;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "camd";
}

// "USER:PASSWORD" or two lines.
void read_user_file(const std::string& path, MqttOptions& broker, JsonObject& keys) {
  std::ifstream file(path);
  std::string first, second;
  if (!file || !std::getline(file, first) || first.empty()) {
    keys.fail("user_file", path + " cannot be read, or is empty: it holds USER:PASSWORD, or each on a line");
    return;
  }
  if (std::getline(file, second) && !second.empty()) {
    broker.user = first;
    broker.password = second;
    return;
  }
  const std::size_t colon = first.find(':');
  broker.user = first.substr(0, colon);
  if (colon != std::string::npos) broker.password = first.substr(colon + 1);
}

// Notes in `keys` what is wrong.
MqttPluginOptions read_keys(JsonObject& keys) {
  MqttPluginOptions options;
  MqttOptions& broker = options.broker;
  options.topic = read_broker(keys, broker, "");
  options.publish = read_publish(keys);
  options.classes = keys.texts("classes").value_or(std::vector<std::string>{});
  options.homeassistant = keys.boolean("homeassistant").value_or(false);
  options.discovery_prefix = keys.text("discovery_prefix").value_or("homeassistant");
  if (keys.has("discovery_prefix") && !options.homeassistant) {
    keys.fail("discovery_prefix", "is for homeassistant: true");
  }
  if (options.homeassistant) broker.birth_topic = options.discovery_prefix + "/status";
  options.outbox = read_outbox(keys);
  return options;
}

}  // namespace

std::string read_broker(JsonObject& keys, MqttOptions& broker, const std::string& part) {
  const auto url = keys.text("url");
  if (!keys.has("url")) {
    keys.fail("url", "is needed: the broker, e.g. mqtt://localhost or mqtts://broker.example:8883");
  } else if (url && !read_url(*url, broker)) {
    keys.fail("url", "must be mqtt://HOST:PORT or mqtts://HOST:PORT; a user goes into 'user' and 'password'");
  }
  broker.user = keys.text("user").value_or("");
  broker.password = keys.text("password").value_or("");
  if (const auto path = keys.text("user_file")) {
    if (keys.has("user") || keys.has("password")) keys.fail("user_file", "is instead of 'user' and 'password'");
    read_user_file(*path, broker, keys);
  }
  if (!broker.password.empty() && broker.user.empty()) keys.fail("password", "needs a 'user'");
  for (const auto& [key, to] : {std::pair<const char*, std::string*>{"ca_file", &broker.ca_file},
                                {"cert_file", &broker.cert_file},
                                {"key_file", &broker.key_file}}) {
    *to = keys.text(key).value_or("");
    if (to->empty()) continue;
    if (!broker.tls) keys.fail(key, "is for mqtts:// only");
    if (!is_there(*to)) keys.fail(key, *to + " does not exist");
  }
  if (broker.cert_file.empty() != broker.key_file.empty()) keys.fail("cert_file", "goes with 'key_file'");
  broker.verify = keys.boolean("verify").value_or(true);
  broker.client_id =
      keys.text("client_id").value_or("camd-" + file_part(host_name()) + (part.empty() ? "" : "-" + part));
  if (broker.client_id.empty() || broker.client_id.size() > 128) keys.fail("client_id", "must have 1 to 128 bytes");
  broker.qos = static_cast<int>(keys.integer("qos", 0, 2).value_or(1));
  std::string topic = keys.text("topic").value_or("camd");
  broker.status_topic = keys.text("status_topic").value_or(topic + (part.empty() ? "" : "/" + part) + "/status");
  for (const auto& [key, one] :
       {std::pair<const char*, const std::string*>{"topic", &topic}, {"status_topic", &broker.status_topic}}) {
    if (keys.has(key) && !is_topic(*one)) {
      keys.fail(key, "must be a topic such as camd or site/camd: no + and #, no / at an end, no $ in front");
    }
  }
  return topic;
}

MqttPluginOptions read_mqtt(std::string_view config_json) {
  JsonObject keys("config", config_json);
  MqttPluginOptions options = read_keys(keys);
  keys.finish();
  return options;
}

void check_mqtt(const camd::plugin::Check& check) {
  JsonObject keys("config", check.config_json());
  const MqttPluginOptions options = read_keys(keys);
  keys.report(check);
  check_spool(check, options.outbox);
}

}  // namespace camd::plugins
