// Which layouts `detections` suggests for heads that a graph has not decoded. Their shapes are those of many projects.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
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
