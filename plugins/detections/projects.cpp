// The parts of a network as the projects' own code calls them.
#include "plugins/detections/projects.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "plugins/detections/forms.hpp"

namespace camd::plugins {
namespace {

// All `parts` are found in names, and `without` in none.
struct Sign {
  std::string_view tells;  // a layout, or how a picture is fed
  std::vector<std::string_view> parts;
  std::string_view without{};
};

const std::vector<Sign>& signs() {
  static const std::vector<Sign> kSigns = {
      // rwightman/efficientdet-pytorch and google/automl; zylo117/Yet-Another-EfficientDet-Pytorch
      {"efficientdet", {"class_net", "box_net"}},
      {"efficientdet", {"class-predict", "box-predict"}},
      {"efficientdet", {"classifier.header", "regressor.header"}, "segmentation_head"},  // HybridNets has other anchors
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
      // open-mmlab/mmyolo's YOLOv5 and YOLOv7, whose W6 has the anchors of YOLOv5's P6; open-mmlab/mmdetection's YOLOv3
      {"yolov5-heads", {"head_module.convs_pred.0.weight"}, "head_module.convs_pred.3."},
      {"yolov5-heads", {"head_module.convs_pred.0.Conv"}, "head_module.convs_pred.3."},
      {"yolov5-p6-heads", {"head_module.convs_pred.0.weight", "head_module.convs_pred.3."}},
      {"yolov5-p6-heads", {"head_module.convs_pred.0.Conv", "head_module.convs_pred.3."}},
      {"yolov5-p6-heads", {"head_module.main_convs_pred.3."}},
      {"yolov7-heads", {"head_module.convs_pred.0.1.weight"}},
      {"yolov7-heads", {"head_module.convs_pred.0.convs_pred.0.1.Conv"}},
      {"yolov3-heads", {"bbox_head.convs_pred.0.weight"}},
      {"yolov3-heads", {"bbox_head.convs_pred.0.Conv"}},
      // ultralytics/ultralytics: boxes and classes of the first stride
      {"yolov8-heads", {".cv2.0.2.", ".cv3.0.2."}},
      // yhenon/pytorch-retinanet
      {"yhenon-retinanet", {"classificationModel", "regressionModel"}},
  };
  return kSigns;
}

// MMDetection 3 and MMYOLO (data_preprocessor in their configurations), SuperGradients' YOLOX
// (training/processing/processing.py), DAMO-YOLO as modelscope feeds it (preprocessors/image.py). DETRs of Hugging Face
// (models/*/image_processing_*.py) are fed as ImageNet's pictures are, and so are those of the authors. RT-DETR and
// what came of it, which is fed otherwise, has none of these parts.
const std::vector<Sign>& inputs() {
  static const std::vector<Sign> kInputs = {
      {kRtmdetInput, {".rtm_cls"}},
      {kEfficientdetInput, {"bbox_head.retina_cls"}},
      {kEfficientdetInput, {"bbox_head.atss_cls"}},
      {kEfficientdetInput, {"bbox_head.gfl_cls"}},
      {kTopLeftBytes, {"bbox_head.multi_level_conv_cls"}},
      {"color: rgb, scale: 0.00392157, position: top_left", {"bbox_head.convs_pred"}},
      {"color: rgb, mean: [123.675, 116.28, 103.53], scale: 1, resize: stretch", {"bbox_head.cls_convs.5.0.weight"}},
      {kUnitInput, {"head_module.cls_preds"}, "head_module.cls_stems"},
      {kStretchedInput, {"head_module.cls_preds", "head_module.cls_stems"}},  // PP-YOLOE
      {kTopLeftBytes, {"_head._modules_list", "cls_preds", "obj_preds"}},
      {kImagenetInput, {"class_labels_classifier"}},                                   // DETR, Conditional DETR
      {kImagenetInput, {"encoder.layers.0.self_attn.sampling_offsets"}, "bbox_head"},  // Deformable DETR
      {kImagenetInput, {"ref_anchor_head"}},                                           // DAB-DETR
      {kImagenetInput, {"backbone.dinov3."}},                                          // DEIMv2 beside its smallest
      {kImagenetInput, {"conv_encoder.backbone.embeddings.register_tokens"}},          // the same by Hugging Face
      {kImagenetInput, {"enc_out_class_embed"}},                                       // RF-DETR, LW-DETR
      {"color: rgb, scale: 1, position: top_left, pad: 0", {"gfl_cls.0.", "gfl_reg.0."}, "bbox_head"},
  };
  return kInputs;
}

// Of the sign that the names have; empty where they have none, or those of two things.
std::string_view told_by(const std::vector<Sign>& all, std::span<const std::string> names) {
  // PyTorch calls a node "/head/cls_logits/Conv" and a weight "head.cls_logits.weight".
  std::vector<std::string> dotted(names.begin(), names.end());
  for (std::string& name : dotted) std::replace(name.begin(), name.end(), '/', '.');
  const auto found = [&](std::string_view part) {
    return std::any_of(dotted.begin(), dotted.end(),
                       [&](const std::string& name) { return name.find(part) != std::string::npos; });
  };
  std::string_view told;
  for (const Sign& sign : all) {
    if (!std::all_of(sign.parts.begin(), sign.parts.end(), found)) continue;
    if (!sign.without.empty() && found(sign.without)) continue;
    if (!told.empty() && told != sign.tells) return {};
    told = sign.tells;
  }
  return told;
}

bool has_output(const camd_model& model, std::string_view beginning) {
  return std::any_of(model.outputs, model.outputs + model.output_count, [&](const camd_tensor_spec& output) {
    return std::string_view(output.name).starts_with(beginning);
  });
}

}  // namespace

std::string_view layout_by_names(std::span<const std::string> names) { return told_by(signs(), names); }

std::string_view input_by_names(std::span<const std::string> names) { return told_by(inputs(), names); }

bool has_key_points(std::span<const std::string> names) {
  return !told_by({{"key points", {".cv2.0.2.", ".cv3.0.2.", ".cv4.0.2."}}}, names).empty();
}

bool puts_y_first(const camd_model& model) { return has_output(model, "yolonms_layer"); }

bool are_raw_detections(const camd_model& model) { return has_output(model, "raw_detection_boxes"); }

bool counts_boxes(const camd_model& model) { return has_output(model, "num_det"); }

bool are_boxes_of_tensorflow(const camd_model& model, int boxes) {
  const std::string_view name = model.outputs[boxes].name;
  constexpr std::array<std::string_view, 4> kBegin = {"detection_boxes", "TFLite_Detection", "StatefulPartitionedCall",
                                                      "Identity"};
  return has_output(model, "valid_detections") ||
         std::any_of(kBegin.begin(), kBegin.end(), [&](std::string_view begin) { return name.starts_with(begin); });
}

std::string_view whose_rows(const camd_model& model) {
  constexpr std::int64_t kRow = 7;
  if (model.output_count != 1) return {};
  const camd_tensor_spec& output = model.outputs[0];
  if (has_output(model, "batchno_classid_score_x1y1x2y2")) return kPinto;
  return has_output(model, "detections") && output.ndim == 3 && output.shape[2] == kRow ? kAutoml : "";
}

bool are_people_of_mmpose(const camd_model& model) {
  return model.output_count == 2 && has_output(model, "dets") && has_output(model, "keypoints");
}

bool are_of_custom_vision(const camd_model& model) {
  return has_output(model, "detected_boxes") && has_output(model, "detected_scores");
}

bool are_filtered_detections(const camd_model& model) { return has_output(model, "filtered_detections"); }

bool is_of_tao(const camd_model& model) { return has_output(model, "output_cov") && has_output(model, "output_bbox"); }

bool are_flat_predictions(const camd_model& model) {
  return model.output_count == 1 && std::string_view(model.outputs[0].name).ends_with("flat_predictions");
}

bool are_labels_first(const camd_model& model) {
  constexpr std::array<std::string_view, 3> kNames = {"labels", "boxes", "scores"};
  if (model.output_count < 3 || model.outputs[1].ndim != 3) return false;
  return std::equal(kNames.begin(), kNames.end(), model.outputs,
                    [](std::string_view name, const camd_tensor_spec& output) { return name == output.name; });
}

bool are_called_dets(const camd_model& model) {
  return model.output_count == 2 && std::string_view(model.outputs[0].name) == "dets" &&
         std::string_view(model.outputs[1].name) == "labels";
}

}  // namespace camd::plugins
