// Layout `mediapipe`: BlazeFace, BlazePalm and BlazePose (Bazarevsky et al., "BlazeFace", 2019;
// google-ai-edge/mediapipe, ssd_anchors_calculator.cc and tensors_to_detections_calculator.cc). A row is centre and
// size, then keypoints, in network pixels from the cell's centre; a cell's anchors have one formula, and all are of the
// size of the picture:
//   p = (cell + 0.5) * stride   cx = px + d0   w = d2   keypoint x = px + k
#include <optional>
#include <stdexcept>
#include <utility>

#include "plugins/detections/decoder.hpp"

namespace camd::plugins {
namespace {

class Mediapipe final : public Decoder {
 public:
  Mediapipe(std::vector<Level> levels, Scores scores, float offset)
      : Decoder(std::move(levels), std::move(scores)), offset_(offset) {}

  [[nodiscard]] Box box(const TensorSet& tensors, const Candidate& c) const override {
    const Point p = cell_point(c, offset_);
    const Values d = values(tensors, Role::kBox, c);
    const float x = p.x + d[0], y = p.y + d[1];
    return {x - 0.5F * d[2], y - 0.5F * d[3], x + 0.5F * d[2], y + 0.5F * d[3]};
  }

  void keypoints(const TensorSet& tensors, const Candidate& c, Point* points) const override {
    const Point p = cell_point(c, offset_);
    const Values l = values(tensors, Role::kKps, c);
    for (int k = 0; k < keypoint_count(); ++k) points[k] = {p.x + l[2 * k], p.y + l[2 * k + 1]};
  }

  [[nodiscard]] std::optional<Point> origin(const Candidate& c) const override { return cell_point(c, offset_); }

 private:
  float offset_;
};

// The grids of the published models, and how many boxes each cell has.
struct Grid {
  std::vector<int> strides, anchors;
};

const std::vector<Grid>& grids() {
  static const std::vector<Grid> all = {
      {{8, 16}, {2, 6}},         // faces near by (128x128), palms (192x192)
      {{16, 32}, {2, 6}},        // faces of the camera on the back (256x256)
      {{8, 16, 32}, {2, 2, 6}},  // palms of old (256x256), people (224x224)
      {{4}, {1}},                // faces far away (192x192)
  };
  return all;
}

}  // namespace

std::unique_ptr<Decoder> make_mediapipe(const camd_model& model, const Options& options) {
  Options plain = options;
  plain.background = false;
  plain.keypoints = 0;
  HeadRules rules = usual_rules(plain, {1});
  rules.roles[1] = {Role::kBox, {}, 2, true, 4};
  if (options.keypoints) rules.roles[1].channels = {4 + 2 * *options.keypoints};
  if (options.classes.empty()) rules.roles[0].channels = {1};
  std::vector<Level> levels;
  for (const Grid& grid : grids()) {
    if (!options.strides.empty() && options.strides != grid.strides) continue;
    plain.strides = grid.strides;
    rules.anchors = grid.anchors;
    try {
      levels = bind_heads(model, plain, rules);
      break;
    } catch (const std::invalid_argument&) {
      continue;  // another grid
    }
  }
  if (levels.empty()) {
    throw std::invalid_argument(
        "no outputs of MediaPipe's faces, palms or people, wanted [1,N,4+2K] and [1,N,1] with N = 896, 2016, 2254 or "
        "2304; the model's outputs are " +
        describe_outputs(model));
  }
  for (Level& level : levels) {
    Head& box = level.head(Role::kBox);
    Head& kps = level.head(Role::kKps);
    if (box.channels > 4) {
      kps = box;
      kps.channels = box.channels - 4;
      kps.first += 4 * box.channel_step;
    }
    box.channels = 4;
  }
  Scores scores(plain, levels.front().head(Role::kCls).channels, false);
  return std::make_unique<Mediapipe>(std::move(levels), std::move(scores), options.anchor_offset.value_or(0.5F));
}

}  // namespace camd::plugins
