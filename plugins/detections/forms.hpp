// The ways to read outputs that published detectors have.
//
// Threads: [any].
// Invariants: texts are literals.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "plugins/detections/options.hpp"

namespace camd::plugins {

inline constexpr const char* kUnitInput = "color: rgb, scale: 0.00392157";  // bytes as numbers from 0 to 1
inline constexpr const char* kStretchedInput = "color: rgb, scale: 0.00392157, resize: stretch";
inline constexpr const char* kTopLeftBytes = "color: bgr, scale: 1, position: top_left";
inline constexpr const char* kRtmdetInput =
    "color: bgr, mean: [103.53, 116.28, 123.675], scale: [0.0174292, 0.0175070, 0.0171248], position: top_left";
inline constexpr const char* kEfficientdetInput =
    "color: rgb, mean: [123.675, 116.28, 103.53], scale: [0.0171248, 0.0175070, 0.0174292], position: top_left";

// A way to read outputs that published detectors have.
struct Form {
  Layout layout;
  const char* of = "";    // whose outputs look so
  const char* keys = "";  // beside `layout`, as a user writes them
  BoxForm boxes = BoxForm::kCorners;
  std::optional<bool> relative{};
  bool decoded = false;
  std::optional<int> anchors_per_cell{};
  std::optional<float> anchor_offset{};
  std::optional<int> keypoints{};
  std::vector<RowValue> row{};
  const char* input = kUnitInput;  // how such detectors are fed
  const char* name = "";           // of known_layouts(), which then says all the rest
  bool oriented = false;           // an angle behind the classes
  bool maps = false;  // each stride has one map with all values of its cells, which the graph has not decoded
  bool told = false;  // only where names tell whose it is: shapes and values are those of other projects as well

  [[nodiscard]] bool has(RowValue value) const { return std::find(row.begin(), row.end(), value) != row.end(); }
  // Rows that few graphs write, as COCO's boxes or centres in pixels. Corners would mostly do as such as well.
  [[nodiscard]] bool has_rare_size() const {
    return has(RowValue::kWidth) && !turned() && (has(RowValue::kX0) || !relative.value_or(false));
  }
  [[nodiscard]] bool has_score_last() const { return row.size() == 6 && row.back() == RowValue::kScore; }
  [[nodiscard]] bool has_no_class() const { return !row.empty() && !has(RowValue::kClass); }
  // Boxes that are turned.
  [[nodiscard]] bool turned() const { return oriented || has(RowValue::kAngle); }
};

// LibreYOLO's FOMO, which leaves the softmax to others; Edge Impulse's, which does not, takes 0 to 1.
inline constexpr const char* kFomoLogitsInput =
    "color: rgb, mean: [127.5, 127.5, 127.5], scale: 0.00784314, resize: stretch";
inline constexpr const char* kOdtkRetinanet = "odtk-retinanet";
// Its shapes are EfficientDet's, and no value tells them apart: the names of its outputs do.
inline constexpr const char* kKerascvRetinanet = "kerascv-retinanet";
// Of layout `nanodet`, whose they are.
inline constexpr const char* kNanodet = "NanoDet";
inline constexpr const char* kNanodetPlus = "NanoDet-Plus";
inline constexpr const char* kPicodet = "heads of PicoDet";
inline constexpr const char* kYolov8Heads = "heads of YOLOv8 to 12";
inline constexpr const char* kGfl = "heads of MMDetection's GFL";

// Decoded as YOLOX', with an objectness that is 1 everywhere.
inline constexpr const char* kYolov6 = "yolov6";
// Of the shapes of RTMDet's heads: the names of weights tell.
inline constexpr const char* kMmyoloHeads = "mmyolo-heads";
inline constexpr const char* kSuperGradients = "boxes that SuperGradients' graph has chosen";
// Lists of the same shapes.
inline constexpr const char* kRetinaface = "RetinaFace and its kind";
inline constexpr const char* kScrfd = "SCRFD";
inline constexpr const char* kPinto = "boxes that PINTO_model_zoo's graph has chosen";
inline constexpr const char* kAutoml = "boxes that the graph of google/automl's EfficientDet has chosen";
// Rows whose key points have a tensor beside them.
inline constexpr const char* kRtmo = "rtmo";
inline constexpr const char* kYunet2021 = "yunet-2021";
inline constexpr const char* kInsightface = "insightface-retinaface";
// PyTorch's RetinaFaces, which put out one list of all strides.
inline constexpr const char* kRetinafaceListInput = "color: bgr, mean: [104, 117, 123], scale: 1";

// Facebook's DETR and what came of it: trained on pixels that are scaled as ImageNet's.
inline constexpr const char* kImagenetInput =
    "color: rgb, mean: [123.675, 116.28, 103.53], scale: [0.0171248, 0.0175070, 0.0174292], resize: stretch";

// All of them, the likelier one of two first.
[[nodiscard]] const std::vector<Form>& forms();

}  // namespace camd::plugins
