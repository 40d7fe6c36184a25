// Layout `anchors`: boxes as offsets from square or rectangular anchors, with variances (Liu et al., "SSD: Single Shot
// MultiBox Detector", 2016, section 2.2; Deng et al., "RetinaFace", 2019, for the keypoints):
//   anchor centre a = (cell + offset) * stride + shift
//   cx = ax + d0 * v0 * w_a    w = w_a * min(exp(d2 * v1), size_limit)    keypoint x = ax + l * v0 * w_a
// With `centerness` a score is cls * obj or its root (Zhang et al., "ATSS", 2020). Key points may stand behind the box
// in its tensor (YuNet of 2021). With `boxes: priors_yx` y and height stand first (EfficientDet, TensorFlow).
#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "plugins/detections/decoder.hpp"

namespace camd::plugins {
namespace {

class Anchors final : public Decoder {
 public:
  Anchors(std::vector<Level> levels, Scores scores, const Options& options,
          std::vector<std::vector<AnchorSize>> anchors, float width, float height)
      : Decoder(std::move(levels), std::move(scores)),
        anchors_(std::move(anchors)),
        offset_(options.anchor_offset.value_or(0.5F)),
        shift_(options.anchor_shift),
        variance_centre_(options.variances ? (*options.variances)[0] : 0.1F),
        variance_size_(options.variances ? (*options.variances)[1] : 0.2F),
        x_(options.boxes == BoxForm::kPriorsYx ? 1 : 0),
        limit_(options.size_limit.value_or(std::numeric_limits<float>::infinity())),
        clips_(options.clip_anchors),
        width_(width),
        height_(height) {
    weigh_by(options.centerness);
    // Background and objects of RetinaFace's original: [background a0, background a1, object a0, object a1].
    for (Level& level : levels_) {
      Head& cls = level.head(Role::kCls);
      if (!scores_.background() || cls.cell_step != 1) continue;
      cls.anchor_step = level.cells();
      cls.channel_step = level.anchors * level.cells();
    }
  }

  [[nodiscard]] Box box(const TensorSet& tensors, const Candidate& c) const override {
    const Anchor a = anchor(c);
    const Values d = values(tensors, Role::kBox, c);
    const float x = a.x + d[x_] * variance_centre_ * a.size.width;
    const float y = a.y + d[1 - x_] * variance_centre_ * a.size.height;
    const float half_width = 0.5F * a.size.width * std::min(bounded_exp(d[2 + x_] * variance_size_), limit_);
    const float half_height = 0.5F * a.size.height * std::min(bounded_exp(d[3 - x_] * variance_size_), limit_);
    return {x - half_width, y - half_height, x + half_width, y + half_height};
  }

  void keypoints(const TensorSet& tensors, const Candidate& c, Point* points) const override {
    const Anchor a = anchor(c);
    const Values l = values(tensors, Role::kKps, c);
    for (int k = 0; k < keypoint_count(); ++k) {
      points[k] = {a.x + l[2 * k] * variance_centre_ * a.size.width,
                   a.y + l[2 * k + 1] * variance_centre_ * a.size.height};
    }
  }

  [[nodiscard]] std::optional<Point> origin(const Candidate& c) const override {
    const Anchor a = anchor(c);
    return Point{a.x, a.y};
  }

 private:
  struct Anchor {
    float x, y;
    AnchorSize size;
  };
  [[nodiscard]] Anchor anchor(const Candidate& c) const noexcept {
    const Point point = cell_point(c, offset_);
    const Anchor whole{point.x + shift_, point.y + shift_,
                       anchors_[static_cast<std::size_t>(c.level)][static_cast<std::size_t>(c.anchor)]};
    return clips_ ? clipped(whole) : whole;
  }
  [[nodiscard]] Anchor clipped(const Anchor& a) const noexcept {
    const float left = std::clamp(a.x - 0.5F * a.size.width, 0.0F, width_);
    const float right = std::clamp(a.x + 0.5F * a.size.width, 0.0F, width_);
    const float top = std::clamp(a.y - 0.5F * a.size.height, 0.0F, height_);
    const float bottom = std::clamp(a.y + 0.5F * a.size.height, 0.0F, height_);
    return {0.5F * (left + right), 0.5F * (top + bottom), {right - left, bottom - top}};
  }

  std::vector<std::vector<AnchorSize>> anchors_;  // by level
  float offset_, shift_, variance_centre_, variance_size_;
  int x_;        // 1: y stands before x, as TensorFlow's detectors have it
  float limit_;  // of a box's side, in sides of its anchor
  bool clips_;
  float width_, height_;  // of the picture, network pixels
};

// Boxes and key points in tensors of their own, or in one.
std::vector<Level> bind(const camd_model& model, const Options& options, HeadRules rules) {
  const int points = 2 * options.keypoints.value_or(0);
  try {
    return bind_heads(model, options, rules);
  } catch (const std::invalid_argument&) {
    if (points == 0) throw;
    std::erase_if(rules.roles, [](const RoleRule& rule) { return rule.role == Role::kKps; });
    const auto box = std::find_if(rules.roles.begin(), rules.roles.end(),
                                  [](const RoleRule& rule) { return rule.role == Role::kBox; });
    box->channels = {4 + points};
    std::vector<Level> levels;
    try {
      levels = bind_heads(model, options, rules);
    } catch (const std::invalid_argument&) {
      // What is said of tensors of their own is what is usual.
    }
    if (levels.empty()) throw;
    for (Level& level : levels) {
      Head& both = level.head(Role::kBox);
      level.head(Role::kKps) = both;
      level.head(Role::kKps).channels = points;
      level.head(Role::kKps).first += 4 * both.channel_step;
      both.channels = 4;
    }
    return levels;
  }
}

}  // namespace

std::unique_ptr<Decoder> make_anchors(const camd_model& model, const Options& options) {
  // RetinaFace's own, where nothing else is said.
  auto anchors = options.anchors;
  if (anchors.empty()) anchors = {{{16, 16}, {32, 32}}, {{64, 64}, {128, 128}}, {{256, 256}, {512, 512}}};
  std::vector<int> per_cell;
  per_cell.reserve(anchors.size());
  for (const auto& of_stride : anchors) per_cell.push_back(static_cast<int>(of_stride.size()));
  if (anchors.size() == 1 && options.strides.size() > 1) {
    throw std::invalid_argument("config.anchors: one list, but " + std::to_string(options.strides.size()) +
                                " strides: one list per stride is needed");
  }
  auto levels = bind(model, options, usual_rules(options, per_cell));
  // RetinaFace's scores are the softmax over the background and a face.
  Scores scores(options, levels.front().head(Role::kCls).channels, options.anchors.empty());
  return std::make_unique<Anchors>(std::move(levels), std::move(scores), options, std::move(anchors),
                                   static_cast<float>(model.input.shape[3]), static_cast<float>(model.input.shape[2]));
}

}  // namespace camd::plugins
