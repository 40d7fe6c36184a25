// Layout `yunet` (Wu et al., "YuNet: A Tiny Millisecond-level Face Detector", 2023; ShiqiYu/libfacedetection.train):
//   score = sqrt(cls * obj)   cx = (column + offset + d0) * stride   w = exp(d2) * stride
//   keypoint x = (column + offset + k) * stride
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "plugins/detections/decoder.hpp"

namespace camd::plugins {
namespace {

class Yunet final : public Decoder {
 public:
  Yunet(std::vector<Level> levels, Scores scores, float offset)
      : Decoder(std::move(levels), std::move(scores)),
        offset_(offset),
        // obj <= 1, so a class value below the square of the threshold cannot pass.
        floor_(scores_.raw_floor(scores_.lowest() * scores_.lowest())) {}

  [[nodiscard]] std::optional<First> looks_first() const override { return First{Role::kCls, floor_}; }

  void scan(const TensorSet& tensors, Candidates& candidates) override {
    for (std::size_t l = 0; l < levels_.size(); ++l) {
      const Level& level = levels_[l];
      const Head& cls = level.head(Role::kCls);
      const Head& obj = level.head(Role::kObj);
      const float* objects = tensors.data(obj.output);
      for (int k = 0; k < scores_.classes(); ++k) {
        const float* run = tensors.data(cls.output) + cls.first + k * cls.channel_step;
        Scores::scan_cells(
            tensors, level, static_cast<int>(l), 0, run, cls.cell_step, floor_, [&](std::int64_t cell, float raw) {
              const float object = objects[obj.at(cell, 0)];
              const float score = std::sqrt(unit(scores_.probability(raw)) * unit(scores_.probability(object)));
              if (!scores_.passes(score, k)) return;
              candidates.push({score, k, static_cast<std::int32_t>(l), 0, static_cast<std::int32_t>(cell)});
            });
      }
    }
  }

  [[nodiscard]] Box box(const TensorSet& tensors, const Candidate& c) const override {
    const GridCell at = cell_of(c);
    const auto stride = static_cast<float>(at.level.stride);
    const Values d = values(tensors, Role::kBox, c);
    const float x = (at.column + offset_ + d[0]) * stride, y = (at.row + offset_ + d[1]) * stride;
    const float half_width = 0.5F * bounded_exp(d[2]) * stride, half_height = 0.5F * bounded_exp(d[3]) * stride;
    return {x - half_width, y - half_height, x + half_width, y + half_height};
  }

  void keypoints(const TensorSet& tensors, const Candidate& c, Point* points) const override {
    cell_keypoints(tensors, c, offset_, points);
  }

  [[nodiscard]] std::optional<Point> origin(const Candidate& c) const override { return cell_point(c, offset_); }

 private:
  // The network's probabilities clamped as its own decoder does; NaN stays NaN and inf becomes it.
  static float unit(float p) noexcept { return std::isfinite(p) ? std::clamp(p, 0.0F, 1.0F) : std::nanf(""); }

  float offset_;
  float floor_;  // in raw values
};

}  // namespace

std::unique_ptr<Decoder> make_yunet(const camd_model& model, const Options& options) {
  HeadRules rules = usual_rules(options, {1});
  rules.roles.push_back({Role::kObj, {1}, 1, true, 1});
  // Without class names there is one class: anything else could be taken for another role.
  if (options.classes.empty()) rules.roles.front().channels = {1};
  auto levels = bind_heads(model, options, rules);
  Scores scores(options, levels.front().head(Role::kCls).channels, false);
  return std::make_unique<Yunet>(std::move(levels), std::move(scores), options.anchor_offset.value_or(0.0F));
}

}  // namespace camd::plugins
