// The published detectors, and how each is fed.
#include "plugins/detections/forms.hpp"

#include <utility>

namespace camd::plugins {
namespace {

constexpr const char* kEfficientdet = "efficientdet";
constexpr const char* kBytes = "color: bgr, scale: 1";
constexpr const char* kNanodetInput =
    "color: bgr, mean: [103.53, 116.28, 123.675], scale: [0.0174292, 0.0175070, 0.0171248], resize: stretch";
constexpr const char* kDetectron2Input = "color: bgr, mean: [103.53, 116.28, 123.675], scale: 1, position: top_left";
constexpr const char* kFcosInput = "color: bgr, mean: [102.9801, 115.9465, 122.7717], scale: 1, position: top_left";
constexpr const char* kCenternetInput =
    "color: bgr, mean: [104.04, 113.985, 119.85], scale: [0.0135696, 0.0143123, 0.0141064]";

Form fed(Form form, const char* input) {
  form.input = input;
  return form;
}
Form with_keypoints(Form form, int keypoints) {
  form.keypoints = keypoints;
  return form;
}
Form named(Layout layout, const char* name, const char* of, const char* input) {
  Form form{layout, of};
  form.name = name;
  form.input = input;
  return form;
}
Form told(Layout layout, const char* name, const char* of, const char* input) {
  Form form = named(layout, name, of, input);
  form.told = true;
  return form;
}
Form heads(Layout layout, const char* name, const char* of, const char* input) {
  Form form = told(layout, name, of, input);
  form.maps = true;
  return form;
}
Form oriented(Form form) {
  form.oriented = true;
  return form;
}
Form turned_rows(const char* name, const char* of, std::vector<RowValue> row, const char* input) {
  Form form = named(Layout::kRows, name, of, input);
  form.row = std::move(row);
  return form;
}
Form in_rows(const char* of, const char* keys, std::vector<RowValue> row, std::optional<bool> relative = {}) {
  Form form{Layout::kRows, of, keys};
  form.relative = relative;
  form.row = std::move(row);
  return form;
}

}  // namespace

const std::vector<Form>& forms() {
  using V = RowValue;
  static const std::vector<Form> kForms = {
      fed({Layout::kAnchors, kRetinaface}, "color: rgb, scale: 1"),
      named(Layout::kAnchors, kInsightface, "RetinaFace by InsightFace", "color: rgb, scale: 1"),
      fed({Layout::kScrfd, kScrfd}, "color: rgb, mean: [127.5, 127.5, 127.5], scale: 0.0078125"),
      fed({Layout::kYunet, "YuNet"}, kBytes),
      named(Layout::kAnchors, kYunet2021, "YuNet of 2021", kBytes),
      fed({Layout::kYolox, "YOLOX"}, kTopLeftBytes),
      fed({Layout::kYolox, "YOLOX, decoded", "decoded: true", BoxForm::kCorners, {}, true}, kTopLeftBytes),
      named(Layout::kYolox, kYolov6, "YOLOv6", kUnitInput),
      {Layout::kYolox, "YOLOv5 and its kind", "decoded: true, anchors_per_cell: 3", BoxForm::kCorners, {}, true, 3},
      {Layout::kYolox, "YOLOv5 in parts of the picture", "decoded: true, anchors_per_cell: 3, relative: true",
       BoxForm::kCorners, true, true, 3},
      with_keypoints({Layout::kYolox,
                      "YOLOv5-face",
                      "decoded: true, anchors_per_cell: 3, keypoints: 5",
                      BoxForm::kCorners,
                      {},
                      true,
                      3},
                     5),
      with_keypoints({Layout::kYolox,
                      "YOLOv5-face with four points",
                      "decoded: true, anchors_per_cell: 3, keypoints: 4",
                      BoxForm::kCorners,
                      {},
                      true,
                      3},
                     4),
      with_keypoints({Layout::kYolox,
                      "YOLOv7's poses",
                      "decoded: true, anchors_per_cell: 3, keypoints: 17",
                      BoxForm::kCorners,
                      {},
                      true,
                      3},
                     17),
      in_rows("boxes that the graph has chosen, as YOLOv10's and YOLO26's", "", {}),
      named(Layout::kRows, "rtmdet", "boxes that MMDetection's graph has chosen, as RTMDet's", kRtmdetInput),
      named(Layout::kRows, kRtmo, "people that MMPose's RTMO has chosen", kTopLeftBytes),
      turned_rows("mmrotate", "oriented boxes that MMRotate's graph has chosen",
                  {V::kCentreX, V::kCentreY, V::kWidth, V::kHeight, V::kAngle, V::kScore}, kEfficientdetInput),
      in_rows("boxes that YOLOv7's graph has chosen", "row: [skip, x0, y0, x1, y1, class, score]",
              {V::kSkip, V::kX0, V::kY0, V::kX1, V::kY1, V::kClass, V::kScore}),
      in_rows(kSuperGradients, "row: [skip, x0, y0, x1, y1, score, class]",
              {V::kSkip, V::kX0, V::kY0, V::kX1, V::kY1, V::kScore, V::kClass}),
      in_rows(kSuperGradients, "row: [skip, x0, y0, x1, y1, score]",
              {V::kSkip, V::kX0, V::kY0, V::kX1, V::kY1, V::kScore}),
      fed(in_rows(kPinto, "row: [skip, class, score, x0, y0, x1, y1]",
                  {V::kSkip, V::kClass, V::kScore, V::kX0, V::kY0, V::kX1, V::kY1}),
          "color: bgr, scale: 1, resize: stretch"),
      fed(in_rows(kPinto, "row: [skip, class, score, x0, y0, x1, y1], relative: true",
                  {V::kSkip, V::kClass, V::kScore, V::kX0, V::kY0, V::kX1, V::kY1}, true),
          "color: bgr, scale: 1, resize: stretch"),
      in_rows(kAutoml, "row: [skip, y0, x0, y1, x1, score, class]",
              {V::kSkip, V::kY0, V::kX0, V::kY1, V::kX1, V::kScore, V::kClass}),
      in_rows("oriented boxes that YOLO26's graph has chosen", "row: [cx, cy, w, h, score, class, angle]",
              {V::kCentreX, V::kCentreY, V::kWidth, V::kHeight, V::kScore, V::kClass, V::kAngle}),
      in_rows("boxes that PaddleDetection's graph has chosen", "row: [class, score, x0, y0, x1, y1]",
              {V::kClass, V::kScore, V::kX0, V::kY0, V::kX1, V::kY1}),
      in_rows("chosen boxes whose score stands last", "row: [x0, y0, x1, y1, class, score]",
              {V::kX0, V::kY0, V::kX1, V::kY1, V::kClass, V::kScore}),
      fed(in_rows("boxes that the graph of Ultralytics' RT-DETR has chosen",
                  "row: [cx, cy, w, h, score, class], relative: true",
                  {V::kCentreX, V::kCentreY, V::kWidth, V::kHeight, V::kScore, V::kClass}, true),
          kStretchedInput),
      fed(in_rows("boxes that Kornia's graph has chosen", "row: [class, score, x0, y0, w, h]",
                  {V::kClass, V::kScore, V::kX0, V::kY0, V::kWidth, V::kHeight}),
          kStretchedInput),
      in_rows("chosen boxes, centre and size in pixels", "row: [cx, cy, w, h, score, class]",
              {V::kCentreX, V::kCentreY, V::kWidth, V::kHeight, V::kScore, V::kClass}),
      in_rows("chosen boxes as COCO writes them", "row: [x0, y0, w, h, score, class]",
              {V::kX0, V::kY0, V::kWidth, V::kHeight, V::kScore, V::kClass}),
      in_rows("chosen boxes as COCO writes them", "row: [x0, y0, w, h, class, score]",
              {V::kX0, V::kY0, V::kWidth, V::kHeight, V::kClass, V::kScore}),
      {Layout::kRows, "boxes that TensorFlow's graph has chosen", "boxes: corners_yx, relative: true",
       BoxForm::kCornersYx, true},
      {Layout::kRows, "boxes in parts of the picture that the graph has chosen", "relative: true", BoxForm::kCorners,
       true},
      fed({Layout::kSsd, "Ultra-Light and its kind; TensorFlow's SSDs add boxes: corners_yx"},
          "color: rgb, mean: [127, 127, 127], scale: 0.0078125, resize: stretch"),
      {Layout::kSsd, "YOLO-NAS, PP-YOLOE", "relative: false", BoxForm::kCorners, false},
      named(Layout::kSsd, "fcos", "FCOS by LibreYOLO", kEfficientdetInput),
      fed({Layout::kSsd, "TensorFlow's boxes among which nothing was chosen yet", "boxes: corners_yx",
           BoxForm::kCornersYx},
          kStretchedInput),
      {Layout::kSsd, "Keras' YOLOv3", "boxes: corners_yx, relative: false", BoxForm::kCornersYx, false},
      fed({Layout::kSsd, "DETR; YOLOv8 to 26 in parts of the picture", "boxes: centre", BoxForm::kCentre},
          kStretchedInput),
      {Layout::kSsd, "YOLOv8 to 26", "boxes: centre, relative: false", BoxForm::kCentre, false},
      oriented({Layout::kSsd, "YOLO's oriented boxes", "boxes: centre, relative: false, oriented: true",
                BoxForm::kCentre, false}),
      fed({Layout::kNanodet, kNanodet}, kNanodetInput),
      fed({Layout::kNanodet, kNanodetPlus, "anchor_offset: 0", BoxForm::kCorners, {}, false, {}, 0.0F}, kNanodetInput),
      named(Layout::kNanodet, "picodet", kPicodet, kImagenetInput),
      named(Layout::kNanodet, "gfl", kGfl, kEfficientdetInput),
      {Layout::kNanodet, kYolov8Heads},
      fed({Layout::kFastestdet, "FastestDet"}, "color: bgr, scale: 0.00392157, resize: stretch"),
      fed({Layout::kFastestv2, "Yolo-FastestV2"}, "color: bgr, scale: 0.00392157, resize: stretch"),
      fed({Layout::kScrfd, "heads of MMYOLO's RTMDet", "anchors_per_cell: 1", BoxForm::kCorners, {}, false, 1},
          kRtmdetInput),
      named(Layout::kScrfd, kMmyoloHeads, "heads of MMYOLO's YOLOv6, YOLOv8 and PP-YOLOE", kUnitInput),
      fed({Layout::kScrfd,
           "heads of MMDetection's RTMDet",
           "anchors_per_cell: 1, decoded: true",
           BoxForm::kCorners,
           {},
           true,
           1},
          kRtmdetInput),
      told(Layout::kAnchors, kEfficientdet, "EfficientDet", kEfficientdetInput),
      told(Layout::kAnchors, "torchvision-retinanet", "torchvision's RetinaNet", kEfficientdetInput),
      told(Layout::kAnchors, "mmdet-retinanet", "MMDetection's RetinaNet", kEfficientdetInput),
      told(Layout::kAnchors, "detectron2-retinanet", "detectron2's RetinaNet", kDetectron2Input),
      told(Layout::kAnchors, "yhenon-retinanet", "RetinaNet by yhenon/pytorch-retinanet", kEfficientdetInput),
      told(Layout::kAnchors, "mmdet-atss", "MMDetection's ATSS", kEfficientdetInput),
      told(Layout::kScrfd, "mmdet-fcos", "MMDetection's FCOS", kFcosInput),
      told(Layout::kScrfd, "torchvision-fcos", "torchvision's FCOS", kEfficientdetInput),
      heads(Layout::kYoloHeads, "yolov5-heads", "YOLOv5", kUnitInput),
      heads(Layout::kYoloHeads, "yolov7-heads", "YOLOv7", kUnitInput),
      heads(Layout::kYoloHeads, "yolov4-heads", "YOLOv4", kUnitInput),
      heads(Layout::kYoloHeads, "yolov3-heads", "YOLOv3", kStretchedInput),
      heads(Layout::kYoloHeads, "yolov5-p6-heads", "YOLOv5 of four strides", kUnitInput),
      heads(Layout::kYoloHeads, "yolov4-tiny-heads", "YOLOv4-tiny", kStretchedInput),
      heads(Layout::kYoloHeads, "yolov3-tiny-heads", "YOLOv3-tiny", kStretchedInput),
      heads(Layout::kYoloHeads, "yolov2-heads", "YOLOv2", kStretchedInput),
      heads(Layout::kYoloHeads, "yolov2-tiny-heads", "YOLOv2-tiny", kStretchedInput),
      heads(Layout::kNanodet, "yolov8-heads", "YOLOv8 to 12", kUnitInput),
      named(Layout::kAnchors, kOdtkRetinanet, "RetinaNet by NVIDIA's retinanet-examples", kEfficientdetInput),
      told(Layout::kAnchors, kKerascvRetinanet, "KerasCV's RetinaNet", "color: rgb, scale: 1, position: top_left"),
      fed({Layout::kCenternet, "CenterNet"}, kCenternetInput),
      fed({Layout::kCenterface, "CenterFace"}, "color: rgb, scale: 1"),
      fed(with_keypoints({Layout::kMediapipe, "MediaPipe's faces"}, 6),
          "color: rgb, mean: [127.5, 127.5, 127.5], scale: 0.00784314"),
      with_keypoints({Layout::kMediapipe, "MediaPipe's palms"}, 7),
      fed(with_keypoints({Layout::kMediapipe, "MediaPipe's people"}, 4),
          "color: rgb, mean: [127.5, 127.5, 127.5], scale: 0.00784314"),
      fed({Layout::kDetectnet, "DetectNet_v2 of NVIDIA's TAO"}, kStretchedInput),
      fed({Layout::kFomo, "FOMO"}, kStretchedInput),
  };
  return kForms;
}

}  // namespace camd::plugins
