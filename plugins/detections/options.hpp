// What the `detections` plug-in is told: the model card's values, overridden by the configuration's.
//
// Threads: plain values, [setup].
// Invariants: after read_options() every value is in range; what depends on the model's shapes is checked in heads.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/camd_plugin.hpp"

namespace camd::plugins {

enum class Layout : std::uint8_t { kAnchors, kScrfd, kYunet, kSsd, kYolox, kNanodet, kFastestdet };

[[nodiscard]] std::string_view to_string(Layout layout) noexcept;
[[nodiscard]] const std::vector<std::string>& layout_names();
[[nodiscard]] Layout parse_layout(std::string_view name) noexcept;  // `name` is one of layout_names()

// What one value of an output tensor says.
enum class Role : std::uint8_t { kCls, kObj, kBox, kKps };
inline constexpr std::size_t kRoleCount = 4;
[[nodiscard]] std::string_view to_string(Role role) noexcept;  // the key in `outputs:`

// How `ssd` boxes are written.
enum class BoxForm : std::uint8_t { kCorners, kCornersYx, kCentre, kPriors };

// What a score's value is. kLogits: camd takes the sigmoid, or the softmax where there is a background.
enum class ScoreForm : std::uint8_t { kProbability, kPercent, kLogits };
[[nodiscard]] std::string_view to_string(ScoreForm form) noexcept;  // the word of `scores:`

struct AnchorSize {
  float width = 0.0F;  // network pixels
  float height = 0.0F;
};

struct Options {
  std::optional<Layout> layout;
  float score = 0.5F;
  std::vector<std::pair<std::string, float>> class_scores;  // per class, over `score`
  float nms = 0.4F;    // boxes of one class that overlap by more (intersection over union) are one object
  float blend = 1.0F;  // those that overlap a kept one by more than this are averaged into it; 1: none
  int max = 100;       // detections a frame
  std::vector<std::string> classes;
  std::vector<int> strides;                      // empty: found from the outputs' shapes
  std::vector<std::vector<AnchorSize>> anchors;  // one list per stride
  std::optional<int> anchors_per_cell;           // scrfd
  std::optional<float> anchor_offset;            // anchor centre = (cell + offset) * stride + shift
  float anchor_shift = 0.0F;                     // network pixels
  std::optional<std::array<float, 2>> variances;
  std::optional<int> keypoints;
  ScoreForm scores = ScoreForm::kProbability;
  std::optional<bool> background;     // the first class is the background; unset: seen from the class count
  BoxForm boxes = BoxForm::kCorners;  // ssd
  std::optional<bool> relative;       // ssd: boxes in 0..1 of the input rather than network pixels
  bool decoded = false;               // yolox: boxes are network pixels already
  std::array<std::vector<std::string>, kRoleCount> outputs;  // by role: one name, or one per stride
};

// Reads `config_json` over `card_json`. Throws std::invalid_argument with everything that is wrong. Unknown keys are
// errors in the configuration; the card is shared with others and may hold more.
[[nodiscard]] Options read_options(std::string_view card_json, std::string_view config_json);
// Tells what is wrong in the configuration alone; the model and its card are not looked at.
void check_options(const camd::plugin::Check& check);

}  // namespace camd::plugins
