// Layout `ssd`: a list of boxes and a list of class scores, decoded inside the graph (`boxes: corners`, `corners_yx`,
// `centre`), or still relative to priors (`boxes: priors`: the formulas of layout `anchors`, with all strides in one
// tensor; Liu et al., "SSD: Single Shot MultiBox Detector", 2016). Score 0 of each row is the background.
// One tensor with four box values and the classes in each row ([1,N,4+C] or [1,4+C,N]) is taken as well: YOLOv8 and its
// kind are `boxes: centre, relative: false`. With `oriented: true` the angle by which the box is turned follows, in
// radians from the x to the y axis ([1,4+C+1,N]: YOLO's oriented boxes), or stands behind the box where the scores have
// a tensor of their own ([1,N,5]: what TensorRT's EfficientRotatedNMS_TRT reads); the box's corners are the keypoints.
#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "plugins/detections/decoder.hpp"

namespace camd::plugins {
namespace {

class Ssd final : public Decoder {
 public:
  Ssd(std::vector<Level> levels, Scores scores, BoxForm form, float width, float height, std::optional<int> keypoints)
      : Decoder(std::move(levels), std::move(scores)), form_(form), width_(width), height_(height) {
    if (levels_.front().head(Role::kAngle).bound()) {
      oriented_ = true;
      keypoint_count_ = 4;
    }
    const Head& kps = levels_.front().head(Role::kKps);
    if (!kps.bound() || !keypoints || *keypoints == 0) return;
    point_values_ = kps.channels / *keypoints;
    keypoint_count_ = *keypoints;
  }

  [[nodiscard]] Box box(const TensorSet& tensors, const Candidate& c) const override {
    if (oriented()) {
      std::array<Point, 4> corners;
      keypoints(tensors, c, corners.data());
      return enclosing(corners.data());
    }
    const Values d = values(tensors, Role::kBox, c);
    switch (form_) {
      case BoxForm::kCornersYx: return {d[1] * width_, d[0] * height_, d[3] * width_, d[2] * height_};
      case BoxForm::kCentre:
        return {(d[0] - 0.5F * d[2]) * width_, (d[1] - 0.5F * d[3]) * height_, (d[0] + 0.5F * d[2]) * width_,
                (d[1] + 0.5F * d[3]) * height_};
      default: return {d[0] * width_, d[1] * height_, d[2] * width_, d[3] * height_};
    }
  }

  void keypoints(const TensorSet& tensors, const Candidate& c, Point* points) const override {
    if (oriented()) {
      const Values d = values(tensors, Role::kBox, c);
      corners_of({d[0] * width_, d[1] * height_}, d[2] * width_, d[3] * height_, values(tensors, Role::kAngle, c)[0],
                 points);
      return;
    }
    const Values l = values(tensors, Role::kKps, c);
    for (int k = 0; k < keypoint_count(); ++k) {
      const int at = k * point_values_;
      points[k] = {l[at] * width_, l[at + 1] * height_};
    }
  }

 private:
  BoxForm form_;
  float width_, height_;  // network pixels that a value of 1 means
};

struct BoxList {
  std::int64_t count = 0;
  // [1,N,4] or [1,4,N], with an angle 5; otherwise with the classes in the same rows, N being the larger side.
  bool alone = true;
  bool with_angle = false;
};

std::optional<BoxList> box_list(const camd_tensor_spec& spec, bool oriented) {
  // [1,N,1,4]: a box for all classes (YOLOv4 for PyTorch).
  if (spec.ndim == 4 && spec.shape[0] == 1 && spec.shape[2] == 1 && spec.shape[3] == 4) {
    return BoxList{spec.shape[1]};
  }
  if (spec.ndim != 2 && !(spec.ndim == 3 && spec.shape[0] == 1)) return std::nullopt;
  const std::int64_t a = spec.shape[spec.ndim - 2], b = spec.shape[spec.ndim - 1];
  if (b == 4) return BoxList{a};
  if (a == 4) return BoxList{b};
  if (oriented && (a == 5 || b == 5)) return BoxList{b == 5 ? a : b, true, true};
  return BoxList{std::max(a, b), false};
}

// The fifth value of a box is its angle.
void split_angle(Level& level) {
  Head& box = level.head(Role::kBox);
  Head angle = box;
  box.channels = 4;
  angle.channels = 1;
  angle.first += 4 * angle.channel_step;
  level.head(Role::kAngle) = angle;
}

}  // namespace

std::unique_ptr<Decoder> make_ssd(const camd_model& model, const Options& options) {
  if (options.oriented && (options.boxes != BoxForm::kCentre || options.keypoints.value_or(0) > 0)) {
    throw std::invalid_argument("`oriented: true` needs `boxes: centre` and no keypoints: those are the box's corners");
  }
  if (options.boxes == BoxForm::kPriors || options.boxes == BoxForm::kPriorsYx) {
    if (options.anchors.empty()) {
      throw std::invalid_argument("`boxes: priors` needs `anchors`, one list per stride, and `strides`");
    }
    Options priors = options;
    if (!priors.background && priors.classes.empty()) priors.background = true;
    return make_anchors(model, priors);
  }
  bool any_alone = false;
  for (int i = 0; i < model.output_count; ++i) {
    const auto list = box_list(model.outputs[i], options.oriented);
    any_alone = any_alone || (list && list->alone);
  }
  // Every box is one cell of one row: try the row lengths that the model's outputs suggest.
  std::string problem = "no output of boxes, wanted [1,N,4]; the model's outputs are " + describe_outputs(model);
  for (int i = 0; i < model.output_count; ++i) {
    const auto list = box_list(model.outputs[i], options.oriented);
    if (!list || list->alone != any_alone || list->count < 1 || list->count > INT32_MAX) continue;
    std::array<std::int64_t, 4> shape = {1, 3, 1, list->count};
    camd_model row = model;
    row.input.ndim = 4;
    row.input.shape = shape.data();
    Options one = options;
    one.strides = {1};
    std::vector<Level> levels;
    // Keypoints behind the classes of a row have a visibility each (YOLO's poses), or none.
    const bool in_rows = !list->alone && options.keypoints.value_or(0) > 0;
    // With named classes and `keypoints: 0` something else may follow, such as a mask's coefficients.
    const bool more = !list->alone && options.keypoints == 0 && !options.classes.empty() && !options.oriented;
    for (const int values : in_rows || more ? std::vector<int>{3, 2} : std::vector<int>{2}) {
      try {
        HeadRules rules = usual_rules(options, {1});
        if (more && values == 3) {
          rules.roles.front().channels = {static_cast<int>(options.classes.size())};
          rules.roles.push_back({Role::kKps, {}, 1, true, 1});
        }
        if (!list->alone) rules.fused = {Role::kBox, Role::kCls};
        if (more && values == 3) rules.fused.push_back(Role::kKps);
        if (list->with_angle) {
          rules.roles[1].channels = {5};  // the box's
        } else if (options.oriented) {
          rules.roles.push_back({Role::kAngle, {1}, 1, true, 1});
          rules.fused.push_back(Role::kAngle);
        }
        if (in_rows) {
          rules.fused.push_back(Role::kKps);
          rules.roles.back().channels = {values * *options.keypoints};
          if (options.classes.empty()) rules.roles.front().channels = {1};
        }
        levels = bind_heads(row, one, rules);
        if (more) levels.front().head(Role::kKps) = Head{};
        if (list->with_angle) split_angle(levels.front());
        break;
      } catch (const std::invalid_argument& e) {
        problem = e.what();
      }
    }
    if (levels.empty()) continue;
    // Rows of boxes and classes in one have no background: it came from SSD's softmax.
    const bool fused = levels.front().head(Role::kCls).output == levels.front().head(Role::kBox).output;
    Scores scores(options, levels.front().head(Role::kCls).channels, !fused);
    const bool relative = options.relative.value_or(true);
    return std::make_unique<Ssd>(std::move(levels), std::move(scores), options.boxes,
                                 relative ? static_cast<float>(model.input.shape[3]) : 1.0F,
                                 relative ? static_cast<float>(model.input.shape[2]) : 1.0F, options.keypoints);
  }
  throw std::invalid_argument(problem);
}

}  // namespace camd::plugins
