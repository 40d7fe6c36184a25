// The built-in `mqtt`: detections and events as messages, what each camera sees as retained values, and devices for
// Home Assistant (docs/outlets.md has topics and payloads).
//
// Threads: as every plug-in (camd_plugin.h); the outbox sends from a thread of its own.
// Invariants: process() copies and returns; after warm-up it allocates only when something changes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/camd_plugin.hpp"
#include "plugins/frame_json.hpp"
#include "plugins/mqtt/home_assistant.hpp"
#include "plugins/mqtt/mqtt_connection.hpp"
#include "plugins/mqtt/mqtt_options.hpp"
#include "plugins/mqtt/retained.hpp"
#include "plugins/outbox/outbox.hpp"
#include "plugins/outbox/publish.hpp"
#include "plugins/outbox/report.hpp"
#include "plugins/paths.hpp"
#include "plugins/tables.hpp"

namespace camd::plugins {
namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;
constexpr std::int64_t kSilentNs = 5 * kSecondNs;         // without a frame: nothing is delivered
constexpr std::int64_t kLatencyEveryNs = 10 * kSecondNs;  // the state is written anew so often without another change
constexpr std::size_t kMostClasses = 64;                  // of one camera that are counted

// What is known of one camera.
struct Seen {
  std::string name;
  std::string topic;                               // "camd/door"
  std::map<std::string, int, std::less<>> counts;  // by class; those that were there once stay, with 0
  std::map<std::string, int, std::less<>> now;     // of the frame at hand
  std::vector<std::uint64_t> who;                  // identity_of() of the frame at hand
  PublishGate gate;
  std::int64_t frame_ns = 0;  // when the last frame came; 0: none yet
  std::int64_t state_ns = 0;  // when the state was written
  double latency_ms = 0;
  bool delivering = false;
};

class Mqtt final : public camd::plugin::Postprocessor {
 public:
  Mqtt(camd::plugin::Host host, std::string_view config_json)
      : host_(host), events_(host.events()), options_(read_mqtt(config_json)) {
    retained_ = std::make_shared<Retained>();
    const auto log = [host](camd_log_level level, const std::string& text) { host.log(level, text); };
    const std::string identity =
        fmt::format("mqtt {}:{} {}", options_.broker.host, options_.broker.port, options_.broker.client_id);
    outbox_ = std::make_unique<Outbox>(options_.outbox, connect_mqtt(options_.broker, retained_), identity, log);
    connected_ = host.gauge("connected");
    line_.reserve(std::size_t{1} << 16U);
  }

  static void check(const camd::plugin::Check& check) { check_mqtt(check); }

  void outputs(const camd_model& model, camd::plugin::Needs& needs) override {
    static_cast<void>(needs);                // reads `results` alone
    static_cast<void>(camera_parts(model));  // refuses two cameras of one topic
    for (int i = 0; i < model.camera_count; ++i) {
      seen_.push_back(model.camera_names[i][0] != '\0' ? begin(model.camera_names[i]) : nullptr);
    }
    // After a reload the instance before still sends; this one begins with its first frame.
    if (host_.reloads() == 0) outbox_->start();
  }

  void process(const camd_frame& frame, const camd::plugin::Tensors& tensors, camd::plugin::Results& results) override {
    static_cast<void>(tensors);
    outbox_->start();
    Seen& seen = *seen_.at(static_cast<std::size_t>(frame.camera_index));
    const std::int64_t now_ns = host_.now_mono_ns();
    note(seen, frame, results, now_ns);
    if (seen.gate.opens(options_.publish, seen.who, now_ns)) {
      line_.clear();
      put_frame(line_, frame, results, events_, now_ns);
      send(seen, "/detections");
    }
    if (!options_.publish.events) return;
    each_frame_event(line_, frame, events_, [&] { send(seen, "/events"); });
  }

  void sample() override {
    const std::int64_t now_ns = host_.now_mono_ns();
    for (const auto& seen : seen_) {
      if (seen == nullptr) continue;
      const bool delivering = seen->frame_ns != 0 && now_ns - seen->frame_ns < kSilentNs;
      if (std::exchange(seen->delivering, delivering) != delivering) write_state(*seen, now_ns);
    }
    connected_.set(outbox_->connected() ? 1 : 0);
    report_totals(host_, *outbox_);
  }

  void finish() override {
    for (const auto& seen : seen_) {
      if (seen == nullptr) continue;
      seen->delivering = false;
      write_state(*seen, host_.now_mono_ns());
    }
    outbox_->stop();
    report_totals(host_, *outbox_);
  }

  struct OneCamera final : Camera {
    std::unique_ptr<Seen> seen;
  };
  std::unique_ptr<Camera> open_camera(int /*index*/, const char* name) override {
    auto opened = std::make_unique<OneCamera>();
    opened->seen = begin(name);
    return opened;
  }
  std::unique_ptr<Camera> exchange_camera(int index, std::unique_ptr<Camera> camera) noexcept override {
    const auto place = static_cast<std::size_t>(index);
    if (seen_.size() <= place) seen_.resize(place + 1);
    auto before = std::make_unique<OneCamera>();
    before->seen = std::move(seen_[place]);
    if (camera) seen_[place] = std::move(static_cast<OneCamera&>(*camera).seen);
    if (before->seen != nullptr) {
      outbox_->remove_camera(before->seen->name);
      retained_->remove(before->seen->topic + "/state");
      if (options_.homeassistant) retained_->remove(discovery_topic(options_, before->seen->name));
    }
    return before;
  }

 private:
  std::unique_ptr<Seen> begin(const char* name) {
    auto seen = std::make_unique<Seen>();
    seen->name = name;
    seen->topic = options_.topic + "/" + file_part(name);
    for (const std::string& one : options_.classes) seen->counts[one] = 0;
    outbox_->add_camera(name);
    write_state(*seen, host_.now_mono_ns());
    announce(*seen);
    return seen;
  }

  // Counts what the frame shows; writes the state where that is another one.
  void note(Seen& seen, const camd_frame& frame, const camd::plugin::Results& results, std::int64_t now_ns) {
    for (auto& [name, count] : seen.now) count = 0;
    seen.who.clear();
    for (const camd_detection& detection : results) {
      const std::string_view name(detection.class_name);
      if (!options_.classes.empty() &&
          std::find(options_.classes.begin(), options_.classes.end(), name) == options_.classes.end()) {
        continue;
      }
      seen.who.push_back(identity_of(detection));
      auto found = seen.now.find(name);
      if (found == seen.now.end()) {
        if (seen.now.size() == kMostClasses) continue;
        found = seen.now.emplace(name, 0).first;
      }
      ++found->second;
    }
    bool more = false, other = !seen.delivering;
    for (const auto& [name, count] : seen.now) {
      const auto [known, is_new] = seen.counts.try_emplace(name, 0);
      more = more || is_new;
      other = other || known->second != count;
      known->second = count;
    }
    seen.frame_ns = now_ns;
    seen.delivering = true;
    seen.latency_ms = static_cast<double>(now_ns - frame.captured_mono_ns) / 1e6;
    if (other || more || now_ns - seen.state_ns >= kLatencyEveryNs) write_state(seen, now_ns);
    if (more) announce(seen);
  }

  void send(const Seen& seen, std::string_view below) {
    topic_.assign(seen.topic).append(below);
    outbox_->put(seen.name, topic_, std::string_view(line_.data(), line_.size()), false);
  }

  void write_state(Seen& seen, std::int64_t now_ns) {
    seen.state_ns = now_ns;
    nlohmann::ordered_json counts = nlohmann::ordered_json::object();
    for (const auto& [name, count] : seen.counts) counts[name] = count;
    nlohmann::ordered_json state{{"delivering", seen.delivering}, {"counts", std::move(counts)}};
    state["latency_ms"] = std::round(seen.latency_ms * 10) / 10;
    retained_->set(seen.topic + "/state", text_of(state));
  }
  void announce(const Seen& seen) {
    if (!options_.homeassistant) return;
    std::vector<std::string> classes;
    for (const auto& [name, count] : seen.counts) classes.push_back(name);
    retained_->set(discovery_topic(options_, seen.name),
                   discovery_payload(options_, seen.name, seen.topic, classes, host_.camd_version()));
  }

  camd::plugin::Host host_;
  camd::plugin::Events events_;
  const MqttPluginOptions options_;
  std::shared_ptr<Retained> retained_;
  std::unique_ptr<Outbox> outbox_;
  camd::plugin::Gauge connected_;
  std::vector<std::unique_ptr<Seen>> seen_;  // by camera_index
  JsonBuffer line_;
  std::string topic_;
};

}  // namespace

const camd_plugin* mqtt_table() noexcept {
  static constexpr camd_plugin kTable =
      camd::plugin::make_table<Mqtt>("mqtt", "1.0.0", "sends detections and events to an MQTT broker");
  return &kTable;
}

}  // namespace camd::plugins
