// The built-in `track`: the same number for the same object from frame to frame, and events about it.
//
// Threads: as every plug-in (camd_plugin.h).
// Invariants: process() [no-alloc]. A number is given once in a run, also over reloads.
#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/camd_plugin.hpp"
#include "plugins/json_object.hpp"
#include "plugins/per_camera.hpp"
#include "plugins/tables.hpp"
#include "plugins/track/tracker.hpp"

namespace camd::plugins {
namespace {

using track::Change;
using track::Happening;
using track::Options;
using track::Seen;
using track::Tracker;

constexpr double kSecond = 1e9;

const char* name_of(Change change) noexcept {
  switch (change) {
    case Change::kStarted: return "track_started";
    case Change::kConfirmed: return "track_confirmed";
    case Change::kLost: return "track_lost";
    case Change::kFound: return "track_found";
    case Change::kEnded: return "track_ended";
  }
  return "";
}

Options read_options(JsonObject& config) {
  Options options;
  const auto share = [&](const char* key, float& value) {
    if (const auto read = config.number(key, 0.0, 1.0)) value = static_cast<float>(*read);
  };
  share("high", options.high);
  share("low", options.low);
  share("start", options.start);
  share("overlap", options.overlap);
  share("low_overlap", options.low_overlap);
  share("far_overlap", options.far_overlap);
  share("sure", options.sure);
  if (const auto frames = config.integer("confirm", 1, 100)) options.confirm = static_cast<int>(*frames);
  if (const auto most = config.integer("capacity", 1, 1024)) options.capacity = static_cast<int>(*most);
  if (const auto keep = config.number("keep", 0.0, 3600.0)) {
    options.keep_ns = static_cast<std::int64_t>(*keep * kSecond);
  }
  if (const auto separate = config.boolean("by_class")) options.by_class = *separate;
  if (options.low > options.high) {
    config.fail("low", fmt::format("{:.4g} is above `high` ({:.4g}): a box cannot be both", options.low, options.high));
  }
  return options;
}

struct Settings {
  Options options;
  bool tells = true;
};

Settings read_settings(JsonObject& config) {
  Settings settings;
  settings.options = read_options(config);
  settings.tells = config.boolean("events").value_or(true);
  return settings;
}

class Track final : public camd::plugin::Postprocessor {
 public:
  Track(camd::plugin::Host host, std::string_view config_json) : host_(host), events_(host.events()) {
    const Settings settings = read_config(config_json, read_settings);
    options_ = settings.options;
    tells_ = settings.tells;
    // Instances of this process that came before, and whose numbers are in somebody's files, counted below this.
    next_id_ = (std::uint64_t{host_.reloads()} << 32U) + 1;
    started_ = host_.counter("started");
    confirmed_ = host_.counter("confirmed");
    lost_ = host_.counter("lost");
    ended_ = host_.counter("ended");
    left_out_ = host_.counter("left_out");
    untold_ = host_.counter("events_left_out");
    active_ = host_.gauge("active");
  }

  static void check(const camd::plugin::Check& check) { check_config(check, read_settings); }

  void outputs(const camd_model& model, camd::plugin::Needs& needs) override {
    static_cast<void>(needs);  // reads `results` alone
    views_.fill(model, [this](const char* /*name*/) { return std::make_unique<View>(options_); });
    seen_.reserve(CAMD_MAX_DETECTIONS);
  }

  void process(const camd_frame& frame, const camd::plugin::Tensors& /*tensors*/,
               camd::plugin::Results& results) override {
    View& view = views_.of(frame);
    seen_.clear();
    for (const camd_detection& d : results) {
      seen_.push_back({{d.box[0], d.box[1], d.box[2], d.box[3]}, d.score, d.class_id, 0});
    }
    if (view.width != frame.width || view.height != frame.height) {
      tell(view.tracker.clear());  // places in one picture say nothing about those in another
      view.width = frame.width;
      view.height = frame.height;
    }
    // A clock that goes back stands still for a frame.
    const std::int64_t step_ns = view.captured_ns == 0 ? 0 : frame.captured_mono_ns - view.captured_ns;
    view.captured_ns = frame.captured_mono_ns;
    view.tracker.update(step_ns, seen_, next_id_);
    for (int i = 0; i < results.size(); ++i) results[i].track_id = seen_[static_cast<std::size_t>(i)].track_id;
    tell(view.tracker.happenings());
    left_out_.add(view.tracker.left_out() - view.left_out);
    view.left_out = view.tracker.left_out();
  }

  void sample() override {
    int active = 0;
    views_.each([&](const View& view) { active += view.tracker.confirmed(); });
    active_.set(active);
  }

  std::unique_ptr<Camera> open_camera(int /*index*/, const char* /*name*/) override {
    return std::make_unique<View>(options_);
  }
  std::unique_ptr<Camera> exchange_camera(int index, std::unique_ptr<Camera> camera) noexcept override {
    return views_.exchange(index, std::move(camera));
  }

 private:
  struct View final : Camera {
    explicit View(const Options& options) : tracker(options) {}
    Tracker tracker;
    std::int64_t captured_ns = 0;  // of the frame before, as are these
    int width = 0, height = 0;
    std::uint64_t left_out = 0;  // as counted
  };

  void tell(const std::vector<Happening>& happenings) {
    for (const Happening& happening : happenings) {
      count(happening.change);
      if (!tells_) continue;
      camd::plugin::Event event(name_of(happening.change));
      event.track(happening.track_id).number("class_id", happening.class_id);
      if (happening.change != Change::kStarted) event.number("age_s", static_cast<double>(happening.age_ns) / kSecond);
      if (happening.change == Change::kFound) event.number("away_s", static_cast<double>(happening.away_ns) / kSecond);
      if (happening.change == Change::kEnded) event.number("confirmed", happening.confirmed ? 1.0 : 0.0);
      if (!events_.add(event)) untold_.add();
    }
  }

  void count(Change change) const {
    if (change == Change::kStarted) started_.add();
    if (change == Change::kConfirmed) confirmed_.add();
    if (change == Change::kLost) lost_.add();
    if (change == Change::kEnded) ended_.add();
  }

  camd::plugin::Host host_;
  camd::plugin::Events events_;
  camd::plugin::Counter started_, confirmed_, lost_, ended_, left_out_, untold_;
  camd::plugin::Gauge active_;
  Options options_;
  bool tells_ = true;
  std::uint64_t next_id_ = 1;
  PerCamera<View> views_;
  std::vector<Seen> seen_;
};

}  // namespace

const camd_plugin* track_table() noexcept {
  static constexpr camd_plugin kTable = camd::plugin::make_table<Track>(
      "track", "1.0.0", "gives each object the same number from frame to frame, and tells when it comes and goes");
  return &kTable;
}

}  // namespace camd::plugins
