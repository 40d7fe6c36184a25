// Which layouts `detections` suggests for heads that a graph has not decoded. Their shapes are those of many projects.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "layout_advice.hpp"

namespace camd::plugins::testing {
namespace CAMD_TEST_FILE {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::IsEmpty;

// [1,193,35] of 96x96: three scores and four times eight bins at each cell of the strides 8, 16, 32 and 64.
FakeModel nanodet_plus(float lowest_score, float highest_score) {
  FakeModel model(96, 96);
  FakeTensor& rows = model.output("output", {1, 144 + 36 + 9 + 4, 3 + 32});
  Random random;
  for (std::int64_t i = 0; i < 193; ++i) {
    for (std::int64_t k = 0; k < 35; ++k) {
      at(rows, i, k) = k < 3 ? random.from(lowest_score, highest_score) : random.from(-3.0F, 3.0F);
    }
  }
  return model;
}

TEST(LayoutSuggestions, NameNanodetPlusWhichHasFourStridesWhereYoloxHasThree) {
  FakeModel scores = nanodet_plus(0.0F, 1.0F), logits = nanodet_plus(-4.0F, 2.0F);
  EXPECT_THAT(by_shape(scores), ElementsAre("layout: nanodet, anchor_offset: 0"));
  EXPECT_THAT(by_values(scores), ElementsAre("layout: nanodet, anchor_offset: 0"));
  EXPECT_THAT(by_values(logits), ElementsAre("layout: nanodet, anchor_offset: 0, scores: logits"));
}

// As YOLOv6-N6, whose objectness is 1 everywhere.
TEST(LayoutSuggestions, NameYolov6OfFourStridesBesideNanodetPlus) {
  constexpr int kSide = 128, kClasses = 80;
  std::vector<float> rows;
  Random random;
  for (const int stride : {8, 16, 32, 64}) {
    for (int cell = 0; cell < kSide / stride * (kSide / stride); ++cell) {
      const int columns = kSide / stride, x = cell % columns * stride, y = cell / columns * stride;
      rows.insert(rows.end(), {static_cast<float>(x) + 0.5F * static_cast<float>(stride),
                               static_cast<float>(y) + 0.5F * static_cast<float>(stride), 20, 30, 1});
      for (int k = 0; k < kClasses; ++k) rows.push_back(random.from(0, 0.6F));
    }
  }
  FakeModel model(kSide, kSide);
  const auto count = static_cast<std::int64_t>(rows.size()) / (5 + kClasses);
  model.output("outputs", {1, count, 5 + kClasses}, rows);
  EXPECT_EQ(by_values(model).at(0), "layout: yolov6");
}

// Scores of eighty classes and four times eight bins, each in a tensor of its own, of 3 or 4 strides.
FakeModel bins(int strides) {
  std::vector<Filled> outputs;
  for (const bool scores : {true, false}) {
    for (std::int64_t i = 0, cells = 16; i < strides; ++i, cells /= 2)
      outputs.push_back({"output" + std::to_string(outputs.size()),
                         {1, cells * cells, scores ? 80 : 32},
                         scores ? 0.0F : -3.0F,
                         scores ? 1.0F : 3.0F});
  }
  return model_of(128, outputs);
}

TEST(LayoutSuggestions, NameNanodetWhoseClassesAreAsManyAsOtherNetworksValuesInAll) {
  FakeModel model = bins(3);
  EXPECT_THAT(by_shape(model), ElementsAre("layout: nanodet"));
  EXPECT_THAT(by_values(model), ElementsAre("layout: nanodet"));
}

TEST(LayoutSuggestions, NamePicodetByFourStridesWhereNanodetHasThree) {
  FakeModel model = bins(4);
  EXPECT_THAT(by_shape(model), ElementsAre("layout: picodet"));
  EXPECT_THAT(by_values(model), ElementsAre("layout: picodet"));
  const OutputValues values = values_of(model);
  EXPECT_EQ(suggest_layouts(model.model(), "{}", &values).front().input,
            "color: rgb, mean: [123.675, 116.28, 103.53], scale: [0.0171248, 0.0175070, 0.0174292], resize: stretch");
}

TEST(LayoutSuggestions, NameNanodetByTheValuesOfRowsThatAreYoloxsByShape) {
  FakeModel model(96, 96);
  FakeTensor& rows = model.output("output", {1, 144 + 36 + 9, 80 + 32});
  Random random;
  for (std::int64_t i = 0; i < 189; ++i) {
    for (std::int64_t k = 0; k < 112; ++k) at(rows, i, k) = k < 80 ? random.from(0, 1) : random.from(-3, 3);
  }
  EXPECT_THAT(by_values(model), ElementsAre("layout: nanodet"));
}

// Scores and distributions of sixteen bins, as YOLOv8's network has them before its graph decodes them.
TEST(LayoutSuggestions, FeedHeadsOfSixteenBinsAsYolov8) {
  FakeModel model = model_of(64, {{"1", {1, 64, 8, 8}, -3, 3},
                                  {"2", {1, 80, 8, 8}, -9, 1},
                                  {"3", {1, 64, 4, 4}, -3, 3},
                                  {"4", {1, 80, 4, 4}, -9, 1},
                                  {"5", {1, 64, 2, 2}, -3, 3},
                                  {"6", {1, 80, 2, 2}, -9, 1}});
  EXPECT_THAT(by_shape(model), ElementsAre("layout: nanodet"));
  EXPECT_THAT(by_values(model), ElementsAre("layout: nanodet, scores: logits"));
  const OutputValues values = values_of(model);
  EXPECT_EQ(suggest_layouts(model.model(), "{}", &values).front().input, "color: rgb, scale: 0.00392157");
}

// As Rockchip's exports of YOLOv8 have them: distributions, scores, and the scores' sum.
TEST(LayoutSuggestions, TellTheSumOfScoresFromTheScores) {
  for (const std::int64_t classes : {80, 20}) {
    std::vector<Filled> outputs;
    for (const std::int64_t n : {8, 4, 2}) {
      for (const std::int64_t values : {std::int64_t{64}, classes, std::int64_t{1}}) {
        const float low = values == 64 ? -3.0F : 0.0F, high = values == 64 ? 3.0F : 1.0F;
        outputs.push_back({std::to_string(outputs.size()), {1, values, n, n}, low, high});
      }
    }
    FakeModel model = model_of(64, outputs);
    EXPECT_THAT(by_shape(model), ElementsAre("layout: nanodet"));
    EXPECT_THAT(by_values(model), ElementsAre("layout: nanodet"));
  }
}

TEST(LayoutSuggestions, PutYFirstInTensorflowsBoxesAmongWhichNothingWasChosen) {
  FakeModel model(64, 64);
  FakeTensor& boxes = model.output("raw_detection_boxes", {1, 100, 4});
  FakeTensor& scores = model.output("raw_detection_scores", {1, 100, 3});
  Random random;
  for (std::int64_t i = 0; i < 100; ++i) {
    const float y = random.from(0, 0.5F), x = random.from(0, 0.5F);
    for (const auto& [k, value] : {std::pair{0, y}, {1, x}, {2, y + 0.2F}, {3, x + 0.3F}}) at(boxes, i, k) = value;
    for (std::int64_t k = 0; k < 3; ++k) at(scores, i, k) = random.from(0, 0.3F);
  }
  EXPECT_THAT(by_shape(model), ElementsAre("layout: ssd, boxes: corners_yx"));
  EXPECT_THAT(by_values(model), ElementsAre("layout: ssd, boxes: corners_yx, background: false"));
}

// As the maps that masks are made of stand beside rows whose values no layout reads.
TEST(LayoutSuggestions, AreNoFastestdetWhereAnythingStandsBesideItsMap) {
  FakeModel alone = model_of(64, {{"maps", {1, 32, 16, 16}, 0, 1}});
  FakeModel beside = model_of(64, {{"rows", {1, 100, 40}, -900, 900}, {"maps", {1, 32, 16, 16}, 0, 1}});
  EXPECT_THAT(by_values(alone), ElementsAre("layout: fastestdet"));
  EXPECT_THAT(by_values(beside), IsEmpty());
}

// Three rows for each cell of four strides: a box, an objectness, one score, and three values for each of 17 points.
TEST(LayoutSuggestions, NameYolov7sPosesByTheirWidthAndTheirValues) {
  FakeModel model(128, 128);
  FakeTensor& rows = model.output("output", {1, 1020, 57});
  Random random;
  std::int64_t row = 0;
  for (const int stride : {8, 16, 32, 64}) {
    for (int i = 0, columns = 128 / stride; i < 3 * columns * columns; ++i, ++row) {
      at(rows, row, 0) = (static_cast<float>(i % columns) + 0.5F) * static_cast<float>(stride);
      at(rows, row, 1) = (static_cast<float>(i / columns % columns) + 0.5F) * static_cast<float>(stride);
      at(rows, row, 2) = at(rows, row, 3) = 12;
      at(rows, row, 4) = random.from(0, 0.2F);
      at(rows, row, 5) = random.from(0, 0.9F);
      for (std::int64_t k = 6; k < 57; ++k) at(rows, row, k) = k % 3 == 2 ? random.from(0, 1) : random.from(-9, 70);
    }
  }
  EXPECT_THAT(by_values(model), ElementsAre("layout: yolox, decoded: true, anchors_per_cell: 3, keypoints: 17"));
}

// [1,k,h,w] of three strides.
FakeModel maps(std::int64_t values, float low, float high) {
  return model_of(
      64,
      {{"1", {1, values, 8, 8}, low, high}, {"2", {1, values, 4, 4}, low, high}, {"3", {1, values, 2, 2}, low, high}});
}

TEST(LayoutSuggestions, AreNoneForMapsOfSeveralBoxesWhereNothingTellsWhoseTheyAre) {
  for (const float low : {-5.0F, 0.0F}) {
    FakeModel yolov5 = maps(255, low, 1), yolov8 = maps(144, low, 1);
    EXPECT_THAT(by_shape(yolov5), IsEmpty());
    EXPECT_THAT(by_values(yolov5), IsEmpty());
    EXPECT_THAT(by_values(yolov8), IsEmpty());
  }
  FakeModel yolov5 = maps(255, -5, 1);
  EXPECT_EQ(suggestion_text(yolov5.model(), {}, nullptr),
            "the model's outputs, 1 [1,255,8,8], 2 [1,255,4,4], 3 [1,255,2,2], look like boxes that its graph has not "
            "decoded, and nothing in the file tells whose rules they follow: set `layout` to that of the project which "
            "trained it, one of yolov5-heads (YOLOv5, 80 classes), yolov7-heads (YOLOv7, 80 classes), yolov4-heads "
            "(YOLOv4, 80 classes), yolov3-heads (YOLOv3, 80 classes), yolov8-heads (YOLOv8 to 12, 191 classes)");
  FakeModel apart = model_of(64, {{"1", {1, 3, 4, 4, 85}, -5, 1}, {"2", {1, 3, 2, 2, 85}, -5, 1}});
  EXPECT_THAT(suggestion_text(apart.model(), {}, nullptr),
              EndsWith("one of yolov4-tiny-heads (YOLOv4-tiny), yolov3-tiny-heads (YOLOv3-tiny)"));
}

TEST(LayoutSuggestions, AreToExportAnewWhereNoLayoutReadsSuchMaps) {
  FakeModel model = maps(23, -5, 1);
  EXPECT_EQ(suggestion_text(model.model(), {}, nullptr),
            "the model's outputs, 1 [1,23,8,8], 2 [1,23,4,4], 3 [1,23,2,2], look like boxes that its graph has not "
            "decoded, and camd knows no layout of such maps: export the model with its own decoding");
}

TEST(LayoutSuggestions, MeasureMmyolosHeadsFromTheMiddleOfACellAndRtmdetsFromItsCorner) {
  const std::vector<std::string> yolov8 = {"bbox_head.head_module.cls_preds.0.2.weight",
                                           "/bbox_head/head_module/reg_preds.1/Conv"};
  EXPECT_EQ(layout_of_project(yolov8), "mmyolo-heads");
  FakeModel model = model_of(64, {{"1", {1, 80, 8, 8}, -5, 1},
                                  {"2", {1, 80, 4, 4}, -5, 1},
                                  {"3", {1, 80, 2, 2}, -5, 1},
                                  {"4", {1, 4, 8, 8}, 0, 3},
                                  {"5", {1, 4, 4, 4}, 0, 3},
                                  {"6", {1, 4, 2, 2}, 0, 3}});
  EXPECT_EQ(by_values(model).at(0), "layout: scrfd, anchors_per_cell: 1, scores: logits");
  EXPECT_THAT(by_values(model, R"({"layout":"mmyolo-heads"})"), ElementsAre("layout: mmyolo-heads"));
}

TEST(LayoutSuggestions, NameTheHeadsOfAYoloWhereItsLayersTellWhichItIs) {
  const std::vector<std::string> yolov5 = {"model.23.m.0.cv1.conv.weight", "model.24.m.0.weight"};
  const std::vector<std::string> yolov7 = {"model.24.conv.weight", "/model.105/m.0/Conv"};
  const std::vector<std::string> yolov8 = {"model.22.cv2.0.2.weight", "model.22.cv3.0.2.weight"};
  EXPECT_EQ(layout_of_project(yolov5), "yolov5-heads");
  EXPECT_EQ(layout_of_project(yolov7), "yolov7-heads");
  EXPECT_EQ(layout_of_project(yolov8), "yolov8-heads");
  FakeModel anchored = maps(255, -5, 1), sigmoids = maps(255, 0, 1), bins = maps(144, -5, 1);
  EXPECT_THAT(by_values(anchored, R"({"layout":"yolov5-heads"})"), ElementsAre("layout: yolov5-heads"));
  EXPECT_THAT(by_values(sigmoids, R"({"layout":"yolov7-heads"})"),
              ElementsAre("layout: yolov7-heads, scores: probability"));
  EXPECT_THAT(by_values(bins, R"({"layout":"yolov8-heads"})"), ElementsAre("layout: yolov8-heads"));
}

// Three maps a stride: of classes, of boxes and of objectness, of three anchors each.
TEST(LayoutSuggestions, NameMmyolosAnchoredHeadsAndMmdetectionsYolov3ByTheNamesOfTheirLayers) {
  const std::string head = "bbox_head.head_module.";
  EXPECT_EQ(layout_of_project(std::vector<std::string>{head + "convs_pred.0.weight", head + "convs_pred.2.weight"}),
            "yolov5-heads");
  EXPECT_EQ(layout_of_project(std::vector<std::string>{"/bbox_head/head_module/convs_pred.0/Conv"}), "yolov5-heads");
  EXPECT_EQ(layout_of_project(std::vector<std::string>{head + "convs_pred.0.weight", head + "convs_pred.3.weight"}),
            "yolov5-p6-heads");
  EXPECT_EQ(layout_of_project(std::vector<std::string>{head + "convs_pred.0.1.weight", head + "convs_pred.2.1.bias"}),
            "yolov7-heads");
  EXPECT_EQ(layout_of_project(std::vector<std::string>{head + "main_convs_pred.3.2.weight"}), "yolov5-p6-heads");
  EXPECT_EQ(layout_of_project(std::vector<std::string>{"bbox_head.convs_pred.0.weight"}), "yolov3-heads");
  std::vector<Filled> outputs;
  for (const std::int64_t values : {6, 12, 3}) {
    for (const std::int64_t side : {8, 4, 2})
      outputs.push_back({std::to_string(values) + "x" + std::to_string(side), {1, values, side, side}, -5, 1});
  }
  FakeModel model = model_of(64, outputs);
  EXPECT_THAT(by_values(model, R"({"layout":"yolov5-heads"})"), ElementsAre("layout: yolov5-heads"));
  EXPECT_THAT(by_values(model), IsEmpty());
}

// Exports of old have the maps beside the boxes that the graph has decoded from them.
TEST(LayoutSuggestions, PreferDecodedBoxesToTheMapsBesideThem) {
  FakeModel model = model_of(64, {{"output", {1, 252, 85}, 0, 1},
                                  {"1", {1, 3, 8, 8, 85}, -5, 1},
                                  {"2", {1, 3, 4, 4, 85}, -5, 1},
                                  {"3", {1, 3, 2, 2, 85}, -5, 1}});
  for (std::int64_t i = 0; i < 252; ++i) {
    for (std::int64_t k = 0; k < 4; ++k) at(model.outputs[0], i, k) = k < 2 ? 32.0F : 20.0F;
  }
  EXPECT_THAT(by_shape(model), ElementsAre("layout: yolox, decoded: true, anchors_per_cell: 3"));
}

// Every YOLOv8 has layers of these names, and nearly all have decoded their boxes.
TEST(LayoutSuggestions, DoNotTakeTheDecodedRowsOfYolov8ForItsHeads) {
  FakeModel model = model_of(64, {{"output0", {1, 84, 84}, 0, 1}});
  EXPECT_THAT(by_shape(model), ElementsAre("layout: ssd, boxes: centre, relative: false"));
  EXPECT_EQ(suggest_layouts(model.model(), R"({"layout":"yolov8-heads"})", nullptr).size(), 1U);
}

TEST(LayoutSuggestions, AreNoneForOneMapOfLogitsWhichFastestdetHasNot) {
  FakeModel model = model_of(416, {{"grid", {1, 125, 13, 13}, -5, 5}});  // Tiny YOLOv2's five boxes a cell
  EXPECT_THAT(by_values(model), IsEmpty());
  EXPECT_THAT(suggestion_text(model.model(), {}, nullptr),
              EndsWith("one of yolov2-heads (YOLOv2), yolov2-tiny-heads (YOLOv2-tiny)"));
  EXPECT_THAT(by_values(model, R"({"layout":"yolov2-tiny-heads"})"), ElementsAre("layout: yolov2-tiny-heads"));
}

TEST(LayoutSuggestions, NameKerasYolov3WhoseBoxesBeginWithY) {
  FakeModel model(416, 416);
  FakeTensor& boxes = model.output("yolonms_layer_1/ExpandDims_1:0", {1, 300, 4});
  FakeTensor& scores = model.output("yolonms_layer_1/ExpandDims_3:0", {1, 80, 300});
  Random random;
  for (std::int64_t i = 0; i < 300; ++i) {
    for (std::int64_t k = 0; k < 4; ++k) at(boxes, i, k) = random.from(0, 200) + (k < 2 ? 0.0F : 200.0F);
  }
  for (float& score : scores.values) score = random.from(0, 1);
  EXPECT_THAT(by_shape(model), ElementsAre("layout: ssd, boxes: corners_yx, relative: false"));
  EXPECT_THAT(by_values(model), ElementsAre("layout: ssd, boxes: corners_yx, relative: false, background: false"));
}

// Background and faces of two anchors in maps of three strides; with `shares` both of an anchor add up to 1.
FakeModel face_maps(bool shares) {
  std::vector<Filled> outputs;
  for (const std::int64_t n : {8, 4, 2}) {
    const std::string stride = std::to_string(64 / n);
    outputs.push_back({"face_rpn_cls_prob_reshape_stride" + stride, {1, 4, n, n}, 0, 0.4F});
    outputs.push_back({"face_rpn_bbox_pred_stride" + stride, {1, 8, n, n}, -0.2F, 0.2F});
    outputs.push_back({"face_rpn_landmark_pred_stride" + stride, {1, 20, n, n}, -0.2F, 0.2F});
  }
  FakeModel model = model_of(64, outputs);
  for (std::size_t i = 0; shares && i < 9; i += 3) {
    std::vector<float>& scores = model.outputs[i].values;
    const std::size_t half = scores.size() / 2;
    for (std::size_t k = 0; k < half; ++k) scores[k] = 1.0F - scores[half + k];
  }
  return model;
}

TEST(LayoutSuggestions, TellInsightfacesRetinafaceByMapsWithABackground) {
  FakeModel faces = face_maps(true), classes = face_maps(false);
  EXPECT_THAT(by_values(faces), ElementsAre("layout: insightface-retinaface"));
  EXPECT_THAT(by_values(faces, R"({"classes":["face"]})"), ElementsAre("layout: insightface-retinaface"));
  EXPECT_THAT(by_values(classes), ElementsAre("layout: anchors, background: false"));
  EXPECT_EQ(doubt(classes, R"({"layout":"anchors"})"),
            "layout 'anchors' does not read this model: on a picture of noise its first class is not the background, "
            "which it is taken for; set {layout: anchors, background: false}");
}

TEST(LayoutSuggestions, TellBoxesFromTheClassesOfNanodetWhereNoNameTellsThem) {
  FakeModel rtmdet = model_of(64, {{"1", {1, 80, 8, 8}, -9, 1},
                                   {"2", {1, 80, 4, 4}, -9, 1},
                                   {"3", {1, 80, 2, 2}, -9, 1},
                                   {"4", {1, 4, 8, 8}, 1, 20},
                                   {"5", {1, 4, 4, 4}, 1, 20},
                                   {"6", {1, 4, 2, 2}, 1, 20}});
  EXPECT_THAT(by_values(rtmdet), ElementsAre("layout: scrfd, anchors_per_cell: 1, decoded: true, scores: logits"));
}

TEST(LayoutSuggestions, FeedRetinafaceOfPytorchWithTheMeanThatItWasTrainedWith) {
  FakeModel model =
      model_of(64, {{"output0", {1, 168, 4}, -1, 1}, {"586", {1, 168, 2}, 0, 1}, {"585", {1, 168, 10}, -1, 1}});
  const OutputValues values = values_of(model);
  ASSERT_THAT(by_values(model), ElementsAre("layout: anchors"));
  EXPECT_EQ(suggest_layouts(model.model(), "{}", &values).front().input, "color: bgr, mean: [104, 117, 123], scale: 1");
}

// Nine boxes in each cell of five levels; scores from `low` to `high`.
FakeModel nine_anchors(float low, float high, const std::string& classes = "class_", const std::string& box = "box_") {
  std::vector<Filled> outputs;
  for (const std::int64_t n : {16, 8, 4, 2, 1})
    outputs.push_back({classes + std::to_string(n), {1, 810, n, n}, low, high});
  for (const std::int64_t n : {16, 8, 4, 2, 1}) outputs.push_back({box + std::to_string(n), {1, 36, n, n}, -1, 1});
  return model_of(128, outputs);
}

TEST(LayoutSuggestions, NameEfficientdetWhereNamesTellIt) {
  FakeModel model = nine_anchors(-9, 1, "class_net/", "box_net/");
  EXPECT_THAT(by_values(model), ElementsAre("layout: efficientdet"));
  EXPECT_THAT(by_shape(model), ElementsAre("layout: efficientdet, scores: probability"));
  FakeModel renamed = nine_anchors(-9, 1);
  EXPECT_THAT(by_values(renamed, R"({"layout":"efficientdet"})"), ElementsAre("layout: efficientdet"));
}

TEST(LayoutSuggestions, AreNoneForOffsetsFromAnchorsWhereNothingTellsWhoseTheyAre) {
  FakeModel model = nine_anchors(-9, 1, "a", "b");
  EXPECT_THAT(by_values(model), IsEmpty());
  EXPECT_THAT(by_shape(model), IsEmpty());
  const OutputValues values = values_of(model);
  EXPECT_THAT(
      suggestion_text(model.model(), {}, &values),
      EndsWith("look like boxes that its graph has not decoded, and nothing in the file tells whose rules they "
               "follow: set `layout` to that of the project which trained it, one of efficientdet "
               "(EfficientDet), torchvision-retinanet (torchvision's RetinaNet), mmdet-retinanet (MMDetection's "
               "RetinaNet), detectron2-retinanet (detectron2's RetinaNet), yhenon-retinanet (RetinaNet by "
               "yhenon/pytorch-retinanet), kerascv-retinanet (KerasCV's RetinaNet)"));
}

TEST(LayoutSuggestions, TellRetinanetsApartByTheNamesThatTheirProjectsUse) {
  FakeModel torchvision =
      model_of(128, {{"cls_logits", {1, 3069, 91}, -9, 1}, {"bbox_regression", {1, 3069, 4}, -1, 1}});
  EXPECT_THAT(by_values(torchvision), ElementsAre("layout: torchvision-retinanet"));
  FakeModel detectron2 =
      model_of(128, {{"pred_logits", {1, 3069, 80}, -9, 1}, {"pred_anchor_deltas", {1, 3069, 4}, -1, 1}});
  EXPECT_THAT(by_values(detectron2), ElementsAre("layout: detectron2-retinanet"));
  const std::vector<std::string> mmdetection = {"bbox_head.retina_cls.weight", "/bbox_head/retina_reg/Conv"};
  EXPECT_EQ(layout_of_project(mmdetection), "mmdet-retinanet");
  const std::vector<std::string> gfl = {"bbox_head.gfl_cls.weight", "/bbox_head/gfl_reg/Conv"};
  EXPECT_EQ(layout_of_project(gfl), "gfl");
  FakeModel maps = nine_anchors(-9, 1, "cls_score_", "bbox_pred_");
  EXPECT_THAT(by_values(maps, R"({"layout":"mmdet-retinanet"})"), ElementsAre("layout: mmdet-retinanet"));
}

TEST(LayoutSuggestions, TakeAnyOffsetsFromAnchorsWhereNamesTellWhoseTheyAre) {
  FakeModel model = model_of(128, {{"cls_logits", {1, 3069, 91}, -9, 1}, {"bbox_regression", {1, 3069, 4}, 3, 9}});
  EXPECT_THAT(by_values(model), ElementsAre("layout: torchvision-retinanet"));
  EXPECT_EQ(doubt(model, R"({"layout":"torchvision-retinanet"})"), "");
}

TEST(LayoutSuggestions, TellTorchvisionsFcosFromItsRetinanetByTheCentreness) {
  std::vector<std::string> names = {"head.classification_head.cls_logits.weight",
                                    "head.regression_head.bbox_reg.weight"};
  EXPECT_EQ(layout_of_project(names), "torchvision-retinanet");
  names.emplace_back("head.regression_head.bbox_ctrness.weight");
  EXPECT_EQ(layout_of_project(names), "torchvision-fcos");
  names.emplace_back("bbox_head.retina_cls.weight");
  names.emplace_back("bbox_head.retina_reg.weight");
  EXPECT_EQ(layout_of_project(names), "");
}

// Boxes of one anchor beside a centre-ness.
FakeModel with_centerness(float least) {
  std::vector<Filled> outputs;
  for (const std::int64_t n : {16, 8, 4, 2, 1}) outputs.push_back({"a" + std::to_string(n), {1, 80, n, n}, -9, 1});
  for (const std::int64_t n : {16, 8, 4, 2, 1}) outputs.push_back({"b" + std::to_string(n), {1, 4, n, n}, least, 1});
  for (const std::int64_t n : {16, 8, 4, 2, 1}) outputs.push_back({"c" + std::to_string(n), {1, 1, n, n}, -1, 1});
  return model_of(128, outputs);
}

TEST(LayoutSuggestions, AreNoneForBoxesBesideACentrenessWhereNothingTellsWhoseTheyAre) {
  FakeModel model = with_centerness(0);
  EXPECT_THAT(by_values(model), IsEmpty());
  EXPECT_THAT(suggestion_text(model.model(), {}, nullptr),
              EndsWith("one of mmdet-atss (MMDetection's ATSS), mmdet-fcos (MMDetection's FCOS), torchvision-fcos "
                       "(torchvision's FCOS)"));
  EXPECT_THAT(by_values(model, R"({"layout":"mmdet-fcos"})"), ElementsAre("layout: mmdet-fcos"));
  FakeModel offsets = with_centerness(-1);
  EXPECT_THAT(by_values(offsets, R"({"layout":"mmdet-atss"})"), ElementsAre("layout: mmdet-atss"));
}

// Its distances count from the cell's corner, NanoDet's from its middle.
TEST(LayoutSuggestions, TellGflFromNanodetByItsFiveStrides) {
  std::vector<Filled> outputs;
  for (const std::int64_t n : {16, 8, 4, 2, 1}) outputs.push_back({"cls" + std::to_string(n), {1, 80, n, n}, -9, 1});
  for (const std::int64_t n : {16, 8, 4, 2, 1}) outputs.push_back({"reg" + std::to_string(n), {1, 68, n, n}, -1, 1});
  FakeModel model = model_of(128, outputs);
  EXPECT_THAT(by_values(model), ElementsAre("layout: gfl"));
  for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i].name = std::to_string(i);
  FakeModel without_names = model_of(128, outputs);
  EXPECT_THAT(by_values(without_names), ElementsAre("layout: gfl"));
}

TEST(LayoutSuggestions, AreNoneForDistancesOfFiveStridesWhoseMeaningIsOpen) {
  std::vector<Filled> outputs;
  for (const std::int64_t n : {16, 8, 4, 2, 1}) outputs.push_back({"cls" + std::to_string(n), {1, 80, n, n}, -9, 1});
  for (const std::int64_t n : {16, 8, 4, 2, 1}) outputs.push_back({"box" + std::to_string(n), {1, 4, n, n}, 0, 9});
  FakeModel model = model_of(128, outputs);
  EXPECT_THAT(by_values(model), IsEmpty());
}

TEST(LayoutSuggestions, TellNvidiasRetinanetFromEfficientdetByItsProbabilities) {
  FakeModel model = nine_anchors(0, 0.2F);
  EXPECT_THAT(by_values(model), ElementsAre("layout: odtk-retinanet"));
}

// 341 cells of five levels, nine boxes each.
TEST(LayoutSuggestions, TellRetinanetFromEfficientdetByTheNamesThatKerascvWrites) {
  FakeModel keras = model_of(128, {{"box", {1, 3069, 4}, -1, 1}, {"classification", {1, 3069, 20}, -9, 1}});
  EXPECT_THAT(by_values(keras), ElementsAre("layout: kerascv-retinanet"));
  FakeModel one_list = model_of(128, {{"regression", {1, 3069, 4}, -1, 1}, {"classes", {1, 3069, 20}, 0, 0.2F}});
  EXPECT_THAT(by_values(one_list), IsEmpty());
  EXPECT_THAT(by_values(one_list, R"({"layout":"efficientdet"})"),
              ElementsAre("layout: efficientdet, scores: probability"));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins::testing
