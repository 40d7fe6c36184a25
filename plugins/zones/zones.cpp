// The built-in `zones`: who enters, leaves and stays in which area of the picture, and who crosses which line.
//
// Threads: as every plug-in (camd_plugin.h).
// Invariants: process() [no-alloc]. It counts objects with a track_id, each by the time of its frames: put `track`
// before.
#include <fmt/format.h>

#include <cctype>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/camd_plugin.hpp"
#include "plugins/json_object.hpp"
#include "plugins/per_camera.hpp"
#include "plugins/tables.hpp"
#include "plugins/zones/presence.hpp"
#include "plugins/zones/shapes.hpp"

namespace camd::plugins {
namespace {

using zones::Happening;
using zones::Kind;
using zones::Options;
using zones::Presence;

constexpr double kSecond = 1e9;

// The point of a box that decides, as shares of its sides.
Place read_anchor(JsonObject& config) {
  const std::string word = config.one_of("anchor", {"bottom", "center", "top"}).value_or("bottom");
  return {0.5F, word == "bottom" ? 1.0F : (word == "center" ? 0.5F : 0.0F)};
}

// `name` as the beginning of a counter's name.
std::string counter_part(const std::string& name) {
  std::string part;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    part += std::isalnum(byte) != 0 && byte < 0x80U ? static_cast<char>(std::tolower(byte)) : '_';
  }
  return std::isalpha(static_cast<unsigned char>(part.front())) != 0 ? part : "z" + part;
}

struct Settings {
  Shapes shapes;
  Place anchor{};
  Options options;
  bool counts = true;
};

Settings read_settings(JsonObject& config) {
  Settings settings;
  settings.shapes = read_shapes(config);
  if (settings.shapes.zones.empty() && settings.shapes.lines.empty() && !config.has("zones") && !config.has("lines")) {
    config.fail("zones", "is needed, or `lines`: what shall be counted");
  }
  settings.anchor = read_anchor(config);
  const auto seconds = [&](const char* key, std::int64_t& ns) {
    if (const auto read = config.number(key, 0.0, 86400.0)) ns = static_cast<std::int64_t>(*read * kSecond);
  };
  seconds("settle", settings.options.settle_ns);
  seconds("dwell", settings.options.dwell_ns);
  seconds("forget", settings.options.forget_ns);
  if (const auto most = config.integer("capacity", 1, 1024)) settings.options.capacity = static_cast<int>(*most);
  settings.counts = config.boolean("counters").value_or(true);
  const std::size_t numbers = 3 * settings.shapes.zones.size() + 2 * settings.shapes.lines.size() + 3;
  if (settings.counts && numbers > CAMD_MAX_COUNTERS) {
    config.fail("counters",
                fmt::format("so many zones and lines have {} numbers in the metrics, at most {} are possible: "
                            "set `counters: false`, or divide them among two entries",
                            numbers, CAMD_MAX_COUNTERS));
  }
  return settings;
}

class Zones final : public camd::plugin::Postprocessor {
 public:
  Zones(camd::plugin::Host host, std::string_view config_json) : host_(host), events_(host.events()) {
    Settings settings = read_config(config_json, read_settings);
    shapes_ = std::move(settings.shapes);
    anchor_ = settings.anchor;
    options_ = settings.options;
    const bool counts = settings.counts;
    untracked_ = host_.counter("untracked");
    left_out_ = host_.counter("left_out");
    untold_ = host_.counter("events_left_out");
    if (counts) make_counters();
  }

  static void check(const camd::plugin::Check& check) { check_config(check, read_settings); }

  void outputs(const camd_model& model, camd::plugin::Needs& needs) override {
    static_cast<void>(needs);  // reads `results` alone
    views_.fill(model, [this](const char* name) { return std::make_unique<View>(shapes_, name, options_); });
  }

  void process(const camd_frame& frame, const camd::plugin::Tensors& /*tensors*/,
               camd::plugin::Results& results) override {
    View& view = views_.of(frame);
    // A clock that goes back stands still for a frame.
    if (view.captured_ns != 0 && frame.captured_mono_ns > view.captured_ns) {
      view.now_ns += frame.captured_mono_ns - view.captured_ns;
    }
    view.captured_ns = frame.captured_mono_ns;
    Presence& presence = view.presence;
    presence.begin_frame();
    for (const camd_detection& d : results) {
      if (d.track_id == 0) {
        untracked_.add();
        continue;
      }
      const Place anchor{(d.box[0] + anchor_.x * d.box[2]) / static_cast<float>(frame.width),
                         (d.box[1] + anchor_.y * d.box[3]) / static_cast<float>(frame.height)};
      presence.see(view.now_ns, d.track_id, d.class_id, anchor);
    }
    presence.forget(view.now_ns);
    for (const Happening& happening : presence.happenings()) tell(presence, happening);
    left_out_.add(presence.left_out() - view.left_out);
    view.left_out = presence.left_out();
  }

  void sample() override {
    for (std::size_t z = 0; z < inside_.size(); ++z) {
      int inside = 0;
      views_.each([&](const View& view) { inside += view.presence.inside(static_cast<int>(z)); });
      inside_[z].set(inside);
    }
  }

  std::unique_ptr<Camera> open_camera(int /*index*/, const char* name) override {
    return std::make_unique<View>(shapes_, name, options_);
  }
  std::unique_ptr<Camera> exchange_camera(int index, std::unique_ptr<Camera> camera) noexcept override {
    return views_.exchange(index, std::move(camera));
  }

 private:
  struct View final : Camera {
    View(const Shapes& shapes, const char* name, const Options& options) : presence(shapes, name, options) {}
    Presence presence;
    std::int64_t captured_ns = 0;  // of the frame before
    std::int64_t now_ns = 1;       // the camera's time: it begins with its first frame
    std::uint64_t left_out = 0;    // as counted
  };

  void make_counters() {
    for (const Zone& zone : shapes_.zones) {
      const std::string part = counter_part(zone.name);
      entered_.push_back(host_.counter(part + "_entered"));
      left_.push_back(host_.counter(part + "_left"));
      inside_.push_back(host_.gauge(part + "_inside"));
    }
    for (const Gate& gate : shapes_.lines) {
      const std::string part = counter_part(gate.name);
      in_.push_back(host_.counter(part + "_in"));
      out_.push_back(host_.counter(part + "_out"));
    }
  }

  void tell(const Presence& presence, const Happening& happening) {
    const auto shape = static_cast<std::size_t>(happening.shape);
    const auto count = [&](const std::vector<camd::plugin::Counter>& counters) {
      if (shape < counters.size()) counters[shape].add();
    };
    const auto counted = [&](bool line, int direction, int class_id) {
      return static_cast<double>(presence.count(line, happening.shape, direction, class_id));
    };
    const auto add = [&](camd::plugin::Event& event) {
      if (!events_.add(event.track(happening.track_id).number("class_id", happening.class_id))) untold_.add();
    };
    if (happening.kind == Kind::kCrossed) {
      count(happening.direction > 0 ? in_ : out_);
      camd::plugin::Event event("line_crossed");
      event.zone(shapes_.lines[shape].name).number("direction", happening.direction);
      event.number("in", counted(true, 1, -1)).number("out", counted(true, -1, -1));
      event.number("of_class", counted(true, happening.direction, happening.class_id));
      add(event);
      return;
    }
    camd::plugin::Event event(happening.kind == Kind::kEntered ? "zone_entered"
                              : happening.kind == Kind::kLeft  ? "zone_left"
                                                               : "zone_dwell");
    event.zone(shapes_.zones[shape].name).number("inside", presence.inside(happening.shape));
    event.number("entered", counted(false, 0, -1)).number("of_class", counted(false, 0, happening.class_id));
    if (happening.kind == Kind::kEntered) count(entered_);
    if (happening.kind == Kind::kLeft) count(left_);
    if (happening.kind != Kind::kEntered) event.number("inside_s", static_cast<double>(happening.inside_ns) / kSecond);
    if (happening.kind == Kind::kLeft) event.number("out_of_sight", happening.out_of_sight ? 1.0 : 0.0);
    add(event);
  }

  camd::plugin::Host host_;
  camd::plugin::Events events_;
  camd::plugin::Counter untracked_, left_out_, untold_;
  std::vector<camd::plugin::Counter> entered_, left_, in_, out_;  // by zone, by line; empty without counters
  std::vector<camd::plugin::Gauge> inside_;
  Shapes shapes_;
  Options options_;
  Place anchor_{};
  PerCamera<View> views_;
};

}  // namespace

const camd_plugin* zones_table() noexcept {
  static constexpr camd_plugin kTable = camd::plugin::make_table<Zones>(
      "zones", "1.0.0", "counts who enters, leaves and stays in areas of the picture, and who crosses lines");
  return &kTable;
}

}  // namespace camd::plugins
