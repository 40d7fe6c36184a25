// Layout `fastestdet` (dog-qiuqiu/FastestDet, utils/tool.py: handle_preds):
//   score = obj^0.6 * (best class)^0.4
//   cx = (column + tanh(d0)) * stride   w = sigmoid(d2) * input width
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "plugins/detections/decoder.hpp"

namespace camd::plugins {
namespace {

class FastestDet final : public Decoder {
 public:
  FastestDet(std::vector<Level> levels, Scores scores, bool logits)
      : Decoder(std::move(levels), std::move(scores)), logits_(logits) {
    // A class is at most 1, so obj^0.6 alone must reach the threshold.
    const float least = std::pow(scores_.lowest(), 1.0F / 0.6F) * 0.9999F;
    floor_ = logits_ ? std::log(least / (1.0F - least)) : least;
  }

  void scan(const TensorSet& tensors, Candidates& candidates) override {
    for (std::size_t l = 0; l < levels_.size(); ++l) {
      const Level& level = levels_[l];
      const Head& obj = level.head(Role::kObj);
      const Head& cls = level.head(Role::kCls);
      const float* classes = tensors.data(cls.output);
      Scores::scan_run(tensors.data(obj.output) + obj.first, level.cells(), obj.cell_step, floor_,
                       [&](std::int64_t cell, float object) {
                         const float* of_cell = classes + cls.at(cell, 0);
                         int best = 0;
                         for (int k = 1; k < scores_.classes(); ++k) {
                           if (of_cell[k * cls.channel_step] > of_cell[best * cls.channel_step]) best = k;
                         }
                         const float p = probability(of_cell, best, cls.channel_step);
                         const float score = std::pow(logits_ ? sigmoid(object) : object, 0.6F) * std::pow(p, 0.4F);
                         if (!scores_.passes(score, best)) return;
                         candidates.push({score < 1.0F ? score : 1.0F, best, static_cast<std::int32_t>(l), 0,
                                          static_cast<std::int32_t>(cell)});
                       });
    }
  }

  [[nodiscard]] Box box(const TensorSet& tensors, const Candidate& c) const override {
    const Place at = place(c);
    const auto stride = static_cast<float>(at.level.stride);
    const Values d = values(tensors, Role::kBox, c);
    const float x = (at.column + std::tanh(d[0])) * stride, y = (at.row + std::tanh(d[1])) * stride;
    const float half_width = 0.5F * sigmoid(d[2]) * static_cast<float>(at.level.width) * stride;
    const float half_height = 0.5F * sigmoid(d[3]) * static_cast<float>(at.level.height) * stride;
    return {x - half_width, y - half_height, x + half_width, y + half_height};
  }

 private:
  [[nodiscard]] float probability(const float* of_cell, int best, std::int64_t step) const noexcept {
    const float raw = of_cell[best * step];
    if (!logits_) return raw;
    float sum = 0.0F;  // softmax with the largest value taken out
    for (int k = 0; k < scores_.classes(); ++k) sum += std::exp(of_cell[k * step] - raw);
    return 1.0F / sum;
  }

  bool logits_;
  float floor_ = 0.0F;
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
  return std::make_unique<FastestDet>(std::move(levels), std::move(scores), options.logits);
}

}  // namespace camd::plugins
