// The built-in `annotate`: the source picture with boxes, keypoints, labels and the latency drawn on it, as MP4 or as
// single pictures.
//
// Threads: as every plug-in (camd_plugin.h); encoding runs on GStreamer's threads.
// Invariants: process() never waits for the encoder: a picture that finds no room is left out and counted. A film that
//   cannot be written is reported once and ended; frames do not fail because of it: their detections are whole.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/annotate/canvas.hpp"
#include "plugins/annotate/image_writer.hpp"
#include "plugins/annotate/video_writer.hpp"
#include "plugins/camd_plugin.hpp"
#include "plugins/json_object.hpp"
#include "plugins/paths.hpp"
#include "plugins/tables.hpp"

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

class Annotate final : public camd::plugin::Postprocessor {
 public:
  Annotate(camd::plugin::Host host, std::string_view config_json) : host_(host) {
    JsonObject config("config", config_json);
    const auto path = config.text("path");
    path_ = path.value_or("");
    const auto extension = std::filesystem::path(path_).extension();
    video_ = extension == ".mp4";
    if (!config.has("path") ||
        (path && !video_ && extension != ".png" && extension != ".jpg" && extension != ".jpeg")) {
      config.fail("path",
                  "is needed and ends in .mp4, .png or .jpg, e.g. out/annotated.mp4 or "
                  "out/frames/{camera}-{sequence}.png");
    }
    every_ = static_cast<std::uint64_t>(config.integer("every", 1, 1'000'000).value_or(1));
    if (const auto fps = config.number("fps", 0.001, 1000.0)) period_ns_ = static_cast<std::int64_t>(1e9 / *fps);
    scale_ = config.number("scale", 0.05, 1.0).value_or(1.0);
    crf_ = static_cast<int>(config.integer("crf", 1, 51).value_or(23));
    draw_.boxes = config.boolean("boxes").value_or(true);
    draw_.labels = config.boolean("labels").value_or(true);
    draw_.keypoints = config.boolean("keypoints").value_or(true);
    draw_.latency = config.boolean("latency").value_or(true);
    if (const auto n = config.integer("polygon", 0, CAMD_MAX_KEYPOINTS)) draw_.polygon = static_cast<int>(*n);
    config.finish();
    drawn_ = host_.counter("drawn");
    left_out_ = host_.counter("left_out");
  }

  void outputs(const camd_model& model, camd::plugin::Needs& needs) override {
    needs.picture(CAMD_NEED_HOST);
    for (const std::string& part : camera_parts(model)) {
      if (part.empty()) {  // nobody has that place
        films_.emplace_back();
        continue;
      }
      std::string path = camera_path(path_, part, model.camera_count > 1);
      // A file that always holds the latest picture goes on doing so.
      if (video_ || path.find("{sequence}") != std::string::npos) path = after_reload(path, host_.reloads());
      Film film;
      film.camera = model.camera_names[films_.size()];
      if (video_) {
        film.video = std::make_unique<VideoWriter>(path, VideoOptions{crf_});
      } else {
        film.images = std::make_unique<ImageWriter>(path);
      }
      films_.push_back(std::move(film));
    }
  }

  void process(const camd_frame& frame, const camd::plugin::Tensors& tensors, camd::plugin::Results& results) override {
    static_cast<void>(tensors);
    if (frame.picture == nullptr) throw std::runtime_error("the picture that was asked for is not there");
    Film& film = films_.at(static_cast<std::size_t>(frame.camera_index));
    if (!wanted(film, frame)) return;
    GstWriter& writer = film.writer();
    const Size size = writer.size().value_or(canvas_size(frame.width, frame.height, scale_));
    std::uint8_t* pixels = writer.begin(size, colorimetry_of(*frame.picture));
    if (pixels == nullptr) {
      ++film.skipped;
      left_out_.add();
      return;
    }
    Canvas canvas(pixels, size);
    canvas.fill(*frame.picture, scratch_);
    draw(canvas, frame, results);
    ++film.written;
    drawn_.add();
    if (film.images) {
      film.images->commit_picture(frame.sequence);
    } else {
      writer.commit(film.pts_ns, film.duration_ns);
    }
  }

  void finish() override {
    std::string problems;
    for (Film& film : films_) {
      if (film.camera.empty()) continue;
      const std::string problem = film.video ? film.video->finish() : film.images->finish();
      if (film.skipped > 0) {
        host_.log(CAMD_LOG_WARN, fmt::format("annotate: {} of {} pictures of camera '{}' were left out because the "
                                             "encoder was busy: `scale`, `fps` or `every` lighten its work",
                                             film.skipped, film.skipped + film.written, film.camera));
      }
      if (!problem.empty()) problems += (problems.empty() ? "" : "; ") + problem;
    }
    if (!problems.empty()) throw std::runtime_error(problems);
  }

 private:
  struct Film {  // of one camera
    std::string camera;
    std::unique_ptr<VideoWriter> video;
    std::unique_ptr<ImageWriter> images;
    std::uint64_t seen = 0, written = 0, skipped = 0;
    bool failed = false;
    std::optional<std::int64_t> first_ns;  // capture stamp of the first picture
    std::int64_t pts_ns = -1, duration_ns = 33'333'333;

    [[nodiscard]] GstWriter& writer() const {
      return video ? static_cast<GstWriter&>(*video) : static_cast<GstWriter&>(*images);
    }
  };

  // Whether this frame is drawn; sets the time at which the film shows it.
  bool wanted(Film& film, const camd_frame& frame) {
    if (film.failed || film.seen++ % every_ != 0) return false;
    std::string problem = film.writer().problem();
    if (problem.empty() && film.images) problem = film.images->write_problem();
    if (!problem.empty()) {
      film.failed = true;
      host_.log(CAMD_LOG_ERROR, fmt::format("annotate: no more pictures of camera '{}': {}", frame.camera, problem));
      return false;
    }
    const std::int64_t pts = film.first_ns ? frame.captured_mono_ns - *film.first_ns : 0;
    // A tenth of slack: cameras are not exact, and 30 fps limited to 30 must stay 30.
    if (film.first_ns && period_ns_ > 0 && pts - film.pts_ns < period_ns_ - period_ns_ / 10) return false;
    if (!film.first_ns) film.first_ns = frame.captured_mono_ns;
    // MP4 needs times that rise: two stamps within a millisecond are pulled apart.
    constexpr std::int64_t kLeastStepNs = 1'000'000;
    const std::int64_t rising = std::max(pts, film.pts_ns < 0 ? 0 : film.pts_ns + kLeastStepNs);
    if (film.pts_ns >= 0) film.duration_ns = std::min<std::int64_t>(rising - film.pts_ns, 1'000'000'000);
    film.pts_ns = rising;
    return true;
  }

  void draw(Canvas& canvas, const camd_frame& frame, const camd::plugin::Results& results) {
    const double sx = static_cast<double>(canvas.size().width) / frame.width;
    const double sy = static_cast<double>(canvas.size().height) / frame.height;
    const int thickness = canvas.line_thickness();
    for (const camd_detection& d : results) {
      const Color color = class_color(d.class_id);
      const double x0 = d.box[0] * sx, y0 = d.box[1] * sy;
      if (draw_.boxes) canvas.rectangle(x0, y0, x0 + d.box[2] * sx, y0 + d.box[3] * sy, color, thickness);
      if (draw_.keypoints) draw_keypoints(canvas, d, sx, sy, thickness);
      if (draw_.labels) {
        text_.clear();
        fmt::format_to(std::back_inserter(text_), "{} {:.2f}", d.class_name, d.score);
        canvas.label(x0, y0, std::string_view(text_.data(), text_.size()), color);
      }
    }
    if (!draw_.latency) return;
    text_.clear();
    fmt::format_to(std::back_inserter(text_), "{} #{} {:.1f} ms", frame.camera, frame.sequence,
                   static_cast<double>(host_.now_mono_ns() - frame.captured_mono_ns) / 1e6);
    canvas.label(0, 0, std::string_view(text_.data(), text_.size()), Color{40, 128, 128});
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

  camd::plugin::Host host_;
  camd::plugin::Counter drawn_, left_out_;
  std::string path_;
  bool video_ = false;
  std::uint64_t every_ = 1;
  std::int64_t period_ns_ = 0;  // 0: no limit
  double scale_ = 1.0;
  int crf_ = 23;
  DrawOptions draw_;
  std::vector<Film> films_;  // by camera
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
