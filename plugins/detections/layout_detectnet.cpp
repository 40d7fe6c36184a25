// Layout `detectnet`: DetectNet_v2 of NVIDIA's TAO (PeopleNet, TrafficCamNet, DashCamNet, FaceDetect). A map of scores
// [1,C,h,w] and one of boxes [1,4C,h,w], four values for each class (NVIDIA-AI-IOT/tao-toolkit-triton-apps,
// tao_triton/python/postprocessing/detectnet_processor.py):
//   point p = cell * stride + 0.5   x0 = px - 35 * d0   y0 = py - 35 * d1   x1 = px + 35 * d2   y1 = py + 35 * d3
// 35 is what boxes were divided by in training, whatever the stride, which is 16.
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "plugins/detections/decoder.hpp"

namespace camd::plugins {
namespace {

class Detectnet final : public Decoder {
 public:
  Detectnet(std::vector<Level> levels, Scores scores) : Decoder(std::move(levels), std::move(scores)) {}

  [[nodiscard]] Box box(const TensorSet& tensors, const Candidate& c) const override {
    constexpr float kNorm = 35.0F, kMiddle = 0.5F;
    const Point p = cell_point(c, 0.0F);
    const Values all = values(tensors, Role::kBox, c);
    const auto d = [&](int side) { return all[4 * c.class_id + side] * kNorm; };
    return {p.x + kMiddle - d(0), p.y + kMiddle - d(1), p.x + kMiddle + d(2), p.y + kMiddle + d(3)};
  }
};

// The two maps as one level; nothing where `cls` and `box` have other shapes.
std::optional<Level> level_of(const camd_model& model, int cls, int box, int stride) {
  if (model.outputs[cls].ndim != 4 || model.outputs[box].ndim != 4) return std::nullopt;
  Level level;
  level.stride = level.step_x = level.step_y = stride;
  level.height = static_cast<int>(model.input.shape[2] / stride);
  level.width = static_cast<int>(model.input.shape[3] / stride);
  const auto scores = head_of_level(model, cls, level), boxes = head_of_level(model, box, level);
  if (!scores || !boxes || boxes->channels != 4 * scores->channels) return std::nullopt;
  level.head(Role::kCls) = *scores;
  level.head(Role::kBox) = *boxes;
  return level;
}

}  // namespace

std::unique_ptr<Decoder> make_detectnet(const camd_model& model, const Options& options) {
  constexpr int kUsualStride = 16;
  if (model.input.ndim != 4) throw std::invalid_argument("the model's input is no picture");
  const auto named = [&](Role role) {
    const auto& names = options.outputs[static_cast<std::size_t>(role)];
    if (names.size() > 1) throw std::invalid_argument("there is one map of scores and one of boxes");
    return names.empty() ? -1 : find_output(model, names.front());
  };
  if (options.strides.size() > 1) throw std::invalid_argument("there is one stride");
  const int cls = named(Role::kCls), box = named(Role::kBox);
  Options without_background = options;
  without_background.background = false;
  for (int i = 0; i < model.output_count; ++i) {
    for (int j = 0; j < model.output_count; ++j) {
      if ((cls >= 0 && i != cls) || (box >= 0 && j != box)) continue;
      auto level = level_of(model, i, j, options.strides.empty() ? kUsualStride : options.strides.front());
      if (!level) continue;
      Scores scores(without_background, level->head(Role::kCls).channels, false);
      return std::make_unique<Detectnet>(std::vector<Level>{*level}, std::move(scores));
    }
  }
  throw std::invalid_argument(
      "no map of scores [1,C,h,w] beside one of boxes [1,4C,h,w] with a cell for 16x16 pixels of the input (set "
      "strides: [S] for SxS); the model's outputs are " +
      describe_outputs(model));
}

}  // namespace camd::plugins
