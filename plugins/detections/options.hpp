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

enum class Layout : std::uint8_t {
  kAnchors,
  kScrfd,
  kYunet,
  kSsd,
  kYolox,
  kNanodet,
  kFastestdet,
  kFastestv2,
  kYoloHeads,
  kCenternet,
  kCenterface,
  kDetectnet,
  kFomo,
  kMediapipe,
  kRows
};

[[nodiscard]] std::string_view to_string(Layout layout) noexcept;
[[nodiscard]] const std::vector<std::string>& layout_kinds();       // "anchors", ...
[[nodiscard]] const std::vector<std::string>& layout_names();       // these, and the names of known_layouts()
[[nodiscard]] Layout parse_layout(std::string_view name) noexcept;  // `name` is one of layout_kinds()

// What one value of an output tensor says.
enum class Role : std::uint8_t { kCls, kObj, kBox, kKps, kOffset, kAngle };
inline constexpr std::size_t kRoleCount = 6;
[[nodiscard]] std::string_view to_string(Role role) noexcept;  // the key in `outputs:`

// What one value of a row of layout `rows` is.
enum class RowValue : std::uint8_t {
  kX0,
  kY0,
  kX1,
  kY1,
  kCentreX,
  kCentreY,
  kWidth,
  kHeight,
  kScore,
  kClass,
  kAngle,
  kSkip
};

// Names that people know detectors by, and the keys that each stands for, as JSON.
struct KnownLayout {
  std::string_view name;
  std::string keys;
};
[[nodiscard]] const std::vector<KnownLayout>& known_layouts();

// How `ssd` boxes are written. kPriors, and kPriorsYx with y before x: relative to anchors, as in layout `anchors`.
// kCornerAndSize: of `row` alone, as COCO writes boxes.
enum class BoxForm : std::uint8_t { kCorners, kCornersYx, kCentre, kPriors, kPriorsYx, kCornerAndSize };

// What a score's value is. kLogits: camd takes the sigmoid, or the softmax where there is a background.
enum class ScoreForm : std::uint8_t { kProbability, kPercent, kLogits };
[[nodiscard]] std::string_view to_string(ScoreForm form) noexcept;  // the word of `scores:`

// How a score counts where each box has a centre-ness beside its scores (Tian et al., "FCOS", 2019): times it, or as
// the root of that.
enum class Centerness : std::uint8_t { kNone, kProduct, kRoot };

// How layout `yolo-heads` writes the sides of a box: e^d, or (2 * sigmoid(d))^2, times the anchor's.
enum class SizeForm : std::uint8_t { kExp, kSquare };

struct AnchorSize {
  float width = 0.0F;  // network pixels
  float height = 0.0F;
};

struct Options {
  std::optional<Layout> layout;
  std::string known;  // the name of known_layouts() that `layout` was written as; empty: a layout's own
  float score = 0.5F;
  std::vector<std::pair<std::string, float>> class_scores;  // per class, over `score`
  // Boxes of one class that overlap by more (intersection over union) are one object. Unset: 0.4, or 1 where the graph
  // has chosen the boxes.
  std::optional<float> nms;
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
  bool background_last = false;       // it is the last one instead
  std::vector<RowValue> row;          // rows: what the values of a row are; empty: x0, y0, x1, y1, score, class
  BoxForm boxes = BoxForm::kCorners;  // ssd
  std::optional<bool> relative;       // ssd: boxes in 0..1 of the input rather than network pixels
  bool decoded = false;               // yolox: boxes are network pixels already; scrfd: distances are
  bool clip_anchors = false;          // anchors: what of them lies outside the picture is cut off
  bool fitted_strides = false;      // anchors, scrfd: a cell is the picture's side over the cells' count, rounded down
  std::optional<float> size_limit;  // anchors: no box is more than so many times its anchor
  Centerness centerness = Centerness::kNone;  // anchors, scrfd: role obj
  std::vector<float> scale_xy;      // yolo-heads: how far centres reach, in cells; one, or one per stride. Empty: 1
  SizeForm sizes = SizeForm::kExp;  // yolo-heads
  bool softmax = false;             // yolo-heads: the classes of a box share a softmax
  bool boxes_first = false;         // nanodet: the bins stand before the classes where both share a tensor
  bool oriented = false;            // ssd: an angle behind the classes of each row
  std::array<std::vector<std::string>, kRoleCount> outputs;  // by role: one name, or one per stride
};

// Reads what the detector's name stands for over `options`. `name` is one of known_layouts().
void apply_known_layout(std::string_view name, Options& options);

// Reads `config_json` over `card_json`. Throws std::invalid_argument with everything that is wrong. Unknown keys are
// errors in the configuration; the card is shared with others and may hold more.
[[nodiscard]] Options read_options(std::string_view card_json, std::string_view config_json);
// Tells what is wrong in the configuration alone; the model and its card are not looked at.
void check_options(const camd::plugin::Check& check);

}  // namespace camd::plugins
