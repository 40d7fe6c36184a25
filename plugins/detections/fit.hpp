// A way to read a model's outputs whose shapes fit, and what its shapes alone say.
//
// Threads: [setup].
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "plugins/detections/decoder.hpp"
#include "plugins/detections/forms.hpp"
#include "plugins/detections/scores.hpp"

namespace camd::plugins {

// A form whose shapes fit.
struct Fit {
  const Form* form = nullptr;
  std::unique_ptr<Decoder> decoder;
  std::vector<int> outputs;

  // Boxes, classes and what else there is in one tensor.
  [[nodiscard]] bool fused() const {
    const Level& level = decoder->levels().front();
    return level.head(Role::kBox).output == level.head(Role::kCls).output;
  }
  // Boxes of five values beside their scores: no others have an angle there.
  [[nodiscard]] bool has_turned_boxes() const {
    const Level& level = decoder->levels().front();
    return !fused() && form->oriented && level.head(Role::kBox).output == level.head(Role::kAngle).output;
  }
  // Boxes that the graph has chosen.
  [[nodiscard]] bool is_rows() const { return form->layout == Layout::kRows; }
  // The level of each box in front of its scores.
  [[nodiscard]] bool is_fcos() const { return form->name == std::string_view("fcos"); }
  // A map of boxes for each stride, and not all of them in one tensor.
  [[nodiscard]] bool in_maps() const {
    const std::vector<Level>& levels = decoder->levels();
    return levels.size() > 1 && levels[0].head(Role::kBox).output != levels[1].head(Role::kBox).output;
  }
  // Of classes alone, without boxes.
  [[nodiscard]] bool is_map() const { return form->layout == Layout::kFomo; }
  // [1,k,N] and not [1,N,k].
  [[nodiscard]] bool channels_first() const { return decoder->levels().front().head(Role::kBox).channel_step > 1; }
};

// Nine anchors in each cell of five strides.
[[nodiscard]] bool has_nine_anchors(const Fit& fit);

// As RetinaFace of MXNet has it. PyTorch's has lists.
[[nodiscard]] bool has_maps_with_background(const Fit& fit);

// NVIDIA's RetinaNet puts out probabilities, a map for each stride. The others of nine anchors put out logits, or one
// list of all. FastestDet's graph has the sigmoid and the softmax, RTMDet's heads have neither.
[[nodiscard]] bool has_right_scores(const Fit& fit, ScoreForm scores);

// Centre and size in parts of the picture, beside the scores: as queries have them, each of which was trained to find
// another object.
[[nodiscard]] bool are_queries(const Fit& fit);

// Whose distributions of distances those of layout `nanodet` are.
[[nodiscard]] std::string_view whose_bins(const Fit& fit);

// One tensor with the cells of four strides; YOLOX has three.
[[nodiscard]] bool is_nanodet_plus(const Fit& fit);

// Of chosen boxes in two tensors: what stands beside the rows are their classes, or key points.
[[nodiscard]] std::string_view whose_pair(const Fit& fit);

// How such a detector is fed, before its values tell more.
[[nodiscard]] const char* usual_input(const Fit& fit, const camd_model& model);

}  // namespace camd::plugins
