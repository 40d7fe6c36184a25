// The parts of a network as the projects' own code calls them.
#include "plugins/detections/projects.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace camd::plugins {
namespace {

// All `parts` are found in names, and `without` in none.
struct Sign {
  std::string_view layout;
  std::vector<std::string_view> parts;
  std::string_view without{};
};

const std::vector<Sign>& signs() {
  static const std::vector<Sign> kSigns = {
      // rwightman/efficientdet-pytorch and google/automl; zylo117/Yet-Another-EfficientDet-Pytorch
      {"efficientdet", {"class_net", "box_net"}},
      {"efficientdet", {"class-predict", "box-predict"}},
      {"efficientdet", {"classifier.header", "regressor.header"}},
      // pytorch/vision: modules, and keys of what its head returns
      {"torchvision-retinanet", {"classification_head.cls_logits", "regression_head.bbox_reg"}, "bbox_ctrness"},
      {"torchvision-retinanet", {"cls_logits", "bbox_regression"}, "bbox_ctrness"},
      {"torchvision-fcos", {"cls_logits", "bbox_reg", "bbox_ctrness"}},
      // open-mmlab/mmdetection, models/dense_heads
      {"mmdet-retinanet", {"retina_cls", "retina_reg"}},
      {"mmdet-atss", {"atss_cls", "atss_reg", "atss_centerness"}},
      {"gfl", {"bbox_head.gfl_cls", "bbox_head.gfl_reg"}},
      {"mmdet-fcos", {"conv_cls", "conv_reg", "conv_centerness"}},
      // open-mmlab/mmyolo, models/dense_heads
      {"mmyolo-heads", {"head_module.cls_preds", "head_module.reg_preds"}},
      // facebookresearch/detectron2: modules, and how its code calls the outputs
      {"detectron2-retinanet", {"cls_subnet", "bbox_subnet"}, "ctrness"},
      {"detectron2-retinanet", {"pred_logits", "pred_anchor_deltas"}},
      // ultralytics/yolov5 and WongKinYiu/yolov7: the last layer's number and its convolutions. YOLOv7-tiny has
      // YOLOv5's anchors.
      {"yolov5-heads", {"model.24.m.0.weight"}},
      {"yolov5-heads", {"model.24.m.0.Conv"}},
      {"yolov5-heads", {"model.77.m.0.weight"}},
      {"yolov5-heads", {"model.77.m.0.Conv"}},
      {"yolov5-p6-heads", {"model.33.m.0.weight"}},
      {"yolov5-p6-heads", {"model.33.m.0.Conv"}},
      {"yolov7-heads", {"model.105.m.0.weight"}},
      {"yolov7-heads", {"model.105.m.0.Conv"}},
      // ultralytics/ultralytics: boxes and classes of the first stride
      {"yolov8-heads", {".cv2.0.2.", ".cv3.0.2."}},
      // yhenon/pytorch-retinanet
      {"yhenon-retinanet", {"classificationModel", "regressionModel"}},
  };
  return kSigns;
}

}  // namespace

std::string_view layout_by_names(std::span<const std::string> names) {
  // PyTorch calls a node "/head/cls_logits/Conv" and a weight "head.cls_logits.weight".
  std::vector<std::string> dotted(names.begin(), names.end());
  for (std::string& name : dotted) std::replace(name.begin(), name.end(), '/', '.');
  const auto found = [&](std::string_view part) {
    return std::any_of(dotted.begin(), dotted.end(),
                       [&](const std::string& name) { return name.find(part) != std::string::npos; });
  };
  std::string_view layout;
  for (const Sign& sign : signs()) {
    if (!std::all_of(sign.parts.begin(), sign.parts.end(), found)) continue;
    if (!sign.without.empty() && found(sign.without)) continue;
    if (!layout.empty() && layout != sign.layout) return {};
    layout = sign.layout;
  }
  return layout;
}

}  // namespace camd::plugins
