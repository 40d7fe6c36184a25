// What the shapes of a fit say.
#include "plugins/detections/fit.hpp"

#include <cstdint>

#include "plugins/detections/projects.hpp"

namespace camd::plugins {
namespace {

// Whether there is a box for each cell of the strides from 8 to 32 or 64, or three, as YOLOs have them.
bool has_box_of_each_cell(const Fit& fit, const camd_model& model) {
  const std::int64_t boxes = fit.decoder->levels().front().cells(), height = model.input.shape[2],
                     width = model.input.shape[3];
  std::int64_t cells = 0;
  for (const std::int64_t stride : {8, 16, 32, 64}) {
    cells += ((height + stride - 1) / stride) * ((width + stride - 1) / stride);
    if (stride >= 32 && (boxes == cells || boxes == 3 * cells)) return true;
  }
  return false;
}

}  // namespace

bool has_nine_anchors(const Fit& fit) {
  return fit.form->layout == Layout::kAnchors && fit.decoder->levels().front().anchors == 9;
}

bool has_maps_with_background(const Fit& fit) {
  return fit.in_maps() && fit.channels_first() && fit.decoder->scores().background();
}

bool has_right_scores(const Fit& fit, ScoreForm scores) {
  if (fit.form->layout == Layout::kFastestdet || fit.form->name == std::string_view(kYunet2021))
    return scores == ScoreForm::kProbability;
  if (fit.form->layout == Layout::kScrfd && fit.form->anchors_per_cell == 1) return scores == ScoreForm::kLogits;
  return fit.form->name != std::string_view(kOdtkRetinanet) || (scores == ScoreForm::kProbability && fit.in_maps());
}

bool are_queries(const Fit& fit) {
  return fit.form->layout == Layout::kSsd && fit.form->boxes == BoxForm::kCentre && !fit.fused() &&
         fit.form->relative.value_or(true);
}

// YOLOv8 has sixteen bins. Of others MMDetection's detectors have five strides, NanoDet three; of those with four,
// NanoDet-Plus puts out one tensor and PicoDet several.
std::string_view whose_bins(const Fit& fit) {
  const std::size_t strides = fit.decoder->levels().size();
  if (fit.decoder->levels().front().head(Role::kBox).channels == 4 * 16) return kYolov8Heads;
  if (strides == 5) return kGfl;
  if (strides == 4) return fit.fused() ? kNanodetPlus : kPicodet;
  return kNanodet;
}

bool is_nanodet_plus(const Fit& fit) { return fit.form->layout == Layout::kNanodet && whose_bins(fit) == kNanodetPlus; }

std::string_view whose_pair(const Fit& fit) { return fit.decoder->keypoint_count() > 0 ? kRtmo : "rtmdet"; }

const char* usual_input(const Fit& fit, const camd_model& model) {
  const Form& form = *fit.form;
  if (form.layout == Layout::kAnchors && form.name[0] == '\0' && !fit.in_maps()) return kRetinafaceListInput;
  if (are_people_of_mmpose(model)) return kTopLeftBytes;
  // FairMOT's sizes are distances to each side.
  if (form.layout == Layout::kCenternet && fit.decoder->levels().front().head(Role::kBox).channels == 4)
    return kUnitInput;
  if (are_of_custom_vision(model)) return kStretchedInput;
  if (fit.is_rows() && !fit.fused() && are_labels_first(model)) return kStretchedInput;
  if (are_filtered_detections(model)) return "color: bgr, mean: [103.939, 116.779, 123.68], scale: 1";
  // DETRs and SSDs, which are fed otherwise, have other numbers of boxes.
  if (form.layout == Layout::kSsd && form.relative.value_or(true) && has_box_of_each_cell(fit, model))
    return kUnitInput;
  return form.input;
}

}  // namespace camd::plugins
