// Whose head a network has, by the names in its file. Boxes as offsets from anchors, or from a cell's point, have the
// same shapes in many projects, and neither shapes nor values tell by which rules they are meant.
//
// Threads: [any], a function of its arguments.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "plugins/camd_plugin.h"

namespace camd::plugins {

// The name of known_layouts() whose project calls its parts so; empty where no names tell, or those of two projects do.
// `names`: of the outputs, or of weights and nodes.
[[nodiscard]] std::string_view layout_by_names(std::span<const std::string> names);

// How that project feeds a picture to such a network, as keys of `model.input`; empty as above.
[[nodiscard]] std::string_view input_by_names(std::span<const std::string> names);

// Whether a YOLO of Ultralytics has key points, by the names of its last layer's parts.
[[nodiscard]] bool has_key_points(std::span<const std::string> names);

// By the names of outputs:
// - Keras' YOLOv3, as ONNX' collection has it (`yolov3-10.onnx`, `tiny-yolov3-11.onnx`): values do not tell x from y.
[[nodiscard]] bool puts_y_first(const camd_model& model);
// - Boxes and scores in front of the choice in TensorFlow's Object Detection, where y stands first as well:
//   "raw_detection_boxes".
[[nodiscard]] bool are_raw_detections(const camd_model& model);
// - How many boxes a graph has chosen stands beside them: `num_dets` or `num_detections`.
[[nodiscard]] bool counts_boxes(const camd_model& model);
// - Boxes in parts of the picture that TensorFlow's own functions have chosen or scored begin with y as well. Exports
//   name them after these functions, or as whatever a function returns: "Identity", "StatefulPartitionedCall".
[[nodiscard]] bool are_boxes_of_tensorflow(const camd_model& model, int boxes);
// - Whose rows they are: EfficientDet's by google/automl, "detections", in which y stands first as well, or those of
//   PINTO_model_zoo, "batchno_classid_score_x1y1x2y2". Form::of, or empty.
[[nodiscard]] std::string_view whose_rows(const camd_model& model);
// - DetectNet_v2's maps by NVIDIA's TAO: "output_cov/Sigmoid" and "output_bbox/BiasAdd".
[[nodiscard]] bool is_of_tao(const camd_model& model);
// - SuperGradients' rows, "graph2_flat_predictions". YOLOv7's have the same width.
[[nodiscard]] bool are_flat_predictions(const camd_model& model);
// - People and their key points as MMPose's RTMO puts them out: "dets" and "keypoints".
[[nodiscard]] bool are_people_of_mmpose(const camd_model& model);
// - Boxes that Azure's Custom Vision has chosen, which takes stretched pictures.
[[nodiscard]] bool are_of_custom_vision(const camd_model& model);
// - Boxes that keras-retinanet has chosen, which is fed as Caffe's backbones are: "filtered_detections".
[[nodiscard]] bool are_filtered_detections(const camd_model& model);
// - What RT-DETR's exporter writes, and those of the projects that came of it: "labels", "boxes" and "scores" of a
// batch. They stretch the picture. torchvision's detectors put out lists without a batch, boxes first.
[[nodiscard]] bool are_labels_first(const camd_model& model);
// - What MMDeploy has chosen. These names tell more than boxes of noise, which RTMDet was not trained to make.
[[nodiscard]] bool are_called_dets(const camd_model& model);

}  // namespace camd::plugins
