// Trying every known way to read a model's outputs.
#include "plugins/detections/suggest.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <span>

#include "plugins/detections/decoder.hpp"
#include "plugins/detections/evidence.hpp"
#include "plugins/detections/fit.hpp"
#include "plugins/detections/forms.hpp"
#include "plugins/detections/projects.hpp"
#include "plugins/detections/unread.hpp"
#include "plugins/json_object.hpp"

namespace camd::plugins {
namespace {

Options with(const Options& given, const Form& form) {
  Options options = given;
  options.layout = form.layout;
  options.boxes = form.boxes;
  options.relative = form.relative;
  options.decoded = form.decoded;
  options.anchors_per_cell = form.anchors_per_cell;
  options.anchor_offset = form.anchor_offset ? form.anchor_offset : given.anchor_offset;
  options.scores = ScoreForm::kProbability;
  options.row = form.row;
  options.oriented = form.oriented;
  if (form.name[0] != '\0') {
    apply_known_layout(form.name, options);
    options.scores = ScoreForm::kProbability;
  }
  if (form.keypoints) options.keypoints = form.keypoints;
  return options;
}

std::string config_text(const Form& form, ScoreForm scores) {
  std::string text = "layout: " + std::string(to_string(form.layout));
  ScoreForm implied = ScoreForm::kProbability;
  if (form.name[0] != '\0') {
    Options options;
    apply_known_layout(form.name, options);
    implied = options.scores;
    text = "layout: " + std::string(form.name);
  }
  if (form.keys[0] != '\0') text += ", " + std::string(form.keys);
  if (scores != implied) text += ", scores: " + std::string(to_string(scores));
  return text;
}

// Shares of boxes that may look wrong in a layout that is suggested.
constexpr float kFew = 0.05F, kAny = 1.0F;

// Whose head it is: what is configured or known, or what the names of the outputs tell.
std::string_view whose(const camd_model& model, const Options& options) {
  if (!options.known.empty()) return options.known;
  std::vector<std::string> names;
  names.reserve(static_cast<std::size_t>(model.output_count));
  for (int i = 0; i < model.output_count; ++i) names.emplace_back(model.outputs[i].name);
  const auto has = [&](std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  return has("box") && has("classification") ? kKerascvRetinanet : layout_by_names(names);
}

// Numbers about the picture as a whole, as a network has them that looks at one face: of a grid with one cell.
bool is_one_cell(const Decoder& decoder) {
  const std::vector<Level>& levels = decoder.levels();
  return levels.size() == 1 && levels.front().cells() * levels.front().anchors == 1;
}

// Adds the forms of maps that nothing has decoded. Exports of old have such maps beside the boxes that the graph has
// decoded from them, and where boxes and scores have maps of their own, those of scores would do for both.
void add_heads(std::vector<Fit>& fits, std::vector<Fit> heads, const camd_model& model) {
  std::size_t most = 0;
  for (const Fit& fit : heads) most = std::max(most, fit.outputs.size());
  const auto likelier = [&](const Fit& fit) {
    return fit.outputs.size() > most || std::any_of(fit.outputs.begin(), fit.outputs.end(),
                                                    [&](int output) { return model.outputs[output].ndim < 4; });
  };
  if (std::any_of(fits.begin(), fits.end(), likelier)) return;
  for (Fit& fit : heads) {
    if (fit.outputs.size() == most) fits.push_back(std::move(fit));
  }
}

// With `told`, those that need to be told as well, whatever the names tell.
std::vector<Fit> fits_by_shape(const camd_model& model, const Options& options, bool told = false) {
  std::vector<Fit> fits, heads;
  std::size_t most = 0;
  const std::span<const camd_tensor_spec> outputs(model.outputs, static_cast<std::size_t>(model.output_count));
  const bool queries = std::any_of(outputs.begin(), outputs.end(), [&](const camd_tensor_spec& boxes) {
    return std::any_of(outputs.begin(), outputs.end(),
                       [&](const camd_tensor_spec& scores) { return whose_queries(boxes, scores) != Queries::kNone; });
  });
  for (const Form& form : forms()) {
    // What else such a model puts out, as hidden states, is not for `detections`.
    if (queries && (form.layout != Layout::kSsd || form.boxes != BoxForm::kCentre || form.oriented)) continue;
    try {
      Fit fit{&form, make_decoder(form.layout, model, with(options, form)), {}};
      if (!fit.is_rows() && is_one_cell(*fit.decoder)) continue;
      if (fit.is_map() && model.output_count != 1) continue;
      fit.outputs = fit.decoder->used_outputs();
      if (form.maps) {
        heads.push_back(std::move(fit));
        continue;
      }
      const std::size_t used = fit.outputs.size();
      if (used > most) fits.clear();
      most = std::max(most, used);
      if (used == most) fits.push_back(std::move(fit));
    } catch (const std::exception&) {
      continue;  // does not fit
    }
  }
  add_heads(fits, std::move(heads), model);
  if (told) return fits;
  const std::string_view name = whose(model, options);
  const auto other = [&](const Fit& fit) { return fit.form->told && fit.form->name != name; };
  fits.erase(std::remove_if(fits.begin(), fits.end(), other), fits.end());
  if (std::any_of(fits.begin(), fits.end(), [](const Fit& fit) { return fit.form->told; })) {
    fits.erase(std::remove_if(fits.begin(), fits.end(), [](const Fit& fit) { return !fit.form->told; }), fits.end());
  }
  return fits;
}

// Forms that fit and that nothing tells apart.
struct Untold {
  std::vector<const Form*> forms;
  std::vector<int> classes;  // of each
  bool maps = false;         // as Form::maps
};

// Empty where names tell.
Untold untold(const camd_model& model, const Options& options) {
  Untold found;
  for (const Fit& fit : fits_by_shape(model, options, true)) {
    if (fit.form->told && fit.form->name == whose(model, options)) return {};
    if (!fit.form->told) continue;
    found.forms.push_back(fit.form);
    found.classes.push_back(fit.decoder->scores().classes());
    found.maps = fit.form->maps;
  }
  return found;
}

// Each as "yolov5-heads (YOLOv5, 80 classes)": how many classes only where they differ.
std::string names_of(const Untold& untold) {
  const bool differ =
      std::adjacent_find(untold.classes.begin(), untold.classes.end(), std::not_equal_to<>()) != untold.classes.end();
  std::vector<std::string> words;
  for (std::size_t i = 0; i < untold.forms.size(); ++i) {
    const Form& form = *untold.forms[i];
    const std::string classes = differ ? ", " + std::to_string(untold.classes[i]) + " classes" : "";
    words.push_back(form.name + (" (" + std::string(form.of)) + classes + ")");
  }
  return joined(words);
}

bool has(const std::vector<Fit>& fits, Layout layout, std::optional<int> anchors_per_cell) {
  return std::any_of(fits.begin(), fits.end(), [&](const Fit& fit) {
    return fit.form->layout == layout && fit.form->anchors_per_cell == anchors_per_cell;
  });
}

// Rows, of boxes that a graph chose; engines leave as much room. In lists of their own there may be more: boxes with
// the best class of each, among which nothing was chosen yet (Qualcomm's AI Hub).
constexpr std::int64_t kMostChosen = 1024;
constexpr int kPersonKeypoints = 17;  // of COCO

// Drops what the one tensor of a model speaks against beside its length. Three rows for each cell have an objectness:
// YOLOv5's kind. YOLOX and its kind export [1,N,5+C], YOLOv8 and its kind [1,4+C,N].
// Most detectors know the eighty classes of COCO.
void drop_unlikely(std::vector<Fit>& fits, const camd_model& model, const Options& given, bool with_values) {
  const bool three = has(fits, Layout::kYolox, 3), one = has(fits, Layout::kYolox, std::nullopt);
  // Almost any table has the width of a row with some number of keypoints: only that of people is taken by itself.
  const auto no_rows = [&](const Fit& fit) {
    if (!fit.is_rows()) return false;
    const int keypoints = fit.decoder->keypoint_count();
    // Many rows are rather boxes among which nothing was chosen. The values tell, as whole classes do, which
    // DeepStream's exports have for each cell.
    const bool many = fit.decoder->levels().front().cells() > kMostChosen && fit.fused();
    return three || (many && !with_values) ||
           (keypoints > 0 && !fit.form->turned() && fit.form->of != std::string_view(kPinto) &&
            fit.form->name != std::string_view(kRtmo) && keypoints != given.keypoints.value_or(kPersonKeypoints));
  };
  fits.erase(std::remove_if(fits.begin(), fits.end(), no_rows), fits.end());
  // Values do not tell x from y, but names tell TensorFlow, where y stands first: the likelier one of both first.
  const auto in_usual_order = [&](const Fit& fit) {
    const Head& boxes = fit.decoder->levels().front().head(Role::kBox);
    if (!fit.is_rows() || fit.fused() || !fit.form->relative.value_or(false) || !boxes.bound()) return true;
    const bool of_tensorflow = are_boxes_of_tensorflow(model, boxes.output);
    return of_tensorflow == (fit.form->boxes == BoxForm::kCornersYx);
  };
  std::stable_partition(fits.begin(), fits.end(), in_usual_order);
  if (are_flat_predictions(model)) {
    std::stable_partition(fits.begin(), fits.end(), [](const Fit& fit) {
      return fit.is_rows() && fit.form->of == std::string_view(kSuperGradients);
    });
  }
  const auto not_queries = [&](const Fit& fit) { return has_query_names(*fit.decoder, model) && !are_queries(fit); };
  fits.erase(std::remove_if(fits.begin(), fits.end(), not_queries), fits.end());
  const bool fastestv2 = std::any_of(fits.begin(), fits.end(), [](const Fit& fit) {
    return fit.form->layout == Layout::kFastestv2 && !(fit.fused() && fit.channels_first());
  });
  const auto has_one_score = [](const Fit& fit) {
    return fit.decoder->levels().front().head(Role::kCls).channels == 1;
  };
  const bool scrfd = std::any_of(fits.begin(), fits.end(), [&](const Fit& fit) {
    return fit.form->of == std::string_view(kScrfd) && fit.in_maps() && has_one_score(fit);
  });
  const bool nine_anchors = std::any_of(fits.begin(), fits.end(), has_nine_anchors);
  const bool plus = std::any_of(fits.begin(), fits.end(), is_nanodet_plus);
  const bool keras = puts_y_first(model), raw = are_raw_detections(model);
  // Its shapes are those of many maps.
  const bool tao = is_of_tao(model);
  const std::string_view rows_by_name = whose_rows(model);
  const bool mmyolo = whose(model, given) == kMmyoloHeads;
  // Tensors of four values are rather boxes than classes beside bins.
  const auto takes_boxes_for_classes = [&](const Fit& fit) {
    return std::any_of(fits.begin(), fits.end(), [&](const Fit& other) {
      return other.form->layout != Layout::kNanodet && other.decoder->levels().front().head(Role::kBox).output ==
                                                           fit.decoder->levels().front().head(Role::kCls).output;
    });
  };
  // Maps of more strides than are read, as SSD has them.
  const auto leaves_strides = [&](const Fit& fit) {
    const std::vector<Level>& levels = fit.decoder->levels();
    return std::any_of(model.outputs, model.outputs + model.output_count, [&](const camd_tensor_spec& output) {
      const auto has_its_size = [&](const Level& level) {
        return (level.height == output.shape[2] && level.width == output.shape[3]) ||
               (level.height == output.shape[1] && level.width == output.shape[2]);
      };
      return output.ndim == 4 && std::none_of(levels.begin(), levels.end(), has_its_size);
    });
  };
  // As depths are put out.
  const auto is_picture = [&](const Fit& fit) {
    const camd_tensor_spec& output = model.outputs[fit.outputs.front()];
    return output.ndim == 3 && output.shape[1] == model.input.shape[2] && output.shape[2] == model.input.shape[3];
  };
  const auto unlikely = [&](const Fit& fit) {
    if (fit.fused() && is_picture(fit)) return true;
    // As MoveNet has its six people: detectors have a column for each cell.
    constexpr std::int64_t kFewestCells = 64;
    if (fit.fused() && fit.form->layout == Layout::kSsd && fit.channels_first() &&
        fit.decoder->levels().front().cells() < kFewestCells)
      return true;
    if (fit.form->maps) return false;
    const bool five = fit.decoder->levels().size() == 5;
    // Three boxes of a cell in maps of each stride are not decoded.
    if (fit.form->layout == Layout::kYolox && (five || (three && fit.in_maps()))) return true;
    if ((fit.form->layout == Layout::kDetectnet) != tao) return true;
    // It has nothing beside its map, whose shape is also that of the maps that masks are made of.
    if (fit.form->layout == Layout::kFastestdet && static_cast<int>(fit.outputs.size()) != model.output_count)
      return true;
    // RetinaFace has a background beside the faces, for which SCRFD has one score.
    if (fit.form->of == std::string_view(kRetinaface) && scrfd && has_one_score(fit)) return true;
    if (fit.form->name == std::string_view(kInsightface)) return !has_maps_with_background(fit);
    const bool y_first = fit.form->boxes == BoxForm::kCornersYx;
    if (fit.form->layout == Layout::kSsd) {
      const bool parts = fit.form->relative.value_or(true);
      const bool functions = parts && fit.form->boxes != BoxForm::kCentre && !raw &&
                             are_boxes_of_tensorflow(model, fit.decoder->levels().front().head(Role::kBox).output);
      if (y_first != ((keras || raw || functions) && !fit.fused())) return true;
      if (y_first && parts != (raw || functions)) return true;
    }
    // MMDetection's choice is in two tensors, and no other is.
    if (fit.is_rows() && given.oriented && !fit.form->turned()) return true;
    if (fit.is_rows() && given.keypoints && fit.form->turned()) return true;
    if (fit.is_rows() && fit.fused() && y_first) return true;  // `row` says the order
    const bool of_names = fit.form->of == std::string_view(kAutoml) || fit.form->of == std::string_view(kPinto);
    if (fit.is_rows() && fit.fused() && (of_names || !rows_by_name.empty()) && fit.form->of != rows_by_name)
      return true;
    if (fit.is_rows() && fit.fused() && fit.form->name[0] == '\0' && fit.form->has_no_class() &&
        !are_flat_predictions(model))
      return true;
    if (fit.is_rows() && fit.outputs.size() == 2 && fit.form->row.empty()) return fit.form->name != whose_pair(fit);
    if (fit.is_rows()) return (fit.outputs.size() == 2) != (fit.form->name[0] != '\0');
    if (given.oriented && fit.form->layout == Layout::kSsd) return !fit.form->oriented;
    // Any map of the same cells would do; the exported graph puts the channels last.
    if (fit.form->layout == Layout::kFastestv2) return !fastestv2;
    if (fastestv2 && (fit.form->layout == Layout::kYolox || fit.form->layout == Layout::kNanodet)) return true;
    if (nine_anchors && fit.form->layout == Layout::kNanodet) return true;
    const bool of_many_strides =
        fit.form->layout == Layout::kNanodet || (fit.form->layout == Layout::kScrfd && fit.form->anchors_per_cell == 1);
    if (of_many_strides && fit.decoder->levels().size() < 3) return true;
    if (fit.form->layout == Layout::kNanodet) {
      if (fit.in_maps() && leaves_strides(fit)) return true;
      if (fit.form->of != whose_bins(fit) || (!fit.fused() && takes_boxes_for_classes(fit))) return true;
      // What has bins in the tensor of the classes has all strides in one, and is rather YOLOX', unless values tell.
      return fit.fused() && (fit.channels_first() || fit.in_maps() || (one && !plus && !with_values));
    }
    // YOLOv6's larger ones have four strides as well, and values tell them.
    if (plus && fit.fused() && fit.form->layout == Layout::kYolox && fit.form->name != std::string_view(kYolov6))
      return true;
    if (plus && fit.fused() && fit.form->layout == Layout::kSsd && !with_values) return true;
    // Of five strides the values at a cell are not RTMDet's: TOOD's are corners, VFNet's are distances from elsewhere.
    if (five && fit.form->layout == Layout::kScrfd && fit.form->anchors_per_cell && !fit.form->told) return true;
    if (fit.form->name == std::string_view(kMmyoloHeads)) return !mmyolo;
    if (mmyolo && fit.form->layout == Layout::kScrfd && fit.form->anchors_per_cell == 1) return true;
    if (!fit.fused()) return false;
    constexpr int kCoco = 80;
    const int classes = fit.decoder->scores().classes();
    if (fit.is_fcos()) return fit.channels_first();
    // The background came from SSD's softmax, which has a tensor of its own.
    if (fit.form->layout == Layout::kSsd && fit.decoder->scores().background()) return true;
    if (fit.form->layout == Layout::kSsd) return three || (one && !fit.channels_first() && classes == kCoco + 1);
    // YOLOX' maps have probabilities behind four values that are none.
    const bool first = fit.channels_first() && !(with_values && fit.in_maps());
    return fit.form->layout == Layout::kYolox && !three && (first || classes == kCoco - 1);
  };
  fits.erase(std::remove_if(fits.begin(), fits.end(), unlikely), fits.end());
}

// Forms that differ in how boxes are written have the same shapes: without values, the usual one of each layout.
// `objectness`: the rows would do for YOLOX as well. `queries`: the boxes are called as those of queries.
bool is_usual(const Fit& fit, bool objectness, bool turned, bool queries) {
  const Form& form = *fit.form;
  if (fit.has_turned_boxes()) return true;
  if (form.turned() != turned) return false;
  switch (form.layout) {
    case Layout::kSsd:
      if (fit.is_fcos()) return false;
      if (!fit.fused() && form.boxes == BoxForm::kCorners) return queries || !form.relative;
      if (!fit.fused()) return queries || form.boxes == BoxForm::kCornersYx;
      return form.boxes == BoxForm::kCentre && form.relative == false && !(objectness && !fit.channels_first());
    case Layout::kYolox:
      return !form.keypoints && !form.relative && (form.anchors_per_cell || !form.decoded) &&
             form.name != std::string_view(kYolov6);
    case Layout::kRows: return form.row.size() != 6 && !form.relative;
    case Layout::kScrfd: return !form.decoded;
    case Layout::kAnchors:
      return form.name != std::string_view(kOdtkRetinanet) && form.name != std::string_view(kInsightface);
    default: return true;
  }
}

// Whether a map of classes, which many networks have, is of objects beside a background. The exporter may have said it
// (`given`). By the values, hardly any cell of a picture of noise is an object, and the classes share each cell.
bool is_map_of_objects(const Fit& fit, const Options& given, const TensorSet& tensors, ScoreForm scores) {
  constexpr float kByShares = 2.0F;  // no share of boxes: probabilities have to add up to 1
  const float most = scores == ScoreForm::kProbability ? kByShares : 0.8F;
  return given.layout == Layout::kFomo || background_of(*fit.decoder, tensors, scores, most) == Background::kFirst;
}

// Keys behind those of the form, for a list of scores that is a tensor of its own: where their background is, which
// `layout: ssd` takes to be the first class unless the names of the classes tell.
std::string background_keys(const Fit& fit, const Options& given, Background seen) {
  if (fit.form->layout != Layout::kSsd || fit.fused()) return "";
  const int classes = fit.decoder->levels().front().head(Role::kCls).channels;
  const bool named = !given.classes.empty();
  if (classes < 2 || given.background || (named && !fit.decoder->scores().background())) return "";
  if (seen == Background::kLast) return ", background: last";
  return seen == Background::kNone && !named ? ", background: false" : "";
}

// Whether the first class is taken for the background, which nobody has said, and hardly any box is background by it.
bool misses_first_class(const Decoder& decoder, const Options& options, const TensorSet& tensors) {
  constexpr float kFewBoxes = 0.2F;
  const bool takes_first = options.layout == Layout::kSsd || options.layout == Layout::kAnchors;
  return takes_first && options.anchors.empty() && options.classes.empty() && !options.background &&
         options.scores != ScoreForm::kPercent && decoder.scores().background() &&
         background_of(decoder, tensors, options.scores, kFewBoxes) != Background::kFirst;
}

std::unique_ptr<TensorSet> tensor_set(const camd_model& model, const Decoder& decoder, const OutputValues& values) {
  auto tensors = std::make_unique<TensorSet>(model, decoder.used_outputs());
  for (const int i : decoder.used_outputs()) tensors->borrow(i, values[static_cast<std::size_t>(i)].data());
  return tensors;
}

// Whether the outputs that are read hold no box that a graph has chosen: all is 0, as exporters fill up, or -1, as
// camd.
bool holds_nothing(std::span<const int> outputs, const OutputValues& values) {
  return std::all_of(outputs.begin(), outputs.end(), [&](int i) {
    const std::vector<float>& of_output = values[static_cast<std::size_t>(i)];
    return std::all_of(of_output.begin(), of_output.end(), [](float value) { return value == 0.0F || value == -1.0F; });
  });
}

// What to write where a picture of noise leaves the outputs empty, and they would do for boxes that the graph has
// chosen.
std::string chosen_without_values(const camd_model& model, const OutputValues& values) {
  std::vector<int> all(static_cast<std::size_t>(model.output_count));
  std::iota(all.begin(), all.end(), 0);
  if (!holds_nothing(all, values)) return "";
  std::vector<std::string> words;
  for (const Form& form : forms()) {
    if (form.layout != Layout::kRows || form.name[0] != '\0' || (form.row.empty() && form.relative)) continue;
    if (form.has_rare_size() || form.has_score_last()) continue;  // as few graphs write them
    try {
      const auto decoder = make_decoder(form.layout, model, with(Options{}, form));
      const int points = form.turned() ? 0 : decoder->keypoint_count();
      words.push_back("{" + config_text(form, ScoreForm::kProbability) +
                      (points > 0 ? ", keypoints: " + std::to_string(points) : "") + "} (" + form.of + ")");
    } catch (const std::exception&) {
      continue;  // does not fit
    }
  }
  if (words.empty()) return "";
  return "the model's outputs, " + describe_outputs(model) +
         ", hold nothing on a picture of noise, so no value tells how they are to be read: where the graph has chosen "
         "boxes, set one of " +
         joined(words);
}

}  // namespace

std::vector<LayoutSuggestion> fitting_layouts(const camd_model& model, const Options& options,
                                              const OutputValues* values) {
  std::vector<Fit> fits = fits_by_shape(model, options);
  drop_unlikely(fits, model, options, values != nullptr);
  // Boxes in lists may be decoded already, which only values tell. Of maps, what else fits is likelier.
  if (values == nullptr) {
    const Untold open = untold(model, options);
    if (!open.forms.empty() && !open.maps) return {};
  }
  const bool objectness = has(fits, Layout::kYolox, std::nullopt);
  std::vector<LayoutSuggestion> suggestions;
  bool rows = false;
  for (const Fit& fit : fits) {
    ScoreForm scores = ScoreForm::kProbability;
    std::string more;
    const char* input = usual_input(fit, model);
    if (values == nullptr) {
      if (!is_usual(fit, objectness, options.oriented, has_query_names(*fit.decoder, model))) continue;
    } else {
      // Only a graph that chooses boxes may find none. Of those rows the ones that are known to be this model's count.
      const bool nothing = holds_nothing(fit.outputs, *values);
      if (nothing && !(fit.is_rows() && (options.row.empty() || !fit.fused() || fit.form->row == options.row)))
        continue;
      const auto tensors = tensor_set(model, *fit.decoder, *values);
      const std::optional<ScoreForm> seen = score_form(*fit.decoder, fit.form->layout, *tensors);
      if (!seen || !has_right_scores(fit, *seen)) continue;
      // A graph that makes parts of the picture of its boxes has made probabilities of its scores.
      const bool parts = fit.form->layout == Layout::kSsd && fit.form->relative.value_or(true);
      if (fit.fused() && parts && *seen == ScoreForm::kLogits) continue;
      scores = *seen;
      const bool rare = fit.form->has_rare_size() && (rows || scores != ScoreForm::kProbability);
      if (rare || (nothing && (fit.form->has_rare_size() || fit.form->has_score_last()))) continue;
      // An angle between the scores' bounds, everywhere, is one more class.
      const bool angles = fit.form->oriented && !options.oriented && !fit.has_turned_boxes();
      if (angles && !has_angles(*fit.decoder, *tensors)) continue;
      if (fit.is_fcos() && !(fit.fused() && has_levels(*fit.decoder, *tensors))) continue;
      const bool yolov6 = fit.form->name == std::string_view(kYolov6);
      const bool yolox = fit.form->layout == Layout::kYolox && fit.form->decoded && !fit.form->anchors_per_cell;
      if ((yolov6 || yolox) && yolov6 != is_certain_of_objects(*fit.decoder, *tensors)) continue;
      Options tried = with(options, *fit.form);
      tried.scores = scores;
      // Boxes of some layouts hang on what the scores are.
      const float most = fit.is_rows() && are_called_dets(model) ? kAny : kFew;
      if (objection(*make_decoder(fit.form->layout, model, tried), tried, model, *tensors, most)) continue;
      const Background background = background_of(*fit.decoder, *tensors, scores);
      more = background_keys(fit, options, background);
      if (fit.form->layout == Layout::kAnchors && has_maps_with_background(fit)) {
        // Two classes in maps have the shape of a background and faces.
        const bool faces = background == Background::kFirst;
        if (faces != (fit.form->name == std::string_view(kInsightface))) continue;
        if (!faces && !options.background) more = ", background: false";
      }
      if (fit.is_map()) {
        if (!is_map_of_objects(fit, options, *tensors, scores)) continue;
        if (scores == ScoreForm::kLogits) input = kFomoLogitsInput;
        // Classes that share every cell leave no room for boxes.
        if (scores == ScoreForm::kProbability || options.layout == Layout::kFomo) suggestions.clear();
      }
      // No SSD, then, which are fed around 0, but one of the YOLOs.
      const bool yolo = fit.form->layout == Layout::kSsd && !fit.fused() && fit.form->boxes == BoxForm::kCorners &&
                        background == Background::kNone && more == ", background: false";
      if (yolo && input == fit.form->input) input = fit.form->relative.has_value() ? input : kStretchedInput;
      if (fit.is_rows() && fit.decoder->levels().front().cells() > kMostChosen && !counts_boxes(model))
        more += ", nms: 0.4";
      if (are_queries(fit) && scores == ScoreForm::kLogits) {
        more += ", nms: 1";
        // Facebook's count by COCO's ids, up to 90 with gaps, and some have a background behind them. RF-DETR is fed as
        // these are, whatever its classes.
        constexpr int kCocoIds = 91;
        const int classes = fit.decoder->levels().front().head(Role::kCls).channels;
        const bool rfdetr = whose_queries(*fit.decoder, model) == Queries::kRfdetr;
        if (rfdetr || background == Background::kLast || classes == kCocoIds || classes == kCocoIds + 1)
          input = kImagenetInput;
        const int beside_background = classes - (background == Background::kLast ? 1 : 0);
        if (options.classes.empty() && beside_background == kCocoIds) more += ", classes: coco91";
      }
    }
    // Angles were found: what takes them for a class does not count beside that.
    if (fit.form->oriented && values != nullptr && fit.channels_first()) suggestions.clear();
    // Boxes in pixels are no scores, so these rows are no YOLO's.
    if (is_nanodet_plus(fit)) suggestions.clear();
    // Distances that are above 0 are no offsets from anchors, half of which are below.
    if (values != nullptr && fit.form->of == std::string_view(kScrfd)) {
      std::erase_if(suggestions, [](const LayoutSuggestion& s) { return s.of == kRetinaface; });
    }
    // Any map of classes has the shape of one: nothing else may fit.
    if (fit.is_map() && !suggestions.empty()) continue;
    // A row with a whole class and a score is no accident: what else fits does not count beside it.
    if (fit.is_rows() && !rows) suggestions.clear();
    if (rows && !fit.is_rows()) continue;
    rows = rows || fit.is_rows();
    suggestions.push_back({config_text(*fit.form, scores) + more, fit.form->of, input, fit.outputs});
  }
  return suggestions;
}

std::string suggestion_text(const camd_model& model, const std::vector<LayoutSuggestion>& suggestions,
                            const OutputValues* values) {
  if (!suggestions.empty()) {
    std::vector<std::string> words;
    words.reserve(suggestions.size());
    for (const LayoutSuggestion& s : suggestions) words.push_back("{" + s.config + "} (" + s.of + ")");
    return "the model's outputs look like " + joined(words);
  }
  if (values != nullptr) {
    if (std::string text = chosen_without_values(model, *values); !text.empty()) return text;
  }
  if (const Untold open = untold(model, Options{}); !open.forms.empty()) {
    return "the model's outputs, " + describe_outputs(model) +
           ", look like boxes that its graph has not decoded, and nothing in the file tells whose rules they follow: "
           "set `layout` to that of the project which trained it, one of " +
           names_of(open);
  }
  if (are_whole_maps(model)) {
    return "the model's outputs, " + describe_outputs(model) +
           ", look like boxes that its graph has not decoded, and camd knows no layout of such maps: export the model "
           "with its own decoding";
  }
  std::vector<Fit> fits = fits_by_shape(model, Options{});
  drop_unlikely(fits, model, Options{}, values != nullptr);
  for (const Fit& fit : fits) {
    if (values == nullptr || !is_usual(fit, false, false, has_query_names(*fit.decoder, model))) continue;
    const Options options = with(Options{}, *fit.form);
    const auto why = objection(*fit.decoder, options, model, *tensor_set(model, *fit.decoder, *values), kFew);
    if (!why) continue;
    return "no layout that camd knows reads the model's outputs, " + describe_outputs(model) + ": {" +
           config_text(*fit.form, ScoreForm::kProbability) + "} fits their shapes, but on a picture of noise " + *why;
  }
  std::string lists = lists_without_names(model);
  if (!lists.empty()) return lists;
  return "the model's outputs, " + describe_outputs(model) + ", look like no layout that camd knows (" +
         joined(layout_kinds()) + ")";
}

std::string doubt(const camd_model& model, const Options& options, const OutputValues& values) {
  constexpr float kMost = 0.5F;
  if (!options.layout) return {};
  const auto decoder = make_decoder(*options.layout, model, options);
  std::string why;
  const auto tensors = tensor_set(model, *decoder, values);
  if (auto seen = objection(*decoder, options, model, *tensors, kMost)) {
    why = "on a picture of noise " + *seen;
  } else if (misses_first_class(*decoder, options, *tensors)) {
    why = "on a picture of noise its first class is not the background, which it is taken for";
  } else {
    const bool one_list =
        options.layout == Layout::kSsd && options.anchors.empty() && decoder->used_outputs().size() == 1;
    if (!one_list || !has(fits_by_shape(model, options), Layout::kYolox, 3)) return {};
    why = "it has three rows for each cell, whose fifth value is an objectness";
  }
  const std::vector<LayoutSuggestion> better = fitting_layouts(model, options, &values);
  return "layout '" + std::string(to_string(*options.layout)) + "' does not read this model: " + why + "; " +
         (better.empty() ? suggestion_text(model, better, nullptr) : "set {" + better.front().config + "}");
}

}  // namespace camd::plugins
