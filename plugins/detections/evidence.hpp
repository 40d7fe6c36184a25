// What a model's values say about a layout. A layout is chosen by shapes, and shapes alone cannot tell pixels from
// parts of the picture, or probabilities from logits. The values of one frame can, whatever the frame shows: noise will
// do.
//
// Threads: [setup], functions of their arguments.
// Invariants: speaks only where the values cannot be what the layout takes them for; what is merely unusual passes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plugins/camd_plugin.h"
#include "plugins/detections/decoder.hpp"
#include "plugins/detections/options.hpp"
#include "plugins/detections/tensor_set.hpp"

namespace camd::plugins {

// Whose queries' boxes, which are centre and size in parts of the picture, and scores are by their names: DETR and what
// came of it have "pred_boxes" and "logits" or "pred_logits" (github.com/facebookresearch/detr), RF-DETR's own exporter
// writes "dets" and "labels".
enum class Queries { kNone, kDetr, kRfdetr };
[[nodiscard]] Queries whose_queries(const camd_tensor_spec& boxes, const camd_tensor_spec& scores);
[[nodiscard]] Queries whose_queries(const Decoder& decoder, const camd_model& model);
[[nodiscard]] bool has_query_names(const Decoder& decoder, const camd_model& model);

// Why `decoder`, made with `options` for `model`, cannot be right about these tensors, as the end of a sentence ("its
// boxes reach 612: they are pixels, not parts of the picture"); nothing when the tensors fit. `most`: the share of
// boxes, 0..1, that may be wrong before it counts.
[[nodiscard]] std::optional<std::string> objection(const Decoder& decoder, const Options& options,
                                                   const camd_model& model, const TensorSet& tensors, float most);

// What the scores are by their range, whatever `options.scores` of the decoder says; nothing when they are no scores.
[[nodiscard]] std::optional<ScoreForm> score_form(const Decoder& decoder, Layout layout, const TensorSet& tensors);

// Which of the classes is the background, of scores that compete for each box.
enum class Background : std::uint8_t { kNone, kFirst, kLast };
// By the values of one frame, most of whose boxes are no object, whatever the decoder takes for the background. `form`:
// as score_form() says. `most`: the share of boxes, 0..1, that a class must have for itself.
[[nodiscard]] Background background_of(const Decoder& decoder, const TensorSet& tensors, ScoreForm form,
                                       float most = 0.8F);

// Whether what the decoder takes for angles can be nothing else: some lie below 0 or above 1, and they are not
// all whole numbers, as those of classes. Or they are nowhere near 0, as each class's scores are somewhere.
[[nodiscard]] bool has_angles(const Decoder& decoder, const TensorSet& tensors);

// Whether the value between a box and its scores, which `decoder` takes for a background, is the number of the level
// that the box is from: 0 for the first rows, then 1 and so on.
[[nodiscard]] bool has_levels(const Decoder& decoder, const TensorSet& tensors);

// Whether the objectness of each box is exactly 1, as YOLOv6 writes it, so that its rows look as YOLOX' do.
[[nodiscard]] bool is_certain_of_objects(const Decoder& decoder, const TensorSet& tensors);

}  // namespace camd::plugins
