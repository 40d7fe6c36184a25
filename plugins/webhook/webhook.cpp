// The built-in `webhook`: posts detections and events to a web server (docs/outlets.md).
//
// Threads: as every plug-in (camd_plugin.h).
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "plugins/camd_plugin.hpp"
#include "plugins/json_object.hpp"
#include "plugins/outbox/frame_outlet.hpp"
#include "plugins/paths.hpp"
#include "plugins/tables.hpp"
#include "plugins/webhook/http_connection.hpp"

namespace camd::plugins {
namespace {

using std::chrono::milliseconds;

struct WebhookOptions {
  HttpOptions http;
  PublishOptions publish;
  OutboxOptions outbox;
};

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20U || c == 0x7F; });
}

// Notes in `keys` what is wrong.
WebhookOptions read_keys(JsonObject& keys) {
  WebhookOptions options;
  HttpOptions& http = options.http;
  http.url = keys.text("url").value_or("");
  const bool tls = http.url.rfind("https://", 0) == 0;
  const std::size_t host = http.url.find("://") + 3;
  if (!keys.has("url")) {
    keys.fail("url", "is needed: where to post, e.g. https://example.org/hook");
  } else if ((!tls && http.url.rfind("http://", 0) != 0) || http.url.size() <= host || has_control(http.url) ||
             http.url.find(' ') != std::string::npos) {
    keys.fail("url", "must be http://HOST/PATH or https://HOST/PATH");
  } else if (http.url.substr(host, http.url.find_first_of("/?#", host) - host).find('@') != std::string::npos) {
    keys.fail("url", "a user goes into 'user' and 'password'");
  }
  http.headers = keys.texts("headers").value_or(std::vector<std::string>{});
  for (const std::string& header : http.headers) {
    if (header.find(':') == std::string::npos || header.front() == ':' || has_control(header)) {
      keys.fail("headers", "each must be \"Name: value\"");
      break;
    }
  }
  http.user = keys.text("user").value_or("");
  http.password = keys.text("password").value_or("");
  if (!http.password.empty() && http.user.empty()) keys.fail("password", "needs a 'user'");
  for (const auto& [key, to] : {std::pair<const char*, std::string*>{"ca_file", &http.ca_file},
                                {"cert_file", &http.cert_file},
                                {"key_file", &http.key_file}}) {
    *to = keys.text(key).value_or("");
    if (to->empty()) continue;
    if (!tls) keys.fail(key, "is for https:// only");
    if (!is_there(*to)) keys.fail(key, *to + " does not exist");
  }
  if (http.cert_file.empty() != http.key_file.empty()) keys.fail("cert_file", "goes with 'key_file'");
  http.verify = keys.boolean("verify").value_or(true);
  if (const auto timeout = keys.duration("timeout", milliseconds(100), std::chrono::minutes(5)))
    http.timeout = *timeout;
  http.batch = static_cast<std::size_t>(keys.integer("batch", 1, 10'000).value_or(100));
  options.publish = read_publish(keys);
  options.outbox = read_outbox(keys);
  return options;
}

WebhookOptions read_webhook(std::string_view config_json) {
  JsonObject keys("config", config_json);
  WebhookOptions options = read_keys(keys);
  keys.finish();
  return options;
}

class Webhook final : public FrameOutlet {
 public:
  Webhook(camd::plugin::Host host, std::string_view config_json) : Webhook(host, read_webhook(config_json)) {}

  static void check(const camd::plugin::Check& check) {
    JsonObject keys("config", check.config_json());
    const WebhookOptions options = read_keys(keys);
    keys.report(check);
    check_spool(check, options.outbox);
  }

 private:
  Webhook(camd::plugin::Host host, const WebhookOptions& options)
      : FrameOutlet(host, options.publish, options.outbox, connect_http(with_agent(options.http, host)),
                    "webhook " + options.http.url) {}
  static HttpOptions with_agent(HttpOptions http, const camd::plugin::Host& host) {
    http.user_agent = std::string("camd/") + host.camd_version();
    return http;
  }
};

}  // namespace

const camd_plugin* webhook_table() noexcept {
  static constexpr camd_plugin kTable =
      camd::plugin::make_table<Webhook>("webhook", "1.0.0", "posts detections and events to a web server");
  return &kTable;
}

}  // namespace camd::plugins
