// Layout `yolo-heads`: what YOLOv2 to YOLOv7 compute before their graphs decode it, a map for each stride (Redmon and
// Farhadi, "YOLO9000", 2017, and "YOLOv3", 2018; AlexeyAB/darknet, src/yolo_layer.c; ultralytics/yolov5,
// class Detect). An anchor's values are its box, an objectness, and the classes, in one map or in one each (MMYOLO);
// s() is the sigmoid:
//   score = s(obj) * best s(class)   cx = (column + r * s(d0) - (r - 1) / 2) * stride   w = anchor width * e^d2
// r is `scale_xy` of the stride. With `sizes: square` w is anchor width * (2 * s(d2))^2, as YOLOv5 and YOLOv7 have it.
// With `softmax` classes share a softmax in place of their sigmoids, as YOLOv2's do. With `scores: probability` the
// graph has taken all of these already.
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "plugins/detections/decoder.hpp"

namespace camd::plugins {
namespace {

class YoloHeads final : public Decoder {
 public:
  YoloHeads(std::vector<Level> levels, Scores scores, const Options& options)
      : Decoder(std::move(levels), std::move(scores)),
        anchors_(options.anchors),
        reach_(options.scale_xy),
        square_(options.sizes == SizeForm::kSquare),
        logits_(options.scores == ScoreForm::kLogits),
        softmax_(options.softmax && logits_) {
    if (reach_.empty()) reach_ = {1.0F};
    reach_.resize(levels_.size(), reach_.front());
  }

  [[nodiscard]] std::optional<First> looks_first() const override { return objectness_first(); }
  void scan(const TensorSet& tensors, Candidates& candidates) override { scan_objects(tensors, softmax_, candidates); }

  [[nodiscard]] Box box(const TensorSet& tensors, const Candidate& c) const override {
    const GridCell at = cell_of(c);
    const auto stride = static_cast<float>(at.level.stride), reach = reach_[static_cast<std::size_t>(c.level)];
    const AnchorSize& anchor = anchors_[static_cast<std::size_t>(c.level)][static_cast<std::size_t>(c.anchor)];
    const Values d = values(tensors, Role::kBox, c);
    const auto share = [&](int channel) { return logits_ ? sigmoid(d[channel]) : d[channel]; };
    const auto centre = [&](int channel) { return reach * share(channel) - 0.5F * (reach - 1.0F); };
    const auto growth = [&](int channel) {
      return square_ ? 4.0F * share(channel) * share(channel) : bounded_exp(d[channel]);
    };
    const float x = (at.column + centre(0)) * stride, y = (at.row + centre(1)) * stride;
    const float half_width = 0.5F * anchor.width * growth(2), half_height = 0.5F * anchor.height * growth(3);
    return {x - half_width, y - half_height, x + half_width, y + half_height};
  }

 private:
  std::vector<std::vector<AnchorSize>> anchors_;  // by level
  std::vector<float> reach_;                      // by level
  bool square_, logits_, softmax_;
};

}  // namespace

std::unique_ptr<Decoder> make_yolo_heads(const camd_model& model, const Options& options) {
  if (options.anchors.empty()) {
    throw std::invalid_argument(
        "config.anchors: missing, one list per stride is needed; yolov5-heads and other names bring their own");
  }
  Options plain = options;
  plain.keypoints = 0;
  plain.background = false;
  std::vector<int> per_cell;
  for (const auto& of_stride : options.anchors) per_cell.push_back(static_cast<int>(of_stride.size()));
  HeadRules rules = usual_rules(plain, per_cell);
  rules.roles.push_back({Role::kObj, {1}, 1, true, 1});
  rules.fused = {Role::kBox, Role::kObj, Role::kCls};
  auto levels = bind_heads(model, plain, rules);
  if (options.scale_xy.size() > 1 && options.scale_xy.size() != levels.size()) {
    throw std::invalid_argument("config.scale_xy: " + std::to_string(options.scale_xy.size()) + " numbers, but " +
                                std::to_string(levels.size()) + " strides: one, or one per stride, is needed");
  }
  for (const Level& level : levels) {
    for (const Role role : {Role::kBox, Role::kObj, Role::kCls}) {
      const int output = level.head(role).output;
      // Lists do not tell whether the boxes of a cell or those of an anchor stand side by side.
      if (model.outputs[output].ndim >= 4) continue;
      throw std::invalid_argument("wanted a map [1,A*k,h,w] or [1,A,h,w,k] of each stride, found " +
                                  describe_output(model, output));
    }
  }
  Scores scores(plain, levels.front().head(Role::kCls).channels, false);
  return std::make_unique<YoloHeads>(std::move(levels), std::move(scores), options);
}

}  // namespace camd::plugins
