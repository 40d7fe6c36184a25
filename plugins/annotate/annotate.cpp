// The built-in `annotate`: the source picture with boxes, keypoints, labels and the latency drawn on it, as MP4 or as
// single pictures.
//
// Threads: as every plug-in (camd_plugin.h); encoding runs on GStreamer's threads.
// Invariants: process() never waits for the encoder: a picture that finds no room is left out and counted. A film that
//   cannot be written is reported once and ended; frames do not fail because of it: their detections are whole.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/annotate/canvas.hpp"
#include "plugins/annotate/film.hpp"
#include "plugins/camd_plugin.hpp"
#include "plugins/json_object.hpp"
#include "plugins/paths.hpp"
#include "plugins/tables.hpp"
#include "plugins/zones/shapes.hpp"

namespace camd::plugins {
namespace {

struct DrawOptions {
  bool boxes = true, labels = true, keypoints = true, latency = true;
  std::optional<int> polygon;  // the first so many keypoints joined; unset: four that form a convex quadrilateral
};

// Whether the first four keypoints look like the corners of something: convex, and not small against the box. A face's
// (eyes, nose, corner of the mouth) are not.
bool are_corners(const camd_detection& d) {
  if (d.keypoint_count < 4) return false;
  double area = 0.0;
  int turns = 0;
  for (int i = 0; i < 4; ++i) {
    const float* a = d.keypoints[i];
    const float* b = d.keypoints[(i + 1) % 4];
    const float* c = d.keypoints[(i + 2) % 4];
    const double cross = (static_cast<double>(b[0]) - a[0]) * (static_cast<double>(c[1]) - b[1]) -
                         (static_cast<double>(b[1]) - a[1]) * (static_cast<double>(c[0]) - b[0]);
    turns += cross > 0.0 ? 1 : (cross < 0.0 ? -1 : 0);
    area += 0.5 * (static_cast<double>(a[0]) * b[1] - static_cast<double>(b[0]) * a[1]);
  }
  return std::abs(turns) == 4 && std::abs(area) > 0.3 * static_cast<double>(d.box[2]) * d.box[3];
}

const char* colorimetry_of(const camd_picture& picture) {
  const bool ycbcr =
      picture.format == CAMD_PIXEL_NV12 || picture.format == CAMD_PIXEL_I420 || picture.format == CAMD_PIXEL_YUY2;
  // GStreamer's range:matrix:transfer:primaries (GstVideoColorimetry).
  if (ycbcr && picture.full_range != 0) return picture.bt709 != 0 ? "1:3:5:1" : "1:4:16:4";
  return ycbcr && picture.bt709 != 0 ? "bt709" : "bt601";
}

struct AnnotateOptions {
  std::string path;
  FilmOptions film;
  double scale = 1.0;
  DrawOptions draw;
  Shapes shapes;
};

AnnotateOptions read_options(JsonObject& config) {
  AnnotateOptions options;
  const auto path = config.text("path");
  options.path = path.value_or("");
  const auto extension = std::filesystem::path(options.path).extension();
  if (!config.has("path") ||
      (path && extension != ".mp4" && extension != ".png" && extension != ".jpg" && extension != ".jpeg")) {
    config.fail("path",
                "is needed and ends in .mp4, .png or .jpg, e.g. out/annotated.mp4 or "
                "out/frames/{camera}-{sequence}.png");
    options.path.clear();
  }
  if (const std::string problem = time_problem(options.path); !problem.empty()) config.fail("path", problem);
  options.film.video = extension == ".mp4";
  options.film.every = static_cast<std::uint64_t>(config.integer("every", 1, 1'000'000).value_or(1));
  if (const auto fps = config.number("fps", 0.001, 1000.0))
    options.film.period_ns = static_cast<std::int64_t>(1e9 / *fps);
  options.scale = config.number("scale", 0.05, 1.0).value_or(1.0);
  options.film.crf = static_cast<int>(config.integer("crf", 1, 51).value_or(23));
  options.draw.boxes = config.boolean("boxes").value_or(true);
  options.draw.labels = config.boolean("labels").value_or(true);
  options.draw.keypoints = config.boolean("keypoints").value_or(true);
  options.draw.latency = config.boolean("latency").value_or(true);
  if (const auto n = config.integer("polygon", 0, CAMD_MAX_KEYPOINTS)) options.draw.polygon = static_cast<int>(*n);
  if (const nlohmann::json* zones = config.raw("zones")) {
    // The configuration of `zones`, of which this reads the shapes alone, so that it can be copied as it is.
    if (!zones->is_object()) config.fail("zones", "must be the `config` of the plug-in zones");
    JsonObject theirs("config.zones", zones->is_object() ? *zones : nlohmann::json::object());
    options.shapes = read_shapes(theirs);
    config.fail("zones", theirs, false);
  }
  return options;
}

class Annotate final : public camd::plugin::Postprocessor {
 public:
  Annotate(camd::plugin::Host host, std::string_view config_json) : host_(host), events_(host.events()) {
    AnnotateOptions options = read_config(config_json, read_options);
    path_ = std::move(options.path);
    options_ = options.film;
    scale_ = options.scale;
    draw_ = options.draw;
    shapes_ = std::move(options.shapes);
    drawn_ = host_.counter("drawn");
    left_out_ = host_.counter("left_out");
  }

  static void check(const camd::plugin::Check& check) {
    JsonObject config("config", check.config_json());
    const std::string path = read_options(config).path;
    config.report(check);
    if (path.empty() || !time_problem(path).empty()) return;
    try {
      const std::vector<std::string> parts = camera_parts(check.camera_names());
      for (const std::string& part : parts) {
        const std::string film = at_time(camera_path(path, part, parts.size() > 1), std::time(nullptr));
        const std::string problem = folder_problem(std::filesystem::path(film).parent_path().string());
        if (!problem.empty()) {
          check.mistake("path", problem);
          return;
        }
        check.claim("path", film);
      }
    } catch (const std::invalid_argument& same_names) {
      check.mistake("path", same_names.what());
    }
  }

  void outputs(const camd_model& model, camd::plugin::Needs& needs) override {
    needs.picture(CAMD_NEED_HOST);
    for (const std::string& part : camera_parts(model)) {
      if (part.empty()) {  // nobody has that place
        films_.emplace_back();
        continue;
      }
      films_.push_back(std::make_unique<Film>(host_, model.camera_names[films_.size()],
                                              camera_path(path_, part, model.camera_count > 1), options_));
    }
  }

  void process(const camd_frame& frame, const camd::plugin::Tensors& tensors, camd::plugin::Results& results) override {
    static_cast<void>(tensors);
    if (frame.picture == nullptr) throw std::runtime_error("the picture that was asked for is not there");
    Film& film = *films_.at(static_cast<std::size_t>(frame.camera_index));
    note_counts(static_cast<std::size_t>(frame.camera_index));
    if (!film.wants(frame, host_.now_mono_ns())) return;
    GstWriter& writer = film.writer();
    const Size size = writer.size().value_or(canvas_size(frame.width, frame.height, scale_));
    std::uint8_t* pixels = writer.begin(size, colorimetry_of(*frame.picture));
    if (pixels == nullptr) {
      film.skip();
      left_out_.add();
      return;
    }
    Canvas canvas(pixels, size);
    canvas.fill(*frame.picture, scratch_);
    draw(canvas, frame, results);
    drawn_.add();
    film.commit(frame);
  }

  void reopen() override { each_film(&Film::reopen); }
  void finish() override { each_film(&Film::finish); }

  // A camera that comes while others run has its name in that of its film.
  std::unique_ptr<Camera> open_camera(int /*index*/, const char* name) override {
    return std::make_unique<Film>(host_, name, camera_path(path_, file_part(name), true), options_);
  }
  std::unique_ptr<Camera> exchange_camera(int index, std::unique_ptr<Camera> camera) noexcept override {
    const auto place = static_cast<std::size_t>(index);
    if (films_.size() <= place) films_.resize(place + 1);
    if (place < counts_.size()) counts_[place] = {};
    std::unique_ptr<Camera> before = std::move(films_[place]);
    films_[place].reset(static_cast<Film*>(camera.release()));
    return before;
  }

 private:
  // All of them, also where one throws.
  void each_film(void (Film::*step)()) {
    std::string problems;
    for (const std::unique_ptr<Film>& film : films_) {
      try {
        if (film) ((*film).*step)();
      } catch (const std::exception& problem) {
        problems += (problems.empty() ? "" : "; ") + std::string(problem.what());
      }
    }
    if (!problems.empty()) throw std::runtime_error(problems);
  }

  void draw(Canvas& canvas, const camd_frame& frame, const camd::plugin::Results& results) {
    const double sx = static_cast<double>(canvas.size().width) / frame.width;
    const double sy = static_cast<double>(canvas.size().height) / frame.height;
    const int thickness = canvas.line_thickness();
    draw_shapes(canvas, frame);
    for (const camd_detection& d : results) {
      const Color color = class_color(d.class_id);
      const double x0 = d.box[0] * sx, y0 = d.box[1] * sy;
      if (draw_.boxes) canvas.rectangle(x0, y0, x0 + d.box[2] * sx, y0 + d.box[3] * sy, color, thickness);
      if (draw_.keypoints) draw_keypoints(canvas, d, sx, sy, thickness);
      if (draw_.labels) {
        text_.clear();
        fmt::format_to(std::back_inserter(text_), "{} {:.2f}", d.class_name, d.score);
        if (d.track_id != 0) fmt::format_to(std::back_inserter(text_), " #{}", d.track_id);
        if (d.text[0] != '\0') fmt::format_to(std::back_inserter(text_), " {}", d.text);
        canvas.label(x0, y0, std::string_view(text_.data(), text_.size()), color);
      }
    }
    if (!draw_.latency) return;
    text_.clear();
    fmt::format_to(std::back_inserter(text_), "{} #{} {:.1f} ms", frame.camera, frame.sequence,
                   static_cast<double>(host_.now_mono_ns() - frame.captured_mono_ns) / 1e6);
    canvas.label(0, 0, std::string_view(text_.data(), text_.size()), Color{40, 128, 128});
  }

  // What the events of `zones` count, kept from frame to frame: those of frames that are not drawn as well.
  void note_counts(std::size_t camera) {
    if (counts_.size() <= camera) counts_.resize(camera + 1);
    for (const camd_event& event : events_) {
      const auto number = [&event](std::string_view name) {
        for (int i = 0; i < event.number_count; ++i) {
          if (name == event.numbers[i].name) return event.numbers[i].value;
        }
        return 0.0;
      };
      const std::string_view name(event.name), zone(event.zone);
      for (std::size_t i = 0; i < shapes_.zones.size(); ++i) {
        if (name.substr(0, 5) == "zone_" && zone == shapes_.zones[i].name) {
          counts_[camera].zones[i] = {number("inside"), number("entered")};
        }
      }
      for (std::size_t i = 0; i < shapes_.lines.size(); ++i) {
        if (name == "line_crossed" && zone == shapes_.lines[i].name) {
          counts_[camera].lines[i] = {number("in"), number("out")};
        }
      }
    }
  }

  void draw_shapes(Canvas& canvas, const camd_frame& frame) {
    static const Color kColor = color_of(255, 220, 80);
    const double width = canvas.size().width, height = canvas.size().height;
    const Counts& counts = counts_[static_cast<std::size_t>(frame.camera_index)];
    const auto is_here = [&](const auto& shape) { return shape.camera.empty() || shape.camera == frame.camera; };
    const auto side = [&](Place a, Place b) {
      canvas.line(a.x * width, a.y * height, b.x * width, b.y * height, kColor, canvas.line_thickness());
    };
    const auto label = [&](Place at) {
      canvas.label(at.x * width, at.y * height, std::string_view(text_.data(), text_.size()), kColor);
    };
    for (std::size_t i = 0; i < shapes_.zones.size(); ++i) {
      const Zone& zone = shapes_.zones[i];
      if (!is_here(zone)) continue;
      for (std::size_t k = 0; k < zone.polygon.size(); ++k) {
        side(zone.polygon[k], zone.polygon[(k + 1) % zone.polygon.size()]);
      }
      text_.clear();
      fmt::format_to(std::back_inserter(text_), "{}: {} inside, {} entered", zone.name, counts.zones[i].first,
                     counts.zones[i].second);
      label(zone.polygon.front());
    }
    for (std::size_t i = 0; i < shapes_.lines.size(); ++i) {
      const Gate& gate = shapes_.lines[i];
      if (!is_here(gate)) continue;
      side(gate.from, gate.to);
      text_.clear();
      fmt::format_to(std::back_inserter(text_), "{}: {} in, {} out", gate.name, counts.lines[i].first,
                     counts.lines[i].second);
      label(gate.from);
    }
  }

  void draw_keypoints(Canvas& canvas, const camd_detection& d, double sx, double sy, int thickness) const {
    static const Color kCornerColor = color_of(255, 255, 255);
    static const Color kFirstColor = color_of(255, 40, 40);
    const int joined =
        draw_.polygon ? std::min(*draw_.polygon, static_cast<int>(d.keypoint_count)) : (are_corners(d) ? 4 : 0);
    for (int i = 0; i < joined && joined > 1; ++i) {
      const float* a = d.keypoints[i];
      const float* b = d.keypoints[(i + 1) % joined];
      canvas.line(a[0] * sx, a[1] * sy, b[0] * sx, b[1] * sy, kCornerColor, thickness);
    }
    for (int i = 0; i < d.keypoint_count; ++i) {
      // The first point is marked: it tells which way round the object lies.
      canvas.disc(d.keypoints[i][0] * sx, d.keypoints[i][1] * sy, thickness + 1, i == 0 ? kFirstColor : kCornerColor);
    }
  }

  // Numbers of each zone (inside, entered) and line (in, out) of a camera.
  struct Counts {
    std::array<std::pair<double, double>, kMostShapes> zones{}, lines{};
  };

  camd::plugin::Host host_;
  camd::plugin::Events events_;
  camd::plugin::Counter drawn_, left_out_;
  std::string path_;
  FilmOptions options_;
  double scale_ = 1.0;
  DrawOptions draw_;
  Shapes shapes_;
  std::vector<Counts> counts_;                // by camera
  std::vector<std::unique_ptr<Film>> films_;  // by camera; null where there is none
  Canvas::Scratch scratch_;
  fmt::memory_buffer text_;
};

}  // namespace

const camd_plugin* annotate_table() noexcept {
  static constexpr camd_plugin kTable = camd::plugin::make_table<Annotate>(
      "annotate", "1.0.0", "draws boxes, keypoints, labels and latency into an MP4 or single pictures");
  return &kTable;
}

}  // namespace camd::plugins
