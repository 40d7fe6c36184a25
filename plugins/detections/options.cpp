// Reading the keys of `detections` from the model card and the configuration.
#include "plugins/detections/options.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <set>

#include "plugins/camd_plugin.h"
#include "plugins/detections/coco.hpp"
#include "plugins/json_object.hpp"

namespace camd::plugins {
namespace {

using nlohmann::json;

constexpr double kMaxPixels = 65536.0;

void read_scores(JsonObject& in, Options& options) {
  const json* value = in.raw("score");
  if (value == nullptr) return;
  if (!value->is_object()) {
    if (const auto score = in.number("score", 0.0, 1.0)) {
      options.score = static_cast<float>(*score);
      options.class_scores.clear();
    }
    return;
  }
  options.class_scores.clear();
  for (const auto& item : value->items()) {
    if (!item.value().is_number() || item.value().get<double>() < 0.0 || item.value().get<double>() > 1.0) {
      in.fail("score." + item.key(), "must be a number in 0..1");
    } else if (item.key() == "default") {
      options.score = item.value().get<float>();
    } else {
      options.class_scores.emplace_back(item.key(), item.value().get<float>());
    }
  }
}

void read_classes(JsonObject& in, Options& options) {
  const json* value = in.raw("classes");
  if (value == nullptr) return;
  if (value->is_string() && (*value == "coco" || *value == "coco91")) {
    options.classes = *value == "coco" ? coco_classes() : coco_classes_by_id();
    return;
  }
  // One word is one class, unless it is likely a list's name.
  if (value->is_string()) {
    auto word = value->get<std::string>();
    std::string start = word.substr(0, 4);
    std::transform(start.begin(), start.end(), start.begin(), [](unsigned char c) { return std::tolower(c); });
    if (start == "coco") {
      in.fail("classes", "'" + word + "' is no list of names; coco and coco91 are. Of one class: [" + word + "]");
      return;
    }
  }
  const auto names = in.texts("classes");
  if (!names) return;
  options.classes = *names;
  std::set<std::string> seen;
  for (const std::string& name : *names) {
    if (name.empty() || name.size() >= CAMD_CLASS_NAME_BYTES) {
      in.fail("classes", "'" + name + "' must have 1.." + std::to_string(CAMD_CLASS_NAME_BYTES - 1) + " bytes");
    }
    if (!seen.insert(name).second) in.fail("classes", "'" + name + "' stands there twice");
  }
  if (names->empty()) in.fail("classes", "must name one class at least");
}

// One anchor: a number (square) or [width, height].
bool read_anchor(const json& value, AnchorSize& size) {
  const auto side = [](const json& v, float& to) {
    if (!v.is_number()) return false;
    const auto got = v.get<double>();
    to = static_cast<float>(got);
    return got > 0.0 && got <= kMaxPixels;
  };
  if (value.is_array()) return value.size() == 2 && side(value[0], size.width) && side(value[1], size.height);
  if (!side(value, size.width)) return false;
  size.height = size.width;
  return true;
}

void read_anchors(JsonObject& in, Options& options) {
  const json* value = in.raw("anchors");
  if (value == nullptr) return;
  std::vector<std::vector<AnchorSize>> anchors;
  bool good = value->is_array() && !value->empty();
  for (std::size_t i = 0; good && i < value->size(); ++i) {
    const json& row = (*value)[i];
    good = row.is_array() && !row.empty() && row.size() <= 64;
    anchors.emplace_back();
    for (std::size_t j = 0; good && j < row.size(); ++j) {
      AnchorSize size;
      good = read_anchor(row[j], size);
      anchors.back().push_back(size);
    }
  }
  if (!good) {
    in.fail("anchors",
            "must be one list per stride of sides or [width, height] in network pixels, e.g. [[16, 32], [64, 128]]");
    return;
  }
  options.anchors = std::move(anchors);
}

void read_outputs(JsonObject& in, Options& options) {
  const json* value = in.raw("outputs");
  if (value == nullptr) return;
  if (!value->is_object()) {
    in.fail("outputs",
            "must map cls, obj, box, kps, offset, angle to output names, e.g. {cls: [cls_8, cls_16], box: [box_8, "
            "box_16]}");
    return;
  }
  JsonObject roles("config.outputs", *value);
  for (std::size_t r = 0; r < kRoleCount; ++r) {
    if (auto names = roles.texts(to_string(static_cast<Role>(r)))) options.outputs[r] = std::move(*names);
  }
  in.fail("outputs", roles);
}

constexpr std::array<std::pair<std::string_view, RowValue>, 12> kRowValues = {{{"x0", RowValue::kX0},
                                                                               {"y0", RowValue::kY0},
                                                                               {"x1", RowValue::kX1},
                                                                               {"y1", RowValue::kY1},
                                                                               {"cx", RowValue::kCentreX},
                                                                               {"cy", RowValue::kCentreY},
                                                                               {"w", RowValue::kWidth},
                                                                               {"h", RowValue::kHeight},
                                                                               {"score", RowValue::kScore},
                                                                               {"class", RowValue::kClass},
                                                                               {"angle", RowValue::kAngle},
                                                                               {"skip", RowValue::kSkip}}};

void read_row(JsonObject& in, Options& options) {
  const auto words = in.texts("row");
  if (!words) return;
  options.row.clear();
  for (const std::string& word : *words) {
    const auto known =
        std::find_if(kRowValues.begin(), kRowValues.end(), [&](const auto& value) { return value.first == word; });
    if (known == kRowValues.end()) {
      in.fail("row",
              "holds '" + word + "', which is none of x0, y0, x1, y1, cx, cy, w, h, score, class, angle and skip");
      return;
    }
    options.row.push_back(known->second);
  }
}

void read_background(JsonObject& in, Options& options) {
  const json* value = in.raw("background");
  if (value == nullptr) return;
  options.background_last = value->is_string() && value->get<std::string>() == "last";
  if (!options.background_last && !value->is_boolean()) {
    in.fail("background", "must be true, false or last");
    return;
  }
  options.background = options.background_last || value->get<bool>();
}

void apply(JsonObject& in, Options& options);

// A layout, or a name that stands for one with its keys; keys that are written beside the name count for more.
void read_layout(JsonObject& in, Options& options) {
  const auto layout = in.text("layout");
  if (!layout) return;
  const auto& known = known_layouts();
  if (std::any_of(known.begin(), known.end(), [&](const KnownLayout& k) { return k.name == *layout; })) {
    apply_known_layout(*layout, options);
    options.known = *layout;
    return;
  }
  const std::vector<std::string>& kinds = layout_kinds();
  if (std::find(kinds.begin(), kinds.end(), *layout) != kinds.end()) {
    options.layout = parse_layout(*layout);
    options.known.clear();
    return;
  }
  const auto near = nearest(*layout, layout_names());
  in.fail("layout", "'" + *layout + "' is none of " + joined(kinds) + ", nor a detector that camd knows" +
                        (near ? " (did you mean '" + *near + "'?)" : ""));
}

// NOLINTNEXTLINE(misc-no-recursion): a known name's keys name no other
void apply(JsonObject& in, Options& options) {
  read_layout(in, options);
  read_row(in, options);
  read_background(in, options);
  read_scores(in, options);
  read_classes(in, options);
  read_anchors(in, options);
  read_outputs(in, options);
  if (const auto v = in.number("nms", 0.0, 1.0)) options.nms = static_cast<float>(*v);
  if (const auto v = in.number("blend", 0.0, 1.0)) options.blend = static_cast<float>(*v);
  if (const auto v = in.integer("max", 1, 4096)) options.max = static_cast<int>(*v);
  if (const auto v = in.integers("strides", 1, 1024)) {
    options.strides.clear();
    for (const std::int64_t stride : *v) options.strides.push_back(static_cast<int>(stride));
    if (std::set<int>(options.strides.begin(), options.strides.end()).size() != options.strides.size()) {
      in.fail("strides", "holds a stride twice");
    }
  }
  if (const auto v = in.integer("anchors_per_cell", 1, 64)) options.anchors_per_cell = static_cast<int>(*v);
  if (const auto v = in.number("anchor_offset", -16.0, 16.0)) options.anchor_offset = static_cast<float>(*v);
  if (const auto v = in.number("anchor_shift", -kMaxPixels, kMaxPixels)) options.anchor_shift = static_cast<float>(*v);
  if (const auto v = in.numbers("variances", 0.0, 1000.0)) {
    if (v->size() == 2) {
      options.variances = {static_cast<float>((*v)[0]), static_cast<float>((*v)[1])};
    } else {
      in.fail("variances", "must be two numbers: of the centre and of the size");
    }
  }
  if (const auto v = in.integer("keypoints", 0, CAMD_MAX_KEYPOINTS)) options.keypoints = static_cast<int>(*v);
  if (const auto v = in.one_of("scores", {"probability", "percent", "logits"})) {
    options.scores = *v == "logits"    ? ScoreForm::kLogits
                     : *v == "percent" ? ScoreForm::kPercent
                                       : ScoreForm::kProbability;
  }
  if (const auto v = in.one_of("boxes", {"corners", "corners_yx", "centre", "priors", "priors_yx"})) {
    options.boxes = *v == "corners"      ? BoxForm::kCorners
                    : *v == "corners_yx" ? BoxForm::kCornersYx
                    : *v == "centre"     ? BoxForm::kCentre
                    : *v == "priors"     ? BoxForm::kPriors
                                         : BoxForm::kPriorsYx;
  }
  if (const auto v = in.boolean("relative")) options.relative = *v;
  if (const auto v = in.boolean("decoded")) options.decoded = *v;
  if (const auto v = in.boolean("oriented")) options.oriented = *v;
  if (const auto v = in.numbers("scale_xy", 1.0, 4.0)) options.scale_xy.assign(v->begin(), v->end());
  if (const auto v = in.one_of("sizes", {"exp", "square"})) {
    options.sizes = *v == "square" ? SizeForm::kSquare : SizeForm::kExp;
  }
  if (const auto v = in.boolean("softmax")) options.softmax = *v;
  if (const auto v = in.boolean("boxes_first")) options.boxes_first = *v;
  if (const auto v = in.boolean("clip_anchors")) options.clip_anchors = *v;
  if (const auto v = in.boolean("fitted_strides")) options.fitted_strides = *v;
  if (const auto v = in.number("size_limit", 1.0, 20000.0)) options.size_limit = static_cast<float>(*v);
  if (const auto v = in.one_of("centerness", {"product", "root"})) {
    options.centerness = *v == "root" ? Centerness::kRoot : Centerness::kProduct;
  }
}

// Anchors of three sizes, a third of an octave apart, each in three shapes.
struct NineAnchors {
  std::array<std::pair<double, double>, 3> shapes;  // width and height of a size of 1
  enum class Order : std::uint8_t { kSizeBySize, kShapeByShape } order = Order::kSizeBySize;
  double more = 0.0;          // pixels that each side counts beyond that
  bool whole_pixels = false;  // sizes are rounded down, and corners to the nearest
};

// `keys` and the anchors of five strides, whose sizes begin at four strides.
std::string nine_anchors(const NineAnchors& anchors, json keys) {
  keys["layout"] = "anchors";
  keys["background"] = false;
  for (int stride = 8; stride <= 128; stride *= 2) {
    json of_stride = json::array();
    for (std::size_t i = 0; i < 9; ++i) {
      const bool by_size = anchors.order == NineAnchors::Order::kSizeBySize;
      const std::size_t octave = by_size ? i / 3 : i % 3, shape = by_size ? i % 3 : i / 3;
      const double size = 4.0 * stride * std::exp2(static_cast<double>(octave) / 3.0);
      const auto side = [&](double share) {
        return anchors.whole_pixels ? 2.0 * std::nearbyint(0.5 * std::floor(size) * share)
                                    : size * share + anchors.more;
      };
      of_stride.push_back({side(anchors.shapes[shape].first), side(anchors.shapes[shape].second)});
    }
    keys["strides"].push_back(stride);
    keys["anchors"].push_back(of_stride);
  }
  return keys.dump();
}

// Anchors of the published networks, in network pixels: those of a stride in one list.
constexpr const char* kYolov3Anchors =
    "[[[10,13],[16,30],[33,23]],[[30,61],[62,45],[59,119]],[[116,90],[156,198],[373,326]]]";
constexpr const char* kYolov4Anchors =
    "[[[12,16],[19,36],[40,28]],[[36,75],[76,55],[72,146]],[[142,110],[192,243],[459,401]]]";
constexpr const char* kTinyAnchors = "[[[10,14],[23,27],[37,58]],[[81,82],[135,169],[344,319]]]";
constexpr const char* kTinyYolov4Anchors = "[[[23,27],[37,58],[81,82]],[[81,82],[135,169],[344,319]]]";
constexpr const char* kYolov5P6Anchors =
    "[[[19,27],[44,40],[38,94]],[[96,68],[86,152],[180,137]],[[140,301],[303,264],[238,542]],"
    "[[436,615],[739,380],[925,792]]]";
// Darknet writes those of YOLOv2 in cells of 32 pixels.
constexpr const char* kYolov2Anchors =
    "[[[18.32736,21.67632],[59.98273,66.00096],[106.82976,175.17888],[252.25024,112.88896],[312.65664,293.38496]]]";
constexpr const char* kTinyYolov2Anchors =
    "[[[34.56,38.08],[109.44,141.12],[212.16,364.16],[301.44,163.52],[531.84,336.64]]]";

// Maps that the graph has not decoded. `more`: keys beside the anchors and the strides.
std::string yolo_heads(const char* strides, const char* anchors, const char* more = "") {
  return std::string(R"({"layout":"yolo-heads","scores":"logits","strides":)") + strides + R"(,"anchors":)" + anchors +
         more + "}";
}

// What e^d is cut off at in torchvision (BoxCoder), detectron2 (Box2BoxTransform) and MMDetection (DeltaXYWHBBoxCoder).
constexpr double kMostGrowth = 1000.0 / 16.0;

}  // namespace

void apply_known_layout(std::string_view name, Options& options) {  // NOLINT(misc-no-recursion): as apply()
  for (const KnownLayout& known : known_layouts()) {
    if (known.name != name) continue;
    JsonObject keys("layout " + std::string(name), std::string_view(known.keys));
    apply(keys, options);
  }
}

const std::vector<std::string>& layout_kinds() {
  static const std::vector<std::string> kinds = {
      "anchors",    "scrfd",     "yunet",      "ssd",       "yolox", "nanodet",   "fastestdet", "yolo-fastestv2",
      "yolo-heads", "centernet", "centerface", "detectnet", "fomo",  "mediapipe", "rows"};
  return kinds;
}

const std::vector<std::string>& layout_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = layout_kinds();
    for (const KnownLayout& known : known_layouts()) all.emplace_back(known.name);
    return all;
  }();
  return names;
}

const std::vector<KnownLayout>& known_layouts() {
  constexpr const char* kAnchored = R"({"layout":"yolox","decoded":true,"anchors_per_cell":3})";
  constexpr const char* kFree = R"({"layout":"ssd","boxes":"centre","relative":false,"background":false})";
  constexpr const char* kCorners = R"({"layout":"ssd","relative":false,"background":false})";
  constexpr const char* kQueries = R"({"layout":"ssd","boxes":"centre","scores":"logits","background":false,"nms":1})";
  constexpr double kThin = 0.70710678118654752, kWide = 1.41421356237309505;  // of twice as much in one as in the other
  constexpr const char* kTurned = R"({"layout":"ssd","boxes":"centre","relative":false,"oriented":true})";
  static const std::vector<KnownLayout> known = {
      {"yolov3", kAnchored},
      {"yolov5", kAnchored},
      {"yolov5-face", R"({"layout":"yolox","decoded":true,"anchors_per_cell":3,"keypoints":5})"},
      {"yolov7", kAnchored},
      // pjreddie/darknet and AlexeyAB/darknet, cfg/*.cfg, src/region_layer.c and src/yolo_layer.c
      {"yolov2-heads", yolo_heads("[32]", kYolov2Anchors, R"(,"softmax":true)")},
      {"yolov2-tiny-heads", yolo_heads("[32]", kTinyYolov2Anchors, R"(,"softmax":true)")},
      {"yolov3-heads", yolo_heads("[8,16,32]", kYolov3Anchors)},
      {"yolov3-tiny-heads", yolo_heads("[16,32]", kTinyAnchors)},
      {"yolov4-heads", yolo_heads("[8,16,32]", kYolov4Anchors, R"(,"scale_xy":[1.2,1.1,1.05])")},
      {"yolov4-tiny-heads", yolo_heads("[16,32]", kTinyYolov4Anchors, R"(,"scale_xy":[1.05])")},
      // ultralytics/yolov5, class Detect and the files of its models; WongKinYiu/yolov7, the files of cfg/deploy
      {"yolov5-heads", yolo_heads("[8,16,32]", kYolov3Anchors, R"(,"scale_xy":[2],"sizes":"square")")},
      {"yolov5-p6-heads", yolo_heads("[8,16,32,64]", kYolov5P6Anchors, R"(,"scale_xy":[2],"sizes":"square")")},
      {"yolov7-heads", yolo_heads("[8,16,32]", kYolov4Anchors, R"(,"scale_xy":[2],"sizes":"square")")},
      // ultralytics/ultralytics, nn/modules/head.py (Detect): sixteen bins a side in front of the classes
      {"yolov8-heads", R"({"layout":"nanodet","scores":"logits","boxes_first":true})"},
      {"yolov6", R"({"layout":"yolox","decoded":true})"},
      // open-mmlab/mmyolo, models/dense_heads/{yolov6,yolov8,ppyoloe}_head.py: distances from the middle of a cell
      {"mmyolo-heads", R"({"layout":"scrfd","anchors_per_cell":1,"anchor_offset":0.5,"scores":"logits"})"},
      {"yolov8", kFree},
      {"yolov9", kFree},
      {"yolo11", kFree},
      {"yolo12", kFree},
      {"yolov10", R"({"layout":"rows"})"},
      {"yolo26", R"({"layout":"rows"})"},
      {"yolov8-pose", R"({"layout":"ssd","boxes":"centre","relative":false,"keypoints":17})"},
      {"yolo11-pose", R"({"layout":"ssd","boxes":"centre","relative":false,"keypoints":17})"},
      {"yolo26-pose", R"({"layout":"rows","keypoints":17})"},
      {"yolov8-obb", kTurned},
      {"yolo11-obb", kTurned},
      {"yolo26-obb", R"({"layout":"rows","row":["cx","cy","w","h","score","class","angle"]})"},
      {"yolonas", kCorners},
      {"ppyoloe", kCorners},
      {"damoyolo", kCorners},
      // The number of a box's level, in front of the scores, is where a background would be.
      {"fcos", R"({"layout":"ssd","relative":false,"background":true})"},
      {"detr", R"({"layout":"ssd","boxes":"centre","scores":"logits","background":"last","nms":1})"},
      {"rtdetr", kQueries},
      {"dfine", kQueries},
      {"deim", kQueries},
      {"rfdetr", kQueries},
      {"rtmdet", R"({"layout":"rows"})"},
      {"rtmo", R"({"layout":"rows"})"},
      // open-mmlab/mmrotate, as MMDeploy puts out its boxes: classes have a tensor of their own
      {"mmrotate", R"({"layout":"rows","row":["cx","cy","w","h","angle","score"]})"},
      // opencv/opencv_zoo, face_detection_yunet_2021dec, and ShiqiYu/libfacedetection.train before 2022
      {"yunet-2021", R"({"layout":"anchors","strides":[8,16,32,64],"background":true,"keypoints":5,"centerness":"root",
           "anchors":[[10,16,24],[32,48],[64,96],[128,192,256]]})"},
      // Tan et al., "EfficientDet", 2020; google/automl, efficientdet/tf2/anchors.py
      {"efficientdet", nine_anchors({.shapes = {{{1.0, 1.0}, {1.4, 0.7}, {0.7, 1.4}}}},
                                    {{"boxes", "priors_yx"}, {"variances", {1, 1}}, {"scores", "logits"}})},
      // keras-team/keras-cv, layers/object_detection/anchor_generator.py
      {"kerascv-retinanet",
       nine_anchors({.shapes = {{{kThin, kWide}, {1.0, 1.0}, {kWide, kThin}}}},
                    {{"boxes", "priors_yx"}, {"variances", {0.1, 0.2}}, {"scores", "logits"}, {"clip_anchors", true}})},
      // NVIDIA/retinanet-examples, odtk/box.py: corners are whole pixels, both of which belong to the box.
      {"odtk-retinanet", nine_anchors({.shapes = {{{1.0, 1.0}, {kThin, kWide}, {kWide, kThin}}}, .more = 1.0},
                                      {{"boxes", "priors"}, {"variances", {1, 1}}, {"anchor_shift", 0.5}})},
      // pytorch/vision, torchvision/models/detection/retinanet.py (_default_anchorgen), anchor_utils.py, _utils.py
      // (BoxCoder)
      {"torchvision-retinanet", nine_anchors({.shapes = {{{kWide, kThin}, {1.0, 1.0}, {kThin, kWide}}},
                                              .order = NineAnchors::Order::kShapeByShape,
                                              .whole_pixels = true},
                                             {{"boxes", "priors"},
                                              {"variances", {1, 1}},
                                              {"scores", "logits"},
                                              {"anchor_offset", 0},
                                              {"fitted_strides", true},
                                              {"size_limit", kMostGrowth}})},
      // open-mmlab/mmdetection, configs/_base_/models/retinanet_r50_fpn.py, AnchorGenerator, DeltaXYWHBBoxCoder
      {"mmdet-retinanet", nine_anchors({.shapes = {{{kWide, kThin}, {1.0, 1.0}, {kThin, kWide}}},
                                        .order = NineAnchors::Order::kShapeByShape},
                                       {{"boxes", "priors"},
                                        {"variances", {1, 1}},
                                        {"scores", "logits"},
                                        {"anchor_offset", 0},
                                        {"size_limit", kMostGrowth}})},
      // facebookresearch/detectron2, configs/Base-RetinaNet.yaml, anchor_generator.py, box_regression.py
      {"detectron2-retinanet",
       nine_anchors({.shapes = {{{kWide, kThin}, {1.0, 1.0}, {kThin, kWide}}}}, {{"boxes", "priors"},
                                                                                 {"variances", {1, 1}},
                                                                                 {"scores", "logits"},
                                                                                 {"anchor_offset", 0},
                                                                                 {"size_limit", kMostGrowth}})},
      // yhenon/pytorch-retinanet, retinanet/anchors.py and utils.py (BBoxTransform)
      {"yhenon-retinanet", nine_anchors({.shapes = {{{kWide, kThin}, {1.0, 1.0}, {kThin, kWide}}},
                                         .order = NineAnchors::Order::kShapeByShape},
                                        {{"boxes", "priors"}, {"variances", {0.1, 0.2}}})},
      // open-mmlab/mmdetection, configs/atss: one anchor of eight strides, whose centre is the cell's corner
      {"mmdet-atss", json{{"layout", "anchors"},
                          {"boxes", "priors"},
                          {"variances", {0.1, 0.2}},
                          {"scores", "logits"},
                          {"background", false},
                          {"keypoints", 0},
                          {"anchor_offset", 0},
                          {"size_limit", kMostGrowth},
                          {"centerness", "product"},
                          {"strides", {8, 16, 32, 64, 128}},
                          {"anchors", {{64}, {128}, {256}, {512}, {1024}}}}
                         .dump()},
      // open-mmlab/mmdetection, mmdet/models/dense_heads/fcos_head.py
      {"mmdet-fcos",
       R"({"layout":"scrfd","anchors_per_cell":1,"anchor_offset":0.5,"decoded":true,"scores":"logits","keypoints":0,
           "centerness":"product","strides":[8,16,32,64,128]})"},
      // pytorch/vision, torchvision/models/detection/fcos.py and _utils.py (BoxLinearCoder)
      {"torchvision-fcos",
       R"({"layout":"scrfd","anchors_per_cell":1,"anchor_offset":0,"scores":"logits","keypoints":0,
           "centerness":"root","fitted_strides":true,"strides":[8,16,32,64,128]})"},
      // Li et al., "Generalized Focal Loss", 2020; open-mmlab/mmdetection, mmdet/models/dense_heads/gfl_head.py
      {"gfl", R"({"layout":"nanodet","anchor_offset":0,"scores":"logits"})"},
      // deepinsight/insightface, RetinaFace: the wider anchor of a stride first, and a cell's anchors around its pixels
      {"insightface-retinaface",
       R"({"layout":"anchors","background":true,"strides":[8,16,32],"anchors":[[32,16],[128,64],[512,256]],
           "anchor_offset":0,"anchor_shift":7.5,"variances":[1,1]})"},
      // PaddlePaddle/PaddleDetection, configs/picodet/_base_/picodet_v2.yml (cell_offset)
      {"picodet", R"({"layout":"nanodet"})"},
      {"blazeface", R"({"layout":"mediapipe","scores":"logits"})"},
      {"blazepalm", R"({"layout":"mediapipe","scores":"logits"})"},
  };
  return known;
}

std::string_view to_string(Layout layout) noexcept {
  switch (layout) {
    case Layout::kAnchors: return "anchors";
    case Layout::kScrfd: return "scrfd";
    case Layout::kYunet: return "yunet";
    case Layout::kSsd: return "ssd";
    case Layout::kYolox: return "yolox";
    case Layout::kNanodet: return "nanodet";
    case Layout::kFastestdet: return "fastestdet";
    case Layout::kFastestv2: return "yolo-fastestv2";
    case Layout::kYoloHeads: return "yolo-heads";
    case Layout::kCenternet: return "centernet";
    case Layout::kCenterface: return "centerface";
    case Layout::kDetectnet: return "detectnet";
    case Layout::kFomo: return "fomo";
    case Layout::kMediapipe: return "mediapipe";
    case Layout::kRows: return "rows";
  }
  return "?";
}

Layout parse_layout(std::string_view name) noexcept {
  for (const Layout layout :
       {Layout::kScrfd, Layout::kYunet, Layout::kSsd, Layout::kYolox, Layout::kNanodet, Layout::kFastestdet,
        Layout::kFastestv2, Layout::kYoloHeads, Layout::kCenternet, Layout::kCenterface, Layout::kDetectnet,
        Layout::kFomo, Layout::kMediapipe, Layout::kRows}) {
    if (name == to_string(layout)) return layout;
  }
  return Layout::kAnchors;
}

std::string_view to_string(Role role) noexcept {
  switch (role) {
    case Role::kCls: return "cls";
    case Role::kObj: return "obj";
    case Role::kBox: return "box";
    case Role::kKps: return "kps";
    case Role::kOffset: return "offset";
    case Role::kAngle: return "angle";
  }
  return "?";
}

std::string_view to_string(ScoreForm form) noexcept {
  switch (form) {
    case ScoreForm::kProbability: return "probability";
    case ScoreForm::kPercent: return "percent";
    case ScoreForm::kLogits: return "logits";
  }
  return "?";
}

Options read_options(std::string_view card_json, std::string_view config_json) {
  Options options;
  JsonObject card("model card", card_json);
  apply(card, options);
  card.finish(false);
  JsonObject config("config", config_json);
  apply(config, options);
  config.finish();
  return options;
}

void check_options(const camd::plugin::Check& check) {
  Options options;
  JsonObject config("config", check.config_json());
  apply(config, options);
  config.report(check);
}

}  // namespace camd::plugins
