// The built-in `snapshot`: a JPEG of the best view of each new object, and of the picture of each event; into a folder
// whose size is bounded, and to a broker.
//
// Threads: as every plug-in (camd_plugin.h). process() copies a part of the picture where an object is seen better than
//   before; a thread of its own makes JPEGs of them.
// Invariants: what is copied and what waits is bounded. taken = saved + failed + dropped + waiting.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/camd_plugin.hpp"
#include "plugins/json_object.hpp"
#include "plugins/mqtt/mqtt_connection.hpp"
#include "plugins/mqtt/mqtt_options.hpp"
#include "plugins/mqtt/retained.hpp"
#include "plugins/outbox/frame_outlet.hpp"
#include "plugins/outbox/outbox.hpp"
#include "plugins/outbox/report.hpp"
#include "plugins/paths.hpp"
#include "plugins/per_camera.hpp"
#include "plugins/snapshot/album.hpp"
#include "plugins/snapshot/encoder.hpp"
#include "plugins/snapshot/view.hpp"
#include "plugins/tables.hpp"

namespace camd::plugins {
namespace {

constexpr std::size_t kMostTracks = 256;                        // of a camera that are remembered
constexpr std::size_t kMostViewBytes = std::size_t{64} << 20U;  // of views that may still become better
constexpr std::int64_t kGoneNs = 500'000'000;                   // not seen for so long: there is no better view
constexpr float kBetter = 1.1F;                                 // less is not worth a copy

struct SnapshotOptions {
  std::string dir;  // "": no files
  std::uint64_t keep_bytes = std::uint64_t{1} << 30U;
  std::vector<std::string> classes;  // empty: all
  std::int64_t settle_ns = 1'000'000'000;
  float margin = 0.1F;
  int quality = 85;
  bool objects = true, events = true;
  bool sends = false;
  MqttOptions broker;
  std::string topic;
  OutboxOptions outbox;
};

SnapshotOptions read_snapshot(JsonObject& config) {
  SnapshotOptions options;
  options.dir = config.text("dir").value_or("");
  while (options.dir.size() > 1 && options.dir.back() == '/') options.dir.pop_back();
  if (const auto keep = config.bytes("keep", std::int64_t{1} << 20U, std::int64_t{1} << 50U)) {
    options.keep_bytes = static_cast<std::uint64_t>(*keep);
    if (!config.has("dir")) config.fail("keep", "bounds a folder, and there is none: name it in 'dir'");
  }
  options.classes = config.texts("classes").value_or(std::vector<std::string>{});
  using std::chrono::milliseconds;
  if (const auto settle = config.duration("settle", milliseconds(0), std::chrono::minutes(1))) {
    options.settle_ns = std::chrono::nanoseconds(*settle).count();
  }
  if (const auto margin = config.number("margin", 0.0, 2.0)) options.margin = static_cast<float>(*margin);
  options.quality = static_cast<int>(config.integer("quality", 1, 100).value_or(85));
  options.objects = config.boolean("objects").value_or(true);
  options.events = config.boolean("events").value_or(true);
  if (!options.objects && !options.events) config.fail("events", "is off, and so is 'objects': nothing is left");
  options.sends = config.has("mqtt");
  if (options.sends) {
    JsonObject mqtt = config.object("mqtt");
    options.topic = read_broker(mqtt, options.broker, "snapshot");
    options.outbox = read_outbox(mqtt);
    config.absorb(mqtt);
  }
  if (options.dir.empty() && !options.sends) {
    config.fail("dir", "is needed, or 'mqtt': the folder for the pictures, e.g. out/snapshots");
  }
  return options;
}

// How well a detection is seen: surely, large, and not cut off by the picture's edge.
float value_of(const camd_detection& d, const camd_frame& frame) noexcept {
  const bool cut = d.box[0] <= 1 || d.box[1] <= 1 || d.box[0] + d.box[2] >= static_cast<float>(frame.width) - 1 ||
                   d.box[1] + d.box[3] >= static_cast<float>(frame.height) - 1;
  return d.score * std::sqrt(std::max(0.0F, d.box[2]) * std::max(0.0F, d.box[3])) * (cut ? 0.5F : 1.0F);
}

class Snapshot final : public camd::plugin::Postprocessor {
 public:
  Snapshot(camd::plugin::Host host, std::string_view config_json)
      : host_(host), events_(host.events()), options_(read_config(config_json, read_snapshot)) {
    if (!options_.dir.empty()) album_ = std::make_unique<Album>(options_.dir, options_.keep_bytes);
    if (options_.sends) {
      const auto log = [host](camd_log_level level, const std::string& text) { host.log(level, text); };
      const std::string identity =
          fmt::format("snapshot {}:{} {}", options_.broker.host, options_.broker.port, options_.broker.client_id);
      outbox_ = std::make_unique<Outbox>(options_.outbox, connect_mqtt(options_.broker, std::make_shared<Retained>()),
                                         identity, log);
    }
    encoder_ = std::make_unique<SnapshotEncoder>(
        options_.quality, [this](const SnapshotJob& job, const std::string& jpeg) { keep(job, jpeg); },
        [host](const std::string& problem) {
          host.log(CAMD_LOG_WARN, "a picture cannot be kept: " + problem + " (further ones are only counted)");
        });
    taken_ = host.counter("taken");
    saved_ = host.counter("saved");
    failed_ = host.counter("failed");
    dropped_ = host.counter("dropped");
    waiting_ = host.gauge("waiting");
  }

  static void check(const camd::plugin::Check& check) {
    JsonObject config("config", check.config_json());
    const SnapshotOptions options = read_snapshot(config);
    config.report(check);
    if (!options.dir.empty()) {
      if (const std::string problem = folder_problem(options.dir); !problem.empty()) check.mistake("dir", problem);
      check.claim("dir", options.dir);
    }
    check_spool(check, options.outbox, "mqtt.");
  }

  void outputs(const camd_model& model, camd::plugin::Needs& needs) override {
    needs.picture(CAMD_NEED_HOST);
    static_cast<void>(camera_parts(model));  // refuses two cameras of one topic
    cameras_.fill(model, [this](const char* name) { return begin(name); });
    // After a reload the instance before still sends and writes; this one begins with its first frame.
    if (host_.reloads() == 0) start();
  }

  void process(const camd_frame& frame, const camd::plugin::Tensors& /*tensors*/,
               camd::plugin::Results& results) override {
    if (frame.picture == nullptr) throw std::runtime_error("the picture that was asked for is not there");
    start();
    Seen& seen = cameras_.of(frame);
    if (options_.objects) {
      for (const camd_detection& detection : results) look(seen, frame, detection);
      for (Track& track : seen.tracks) {
        if (track.view.empty()) continue;
        const std::int64_t now_ns = frame.captured_mono_ns;
        if (now_ns - track.first_ns >= options_.settle_ns || now_ns - track.last_ns >= kGoneNs) hand_over(seen, track);
      }
    }
    if (!options_.events) return;
    for (const camd_event& event : events_) {
      SnapshotJob job{{}, seen.name, event.name, event.track_id, frame.captured_unix_ns};
      job.view.copy(*frame.picture, {0, 0, frame.width, frame.height});
      encoder_->give(std::move(job));
    }
  }

  void sample() override {
    const SnapshotTotals now = encoder_->totals();
    taken_.add(now.taken - told_.taken);
    saved_.add(now.done - told_.done);
    failed_.add(now.failed - told_.failed);
    dropped_.add(now.dropped - told_.dropped);
    waiting_.set(static_cast<double>(now.waiting));
    told_ = now;
    if (outbox_) report_totals(host_, *outbox_);
  }

  void finish() override {
    cameras_.each([this](Seen& seen) { hand_over_all(seen); });
    encoder_->stop();
    if (outbox_) outbox_->stop();
    sample();
  }

  std::unique_ptr<Camera> open_camera(int /*index*/, const char* name) override { return begin(name); }
  std::unique_ptr<Camera> exchange_camera(int index, std::unique_ptr<Camera> camera) noexcept override {
    std::unique_ptr<Camera> before = cameras_.exchange(index, std::move(camera));
    if (before) {
      Seen& gone = static_cast<Seen&>(*before);
      hand_over_all(gone);
      if (outbox_) outbox_->remove_camera(gone.name);
    }
    return before;
  }

 private:
  struct Track {
    std::uint64_t id = 0;
    std::int64_t first_ns = 0, last_ns = 0;  // by capture
    std::int64_t unix_ns = 0;                // of the view
    float value = 0;
    bool done = false;  // its picture was taken
    View view;          // empty: none yet, or handed over
    std::string what;
  };
  struct Seen final : Camera {
    std::string name;
    std::vector<Track> tracks;
  };

  std::unique_ptr<Seen> begin(const char* name) {
    auto seen = std::make_unique<Seen>();
    seen->name = name;
    if (outbox_) outbox_->add_camera(name);
    return seen;
  }
  void start() {
    encoder_->start();
    if (outbox_) outbox_->start();
  }

  // What is known of a track, in the place of the one that was not seen for longest if need be.
  Track& track_of(Seen& seen, std::uint64_t id, std::int64_t now_ns) {
    auto found = std::find_if(seen.tracks.begin(), seen.tracks.end(), [id](const Track& one) { return one.id == id; });
    if (found != seen.tracks.end()) return *found;
    if (seen.tracks.size() < kMostTracks) {
      found = seen.tracks.emplace(seen.tracks.end());
    } else {
      found = std::min_element(seen.tracks.begin(), seen.tracks.end(),
                               [](const Track& a, const Track& b) { return a.last_ns < b.last_ns; });
      if (!found->view.empty()) hand_over(seen, *found);
      *found = Track{};
    }
    found->id = id;
    found->first_ns = now_ns;
    return *found;
  }

  // Copies the detection's part of the picture where it is seen better than before.
  void look(Seen& seen, const camd_frame& frame, const camd_detection& detection) {
    if (detection.track_id == 0) return;
    const std::string_view name(detection.class_name);
    if (!options_.classes.empty() &&
        std::find(options_.classes.begin(), options_.classes.end(), name) == options_.classes.end()) {
      return;
    }
    Track& track = track_of(seen, detection.track_id, frame.captured_mono_ns);
    track.last_ns = frame.captured_mono_ns;
    if (track.done) return;
    const float value = value_of(detection, frame);
    if (!track.view.empty() && value < kBetter * track.value) return;
    const ViewArea area = area_around(detection.box, options_.margin, frame.width, frame.height);
    const std::size_t most =
        std::size_t{3} * static_cast<std::size_t>(area.width) * static_cast<std::size_t>(area.height);
    if (view_bytes_ - track.view.bytes() + most > kMostViewBytes) {
      if (!track.view.empty()) return;  // what there is will do
      encoder_->count_dropped();
      track.done = true;
      return;
    }
    view_bytes_ -= track.view.bytes();
    track.view.copy(*frame.picture, area);
    view_bytes_ += track.view.bytes();
    track.value = value;
    track.unix_ns = frame.captured_unix_ns;
    track.what = name;
  }

  void hand_over(Seen& seen, Track& track) {
    view_bytes_ -= track.view.bytes();
    encoder_->give({std::exchange(track.view, {}), seen.name, std::move(track.what), track.id, track.unix_ns});
    track.done = true;
  }
  void hand_over_all(Seen& seen) {
    for (Track& track : seen.tracks) {
      if (!track.view.empty()) hand_over(seen, track);
    }
  }

  // The encoder's thread.
  void keep(const SnapshotJob& job, const std::string& jpeg) {
    if (outbox_) outbox_->put(job.camera, options_.topic + "/" + file_part(job.camera) + "/snapshot", jpeg, true);
    if (album_) album_->add(album_name(job.unix_ns, job.camera, job.what, job.track_id), jpeg);
  }

  camd::plugin::Host host_;
  camd::plugin::Events events_;
  const SnapshotOptions options_;
  std::unique_ptr<Album> album_;  // the encoder's thread
  std::unique_ptr<Outbox> outbox_;
  std::unique_ptr<SnapshotEncoder> encoder_;
  PerCamera<Seen> cameras_;
  std::size_t view_bytes_ = 0;  // of all tracks
  SnapshotTotals told_;
  camd::plugin::Counter taken_, saved_, failed_, dropped_;
  camd::plugin::Gauge waiting_;
};

}  // namespace

const camd_plugin* snapshot_table() noexcept {
  static constexpr camd_plugin kTable =
      camd::plugin::make_table<Snapshot>("snapshot", "1.0.0", "keeps a picture of each new object and event");
  return &kTable;
}

}  // namespace camd::plugins
