// Layout `nanodet`: each side's distance is the mean of a distribution over bins (Li et al., "Generalized Focal Loss",
// 2020, eq. 4; RangiLyu/nanodet, model/head/gfl_head.py):
//   point p = (cell + offset) * stride   distance = stride * sum_i i * softmax(bins)_i   x0 = px - left, x1 = px +
//   right
// offset is 0.5 for NanoDet and 0 for NanoDet-Plus (nanodet_plus_head.py). Where bins and classes share a tensor, the
// classes stand first, or with `boxes_first` the bins, as in YOLOv8's. There key points may follow, with three values
// each (ultralytics/ultralytics, nn/modules/head.py, Pose): x = (2 * k + cell) * stride.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "plugins/detections/decoder.hpp"

namespace camd::plugins {
namespace {

constexpr int kPointValues = 3;  // x, y and a visibility

class Nanodet final : public Decoder {
 public:
  Nanodet(std::vector<Level> levels, Scores scores, float offset)
      : Decoder(std::move(levels), std::move(scores)), offset_(offset) {
    const Head& kps = levels_.front().head(Role::kKps);
    if (kps.bound()) keypoint_count_ = kps.channels / kPointValues;
  }

  [[nodiscard]] Box box(const TensorSet& tensors, const Candidate& c) const override {
    const GridCell at = cell_of(c);
    const auto stride = static_cast<float>(at.level.stride);
    const float x = (at.column + offset_) * stride, y = (at.row + offset_) * stride;
    const Values d = values(tensors, Role::kBox, c);
    const int bins = at.level.head(Role::kBox).channels / 4;
    const auto distance = [&](int side) {
      float highest = d[side * bins];
      for (int i = 1; i < bins; ++i) highest = std::max(highest, d[side * bins + i]);
      float sum = 0.0F, weighted = 0.0F;
      for (int i = 0; i < bins; ++i) {
        const float weight = std::exp(d[side * bins + i] - highest);
        sum += weight;
        weighted += static_cast<float>(i) * weight;
      }
      return stride * weighted / sum;
    };
    return {x - distance(0), y - distance(1), x + distance(2), y + distance(3)};
  }

  void keypoints(const TensorSet& tensors, const Candidate& c, Point* points) const override {
    const GridCell at = cell_of(c);
    const auto stride = static_cast<float>(at.level.stride);
    const Values l = values(tensors, Role::kKps, c);
    for (int k = 0; k < keypoint_count(); ++k) {
      const int first = kPointValues * k;
      points[k] = {(2.0F * l[first] + at.column) * stride, (2.0F * l[first + 1] + at.row) * stride};
    }
  }

 private:
  float offset_;
};

}  // namespace

std::unique_ptr<Decoder> make_nanodet(const camd_model& model, const Options& options) {
  Options without_keypoints = options;
  without_keypoints.keypoints = 0;
  without_keypoints.background = false;
  HeadRules rules = usual_rules(without_keypoints, {1});
  // Four times the number of bins, two at least. One tensor does not tell where its classes end: without `classes`
  // there are eight bins, as in NanoDet-m and NanoDet-Plus (reg_max: 7). YOLOv8 has sixteen, GFL seventeen.
  rules.roles[1] = {Role::kBox, {}, 4, true, 8, {32, 64, 68}};
  rules.roles[0].most = true;              // Rockchip's exports of YOLOv8 have the classes' sum beside them
  rules.fused = {Role::kCls, Role::kBox};  // NanoDet-Plus
  if (options.boxes_first) {
    rules.fused = {Role::kBox, Role::kCls};
    rules.roles[1].usual = {64};
    if (const int points = options.keypoints.value_or(0); points > 0) {
      rules.fused.push_back(Role::kKps);
      rules.roles.push_back({Role::kKps, {kPointValues * points}, 1, true, 1});
      if (options.classes.empty()) rules.roles[0].channels = {1};
    }
  }
  auto levels = bind_heads(model, options, rules);
  const Head &box = levels.front().head(Role::kBox), &cls = levels.front().head(Role::kCls);
  const bool in_maps = levels.size() > 2 && model.outputs[box.output].ndim == 4 && box.output == cls.output;
  if (options.boxes_first && !in_maps) {
    throw std::invalid_argument("`boxes_first` is for a map [1,k,h,w] of each of three strides or more, not for " +
                                describe_output(model, box.output));
  }
  Scores scores(without_keypoints, levels.front().head(Role::kCls).channels, false);
  return std::make_unique<Nanodet>(std::move(levels), std::move(scores), options.anchor_offset.value_or(0.5F));
}

}  // namespace camd::plugins
