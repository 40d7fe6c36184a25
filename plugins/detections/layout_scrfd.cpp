// Layout `scrfd`: distances from the cell's point to the four sides, in strides (Guo et al., "Sample and Computation
// Redistribution for Efficient Face Detection", 2021; deepinsight/insightface, detection/scrfd):
//   point p = (cell + offset) * stride   x0 = px - d0 * stride   x1 = px + d2 * stride   keypoint x = px + k * stride
// With `decoded: true` the distances are in network pixels, as RTMDet's heads give them. With `centerness` a score is
// cls * obj or its root (Tian et al., "FCOS: Fully Convolutional One-Stage Object Detection", 2019).
#include <optional>
#include <utility>

#include "plugins/detections/decoder.hpp"

namespace camd::plugins {
namespace {

class Scrfd final : public Decoder {
 public:
  Scrfd(std::vector<Level> levels, Scores scores, const Options& options)
      : Decoder(std::move(levels), std::move(scores)),
        offset_(options.anchor_offset.value_or(0.0F)),
        decoded_(options.decoded) {
    weigh_by(options.centerness);
  }

  [[nodiscard]] Box box(const TensorSet& tensors, const Candidate& c) const override {
    const Point p = cell_point(c, offset_);
    const Values d = values(tensors, Role::kBox, c);
    const float unit = decoded_ ? 1.0F : static_cast<float>(levels_[static_cast<std::size_t>(c.level)].stride);
    return {p.x - d[0] * unit, p.y - d[1] * unit, p.x + d[2] * unit, p.y + d[3] * unit};
  }

  void keypoints(const TensorSet& tensors, const Candidate& c, Point* points) const override {
    cell_keypoints(tensors, c, offset_, points);
  }

  [[nodiscard]] std::optional<Point> origin(const Candidate& c) const override { return cell_point(c, offset_); }

 private:
  float offset_;
  bool decoded_;
};

}  // namespace

std::unique_ptr<Decoder> make_scrfd(const camd_model& model, const Options& options) {
  // Two anchors per cell (differing in what they were trained for, not in their formula) in every published model.
  Options no_background = options;
  no_background.background = false;
  auto levels = bind_heads(model, options, usual_rules(no_background, {options.anchors_per_cell.value_or(2)}));
  Scores scores(no_background, levels.front().head(Role::kCls).channels, false);
  return std::make_unique<Scrfd>(std::move(levels), std::move(scores), no_background);
}

}  // namespace camd::plugins
