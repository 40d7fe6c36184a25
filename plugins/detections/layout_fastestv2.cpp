// Layout `yolo-fastestv2` (dog-qiuqiu/Yolo-FastestV2, utils/utils.py: handel_preds): three anchors per cell, which
// share the cell's classes. A cell's values are 4 * A of boxes, A objectnesses, then the classes:
//   score = obj * best class   cx = (column + 2 * d0 - 0.5) * stride   w = (2 * d2)^2 * anchor width
// The exported graph has taken sigmoids and softmax already. With `scores: logits` none is taken.
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "plugins/detections/decoder.hpp"

namespace camd::plugins {
namespace {

class Fastestv2 final : public Decoder {
 public:
  Fastestv2(std::vector<Level> levels, Scores scores, std::vector<std::vector<AnchorSize>> anchors, bool logits)
      : Decoder(std::move(levels), std::move(scores)), anchors_(std::move(anchors)), logits_(logits) {}

  [[nodiscard]] std::optional<First> looks_first() const override { return objectness_first(); }
  void scan(const TensorSet& tensors, Candidates& candidates) override { scan_objects(tensors, logits_, candidates); }

  [[nodiscard]] Box box(const TensorSet& tensors, const Candidate& c) const override {
    const GridCell at = cell_of(c);
    const auto stride = static_cast<float>(at.level.stride);
    const AnchorSize& anchor = anchors_[static_cast<std::size_t>(c.level)][static_cast<std::size_t>(c.anchor)];
    const Values d = values(tensors, Role::kBox, c);
    const auto share = [&](int channel) { return logits_ ? sigmoid(d[channel]) : d[channel]; };
    const float x = (at.column + 2.0F * share(0) - 0.5F) * stride, y = (at.row + 2.0F * share(1) - 0.5F) * stride;
    const float half_width = 2.0F * share(2) * share(2) * anchor.width;
    const float half_height = 2.0F * share(3) * share(3) * anchor.height;
    return {x - half_width, y - half_height, x + half_width, y + half_height};
  }

 private:
  std::vector<std::vector<AnchorSize>> anchors_;  // by level
  bool logits_;
};

}  // namespace

std::unique_ptr<Decoder> make_fastestv2(const camd_model& model, const Options& options) {
  // Those of the published model, which knows COCO.
  auto anchors = options.anchors;
  if (anchors.empty()) {
    anchors = {{{12.64F, 19.39F}, {37.88F, 51.48F}, {55.71F, 138.31F}},
               {{126.91F, 78.23F}, {131.57F, 214.55F}, {279.92F, 258.87F}}};
  }
  const auto per_cell = static_cast<int>(anchors.front().size());
  for (const auto& of_stride : anchors) {
    if (static_cast<int>(of_stride.size()) != per_cell) {
      throw std::invalid_argument("config.anchors: every stride needs the same number of anchors");
    }
  }
  Options plain = options;
  plain.keypoints = 0;
  plain.background = false;
  HeadRules rules = usual_rules(plain, {1});
  rules.roles[1] = {Role::kBox, {4 * per_cell}, 1, true, 4};
  rules.roles.push_back({Role::kObj, {per_cell}, 1, true, 1});
  rules.fused = {Role::kBox, Role::kObj, Role::kCls};
  auto levels = bind_heads(model, options, rules);
  if (levels.size() != anchors.size()) {
    throw std::invalid_argument(std::to_string(anchors.size()) + " lists of anchors, but these outputs have " +
                                std::to_string(levels.size()) + " strides");
  }
  for (Level& level : levels) {
    level.anchors = per_cell;
    Head& box = level.head(Role::kBox);
    box.channels = 4;
    box.anchor_step = 4 * box.channel_step;
    Head& obj = level.head(Role::kObj);
    obj.channels = 1;
    obj.anchor_step = obj.channel_step;
    level.head(Role::kCls).anchor_step = 0;
  }
  Scores scores(plain, levels.front().head(Role::kCls).channels, false);
  return std::make_unique<Fastestv2>(std::move(levels), std::move(scores), std::move(anchors),
                                     options.scores == ScoreForm::kLogits);
}

}  // namespace camd::plugins
