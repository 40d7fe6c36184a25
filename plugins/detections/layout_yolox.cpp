// Layout `yolox` (Ge et al., "YOLOX: Exceeding YOLO Series in 2021"; Megvii-BaseDetection/YOLOX, utils/demo_utils.py):
//   score = obj * best class   cx = (column + offset + d0) * stride   w = exp(d2) * stride
// With `decoded: true` the four values are centre and size in network pixels already; so do YOLOv5 and its kind, with
// three anchors per cell. With `relative: true` as well they are parts of the picture, as TensorFlow's YOLOv5 has them.
// Keypoints stand in front of the classes with two values each (YOLOv5-face), or behind them with three (YOLOv7's
// poses). Behind the classes may also stand what is not read: YOLOv5's masks have their coefficients there.
#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "plugins/detections/decoder.hpp"

namespace camd::plugins {
namespace {

constexpr int kMostFacePoints = 5;

class Yolox final : public Decoder {
 public:
  Yolox(std::vector<Level> levels, Scores scores, const Options& options, float width, float height)
      : Decoder(std::move(levels), std::move(scores)),
        decoded_(options.decoded),
        offset_(options.anchor_offset.value_or(0.0F)),
        width_(options.relative.value_or(false) ? width : 1.0F),
        height_(options.relative.value_or(false) ? height : 1.0F) {
    const Head& kps = levels_.front().head(Role::kKps);
    if (!kps.bound()) return;
    keypoint_count_ = options.keypoints.value_or(0);
    point_values_ = kps.channels / std::max(keypoint_count_, 1);
  }

  [[nodiscard]] std::optional<First> looks_first() const override { return objectness_first(); }
  void scan(const TensorSet& tensors, Candidates& candidates) override { scan_objects(tensors, false, candidates); }

  [[nodiscard]] Box box(const TensorSet& tensors, const Candidate& c) const override {
    const GridCell at = cell_of(c);
    const auto stride = static_cast<float>(at.level.stride);
    const Values d = values(tensors, Role::kBox, c);
    const float x = decoded_ ? d[0] * width_ : (at.column + offset_ + d[0]) * stride;
    const float y = decoded_ ? d[1] * height_ : (at.row + offset_ + d[1]) * stride;
    const float half_width = 0.5F * (decoded_ ? d[2] * width_ : bounded_exp(d[2]) * stride);
    const float half_height = 0.5F * (decoded_ ? d[3] * height_ : bounded_exp(d[3]) * stride);
    return {x - half_width, y - half_height, x + half_width, y + half_height};
  }

  void keypoints(const TensorSet& tensors, const Candidate& c, Point* points) const override {
    const Values l = values(tensors, Role::kKps, c);
    for (int k = 0; k < keypoint_count(); ++k)
      points[k] = {l[point_values_ * k] * width_, l[point_values_ * k + 1] * height_};
  }

 private:
  bool decoded_;
  float offset_;
  float width_, height_;  // network pixels that a value of 1 means, where the graph has decoded it
};

}  // namespace

std::unique_ptr<Decoder> make_yolox(const camd_model& model, const Options& options) {
  const int keypoints = options.keypoints.value_or(0);
  if (keypoints > 0 && !options.decoded) {
    throw std::invalid_argument("`keypoints` in rows need `decoded: true`, as YOLOv5-face has them");
  }
  Options without_background = options;
  without_background.keypoints = keypoints;
  without_background.background = false;
  const int per_cell = options.anchors_per_cell.value_or(1);
  if (per_cell > 1 && !options.decoded) {
    throw std::invalid_argument("`anchors_per_cell` above 1 needs `decoded: true`: YOLOX has no anchors to decode by");
  }
  if (options.relative.value_or(false) && !options.decoded) {
    throw std::invalid_argument("`relative: true` needs `decoded: true`: what YOLOX decodes itself is in pixels");
  }
  HeadRules rules = usual_rules(without_background, {per_cell});
  rules.roles.push_back({Role::kObj, {1}, 1, true, 1});
  rules.fused = {Role::kBox, Role::kObj, Role::kCls};
  HeadRules behind = rules;
  behind.fused.push_back(Role::kKps);
  bool may_follow = false, likelier = false;
  if (keypoints > 0) {
    rules.fused = {Role::kBox, Role::kObj, Role::kKps, Role::kCls};
    // Without names, what has more points than a face is a person's, the only class.
    may_follow = options.decoded && !options.classes.empty();
    likelier = options.decoded && options.classes.empty() && keypoints > kMostFacePoints;
    for (RoleRule& rule : behind.roles) {
      if (rule.role == Role::kKps) rule.channels = {3 * keypoints};
      if (rule.role == Role::kCls && options.classes.empty()) rule.channels = {1};
    }
  } else if (options.decoded && options.keypoints == 0 && !options.classes.empty()) {
    may_follow = true;
    behind.roles.push_back({Role::kKps, {}, 1, true, 1});
  }
  const auto first_that_fits = [&](const HeadRules& one, const HeadRules& other) {
    try {
      return bind_heads(model, options, one);
    } catch (const std::invalid_argument&) {
      return bind_heads(model, options, other);
    }
  };
  auto levels = likelier     ? first_that_fits(behind, rules)
                : may_follow ? first_that_fits(rules, behind)
                             : bind_heads(model, options, rules);
  if (keypoints == 0) {
    for (Level& level : levels) level.head(Role::kKps) = Head{};
  }
  if (levels.size() == 1 && options.strides.empty()) {
    throw std::invalid_argument("YOLOX has several strides, these outputs have one");
  }
  Scores scores(without_background, levels.front().head(Role::kCls).channels, false);
  return std::make_unique<Yolox>(std::move(levels), std::move(scores), options,
                                 static_cast<float>(model.input.shape[3]), static_cast<float>(model.input.shape[2]));
}

}  // namespace camd::plugins
