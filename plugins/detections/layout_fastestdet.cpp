// Layout `fastestdet` (dog-qiuqiu/FastestDet, utils/tool.py: handle_preds):
//   score = obj^0.6 * (best class)^0.4
//   cx = (column + tanh(d0)) * stride   w = sigmoid(d2) * input width
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "plugins/detections/decoder.hpp"

namespace camd::plugins {
namespace {

class FastestDet final : public Decoder {
 public:
  FastestDet(std::vector<Level> levels, Scores scores, bool logits)
      : Decoder(std::move(levels), std::move(scores)), logits_(logits) {}

  // A class is at most 1, so obj^0.6 alone must reach the threshold.
  [[nodiscard]] std::optional<First> looks_first() const override {
    return First{Role::kObj, scores_.raw_floor(std::pow(scores_.lowest(), 1.0F / 0.6F) * 0.9999F)};
  }

  void scan(const TensorSet& tensors, Candidates& candidates) override {
    scan_best_class(tensors, looks_first()->floor, candidates,
                    [this](float objectness, const float* values, std::int64_t step, const Scores::Best& best) {
                      return std::pow(scores_.probability(objectness), 0.6F) *
                             std::pow(probability(values, step, best), 0.4F);
                    });
  }

  [[nodiscard]] Box box(const TensorSet& tensors, const Candidate& c) const override {
    const GridCell at = cell_of(c);
    const auto stride = static_cast<float>(at.level.stride);
    const Values d = values(tensors, Role::kBox, c);
    const float x = (at.column + std::tanh(d[0])) * stride, y = (at.row + std::tanh(d[1])) * stride;
    const float half_width = 0.5F * sigmoid(d[2]) * static_cast<float>(at.level.width) * stride;
    const float half_height = 0.5F * sigmoid(d[3]) * static_cast<float>(at.level.height) * stride;
    return {x - half_width, y - half_height, x + half_width, y + half_height};
  }

 private:
  // Of the best class. The classes of logits share one softmax.
  [[nodiscard]] float probability(const float* values, std::int64_t step, const Scores::Best& best) const noexcept {
    return logits_ ? scores_.softmax_of_best(values, step, best) : scores_.probability(best.raw);
  }

  bool logits_;
};

}  // namespace

std::unique_ptr<Decoder> make_fastestdet(const camd_model& model, const Options& options) {
  Options without_keypoints = options;
  without_keypoints.keypoints = 0;
  without_keypoints.background = false;
  HeadRules rules = usual_rules(without_keypoints, {1});
  rules.roles.push_back({Role::kObj, {1}, 1, true, 1});
  rules.fused = {Role::kObj, Role::kBox, Role::kCls};
  auto levels = bind_heads(model, options, rules);
  if (levels.size() != 1 && options.strides.empty()) {
    throw std::invalid_argument("FastestDet has one stride, these outputs have " + std::to_string(levels.size()));
  }
  Scores scores(without_keypoints, levels.front().head(Role::kCls).channels, false);
  return std::make_unique<FastestDet>(std::move(levels), std::move(scores), options.scores == ScoreForm::kLogits);
}

}  // namespace camd::plugins
