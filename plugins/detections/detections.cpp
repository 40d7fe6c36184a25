// The built-in `detections`: decodes a detector's raw outputs into boxes, keypoints and classes in source pixels.
//
// Threads: as every plug-in (camd_plugin.h).
// Invariants: what process() adds is finite, inside the picture (boxes) and sorted by score; no allocation per frame.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "plugins/camd_plugin.hpp"
#include "plugins/detections/decoder.hpp"
#include "plugins/detections/options.hpp"
#include "plugins/detections/suggest.hpp"
#include "plugins/json_object.hpp"
#include "plugins/tables.hpp"

namespace camd::plugins {
namespace {

class Detections final : public camd::plugin::Postprocessor {
 public:
  static constexpr bool kStateless = true;

  Detections(camd::plugin::Host host, std::string_view config_json) : host_(host), config_(config_json) {
    // What is wrong in the configuration alone is said before a model is read.
    static_cast<void>(read_options("{}", config_));
    left_out_ = host_.counter("left_out");
  }

  static void check(const camd::plugin::Check& check) { check_options(check); }

  void outputs(const camd_model& model, camd::plugin::Needs& needs) override {
    const Options options = read_options(model.card_json != nullptr ? model.card_json : "{}", config_);
    if (!options.layout) {
      throw std::invalid_argument("config.layout: missing, and the model has no card that names one; " +
                                  suggestion_text(model, fitting_layouts(model, options, nullptr), nullptr));
    }
    try {
      decoder_ = make_decoder(*options.layout, model, options);
    } catch (const std::invalid_argument& e) {
      throw std::invalid_argument("layout '" + std::string(to_string(*options.layout)) + "': " + e.what() +
                                  other_layout(model, options));
    }
    tensors_.emplace(model, decoder_->used_outputs());
    for (const int output : tensors_->used()) needs.output(output, CAMD_NEED_HOST);
    filters_ = decoder_->filters();
    tensors_->filter(filters_.size());
    needs.filters(filters_);
    // Where the graph, or the map itself, has chosen the boxes, all of them stay.
    const bool chosen =
        options.layout == Layout::kRows || options.layout == Layout::kCenternet || options.layout == Layout::kFomo;
    nms_ = options.nms.value_or(chosen ? 1.0F : 0.4F);
    blend_ = options.blend;
    if (decoder_->oriented() && blend_ < 1.0F) {
      throw std::invalid_argument("config.blend: boxes that are turned have no mean, leave it out");
    }
    max_ = options.max;
    needs.detections(max_);
    kept_.reserve(static_cast<std::size_t>(max_));
  }

  // Nothing here depends on the cameras: the instance stays when they come and go.
  std::unique_ptr<Camera> open_camera(int /*index*/, const char* /*name*/) override { return nullptr; }

  void process(const camd_frame& frame, const camd::plugin::Tensors& tensors, camd::plugin::Results& results) override {
    tensors_->load(tensors);
    candidates_.clear();
    decoder_->scan(*tensors_, candidates_);
    kept_.clear();
    for (const Candidate& candidate : candidates_.sorted()) {
      const Box box = decoder_->box(*tensors_, candidate);
      // False for NaN as well.
      if (!(box.x1 > box.x0 && box.y1 > box.y0) || !std::isfinite(box.x0 + box.y0 + box.x1 + box.y1)) continue;
      const auto same = same_object(candidate, box);
      if (same != kept_.end()) {
        if (overlap(same->first, box) > blend_) blend(*same, candidate, box);
      } else if (kept_.size() < static_cast<std::size_t>(max_)) {
        keep(frame, candidate, box);
      } else if (blend_ >= 1.0F) {
        break;  // nothing that follows changes what is kept
      }
    }
    for (const Kept& kept : kept_) add(frame, kept, results);
    warn_about_scores();
  }

 private:
  using Points = std::array<Point, CAMD_MAX_KEYPOINTS>;

  // One object: its best candidate, and the mean of that one and those blended into it, in network pixels.
  struct Kept {
    Candidate best;
    // The best candidate's own, which decide what overlaps and which cells are near a keypoint.
    Box first;
    Points first_points;
    Box box;
    Points points;
    float weight = 0.0F;
    std::array<float, CAMD_MAX_KEYPOINTS> point_weights;  // set where `blend` is on
  };

  // Score squared: close neighbours of an object's best cell see it nearly as well, those farther off much less.
  // Never 0, as means divide by it.
  static float weight_of(const Candidate& candidate) noexcept {
    return std::max(1e-20F, candidate.score * candidate.score);
  }

  // A further factor for one keypoint: a cell that measures from nearby sees it best. The deviation is the share of the
  // box's side that left the reference detector's corners the least error (models/README.md). Never 0: a keypoint far
  // from every cell is the mean by score alone. No number, where the model's values are extreme, counts as far.
  static float nearness(const std::optional<Point>& origin, const Box& first, const Point& keypoint) noexcept {
    constexpr float kDeviation = 0.4F, kLeast = 1e-6F;
    if (!origin) return 1.0F;
    const float x = origin->x - keypoint.x, y = origin->y - keypoint.y;
    const float area = (first.x1 - first.x0) * (first.y1 - first.y0);
    return std::max(kLeast, std::exp(-(x * x + y * y) / (2.0F * kDeviation * kDeviation * area)));
  }

  // The kept one that hides the candidate.
  std::vector<Kept>::iterator same_object(const Candidate& candidate, const Box& box) {
    Points corners;
    const bool turned = decoder_->oriented() && nms_ < 1.0F;
    if (turned) decoder_->keypoints(*tensors_, candidate, corners.data());
    return std::find_if(kept_.begin(), kept_.end(), [&](const Kept& k) {
      if (k.best.class_id != candidate.class_id) return false;
      // Those whose enclosing boxes are apart are apart.
      if (turned && k.first.x0 < box.x1 && box.x0 < k.first.x1 && k.first.y0 < box.y1 && box.y0 < k.first.y1) {
        return overlap_of_corners(k.points.data(), corners.data()) > nms_;
      }
      return !turned && overlap(k.first, box) > nms_;
    });
  }

  // False when a keypoint is not a number.
  bool read_points(const Candidate& candidate, Points& points) const {
    const int count = decoder_->keypoint_count();
    if (count > 0) decoder_->keypoints(*tensors_, candidate, points.data());
    return std::all_of(points.begin(), points.begin() + count,
                       [](const Point& p) { return std::isfinite(p.x) && std::isfinite(p.y); });
  }

  // What lies outside the picture or has a keypoint that is not a number counts for nothing.
  void keep(const camd_frame& frame, const Candidate& candidate, const Box& box) {
    if (!in_picture(frame, box)) return;
    Kept kept{candidate, box, {}, box, {}, weight_of(candidate), {}};
    if (!read_points(candidate, kept.points)) return;
    if (blend_ < 1.0F) {
      kept.first_points = kept.points;
      const std::optional<Point> origin = decoder_->origin(candidate);
      for (int k = 0; k < decoder_->keypoint_count(); ++k) {
        const auto i = static_cast<std::size_t>(k);
        kept.point_weights[i] = kept.weight * nearness(origin, box, kept.points[i]);
      }
    }
    kept_.push_back(kept);
  }

  void blend(Kept& kept, const Candidate& candidate, const Box& box) const {
    Points points;
    if (!read_points(candidate, points)) return;
    const float weight = weight_of(candidate);
    const auto pull = [](float& mean, float value, float share) { mean += (value - mean) * share; };
    kept.weight += weight;
    const float share = weight / kept.weight;
    pull(kept.box.x0, box.x0, share);
    pull(kept.box.y0, box.y0, share);
    pull(kept.box.x1, box.x1, share);
    pull(kept.box.y1, box.y1, share);
    const std::optional<Point> origin = decoder_->origin(candidate);
    for (int k = 0; k < decoder_->keypoint_count(); ++k) {
      const auto i = static_cast<std::size_t>(k);
      const float point_weight = weight * nearness(origin, kept.first, kept.first_points[i]);
      kept.point_weights[i] += point_weight;
      const float point_share = point_weight / kept.point_weights[i];
      pull(kept.points[i].x, points[i].x, point_share);
      pull(kept.points[i].y, points[i].y, point_share);
    }
  }

  // In source pixels, cut at the picture's edges; nothing when none of it is inside.
  static std::optional<Box> in_picture(const camd_frame& frame, const Box& box) noexcept {
    using camd::plugin::source_x;
    using camd::plugin::source_y;
    const auto width = static_cast<float>(frame.width), height = static_cast<float>(frame.height);
    const Box cut{std::clamp(source_x(frame, box.x0), 0.0F, width), std::clamp(source_y(frame, box.y0), 0.0F, height),
                  std::clamp(source_x(frame, box.x1), 0.0F, width), std::clamp(source_y(frame, box.y1), 0.0F, height)};
    if (!(cut.x1 > cut.x0 && cut.y1 > cut.y0)) return std::nullopt;
    return cut;
  }

  void add(const camd_frame& frame, const Kept& kept, camd::plugin::Results& results) const {
    const std::optional<Box> box = in_picture(frame, kept.box);
    if (!box) return;
    camd_detection* added = results.add();
    if (added == nullptr) {  // plug-ins before this one have filled the list; best scores came first
      left_out_.add();
      return;
    }
    added->class_id = kept.best.class_id;
    added->score = kept.best.score;
    added->box[0] = box->x0;
    added->box[1] = box->y0;
    added->box[2] = box->x1 - box->x0;
    added->box[3] = box->y1 - box->y0;
    added->keypoint_count = decoder_->keypoint_count();
    for (int k = 0; k < added->keypoint_count; ++k) {
      const Point& point = kept.points[static_cast<std::size_t>(k)];
      added->keypoints[k][0] = camd::plugin::source_x(frame, point.x);
      added->keypoints[k][1] = camd::plugin::source_y(frame, point.y);
    }
    camd::plugin::copy_text(added->class_name, decoder_->scores().name(kept.best.class_id));
  }

  void warn_about_scores() {
    if (warned_ || decoder_->scores().out_of_range() == 0) return;
    warned_ = true;
    host_.log(CAMD_LOG_WARN,
              "detections: scores above 1 are left out: set `scores: percent` if the model gives 0 to 100, "
              "set `scores: logits` if it leaves the sigmoid or softmax to camd");
  }

  // Where the model fits other layouts and not the configured one: their names, as the rest of a sentence.
  static std::string other_layout(const camd_model& model, const Options& options) {
    const std::vector<LayoutSuggestion> fitting = fitting_layouts(model, options, nullptr);
    return fitting.empty() ? "" : "; " + suggestion_text(model, fitting, nullptr);
  }

  camd::plugin::Host host_;
  camd::plugin::Counter left_out_;
  std::string config_;
  std::unique_ptr<Decoder> decoder_;
  std::optional<TensorSet> tensors_;
  std::vector<camd_filter> filters_;
  Candidates candidates_;
  std::vector<Kept> kept_;
  float nms_ = 0.0F;
  float blend_ = 1.0F;
  int max_ = 0;
  bool warned_ = false;
};

}  // namespace

const camd_plugin* detections_table() noexcept {
  static constexpr camd_plugin kTable = camd::plugin::make_table<Detections>(
      "detections", "1.0.0", "decodes a detector's outputs into boxes, keypoints and classes in source pixels");
  return &kTable;
}

}  // namespace camd::plugins
