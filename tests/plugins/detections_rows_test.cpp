// Layout `rows`, keypoints in rows, and the names that people know layouts by.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "detections_fixture.hpp"

namespace camd::plugins::testing {
namespace CAMD_TEST_FILE {

using ::testing::HasSubstr;

void set_row(FakeTensor& t, std::int64_t row, const std::vector<float>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) at(t, row, static_cast<std::int64_t>(i)) = values[i];
}

TEST_F(Detections, ReadsRowsThatTheGraphHasChosenWithoutSuppressingOthers) {
  FakeModel model(64, 64);
  FakeTensor& rows = model.output("output0", {1, 4, 6});
  set_row(rows, 0, {8, 8, 24, 24, 0.9F, 1});
  set_row(rows, 1, {9, 8, 25, 24, 0.8F, 1});  // overlaps: the graph has kept both
  set_row(rows, 2, {-1, -1, -1, -1, -1, -1});
  set_row(rows, 3, {0, 0, 9, 9, 0.3F, 0});
  ASSERT_TRUE(start(model, R"({"layout":"yolo26","classes":["cat","dog"]})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 2U);
  expect_box(found[0], 8, 8, 16, 16);
  EXPECT_STREQ(found[0].class_name, "dog");
  EXPECT_FLOAT_EQ(found[1].score, 0.8F);
}

TEST_F(Detections, ReadsRowsInTheOrderThatTheConfigurationSays) {
  FakeModel model(64, 64);
  FakeTensor& rows = model.output("output", {2, 7});
  rows.values = {0, 8, 8, 24, 24, 3, 0.9F, 0, 1, 1, 2, 2, 0, 0.1F};
  ASSERT_TRUE(start(model, R"({"layout":"rows","row":["skip","x0","y0","x1","y1","class","score"]})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 8, 8, 16, 16);
  EXPECT_EQ(found[0].class_id, 3);
}

// The third anchor of a cell in the middle is twice as wide as high; offsets are those of y first, in tenths. KerasCV
// cuts anchors at the picture's edges.
TEST_F(Detections, ReadsKerascvsRetinanetByItsOwnAnchors) {
  FakeModel model(128, 128);
  FakeTensor& boxes = model.output("box", {1, 3069, 4});
  FakeTensor& classes = model.output("classification", {1, 3069, 2});
  std::fill(classes.values.begin(), classes.values.end(), -9.0F);
  constexpr std::int64_t kRow = (8 * 16 + 8) * 9 + 2;
  set_row(boxes, kRow, {1, 2, 0, 0});
  at(classes, kRow, 1) = 2;
  set_row(boxes, 1, {0, 1, 0, 0});  // in the corner, where a quarter of the anchor is outside
  at(classes, 1, 0) = 1;
  ASSERT_TRUE(start(model, R"({"layout":"kerascv-retinanet","classes":["cat","dog"]})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 2U);
  expect_box(found[0], 54.4236F, 58.9490F, 45.2548F, 22.6274F);
  EXPECT_STREQ(found[0].class_name, "dog");
  expect_box(found[1], 2, 0, 20, 20);
}

// NVIDIA's retinanet-examples: corners are whole pixels that both belong to a box, so each anchor counts one more.
TEST_F(Detections, ReadsNvidiasRetinanetByItsOwnAnchors) {
  FakeModel model(128, 128);
  for (const std::int64_t n : {16, 8, 4, 2, 1}) model.output("score_" + std::to_string(n), {1, 18, n, n});
  for (const std::int64_t n : {16, 8, 4, 2, 1}) model.output("box_" + std::to_string(n), {1, 36, n, n});
  const float half = std::log(0.5F);
  constexpr std::int64_t kAnchor = 2, kRow = 2, kColumn = 3;
  at(model.outputs[1], kAnchor * 2 + 1, kRow, kColumn) = 0.9F;
  at(model.outputs[6], kAnchor * 4, kRow, kColumn) = 0.1F;
  for (const std::int64_t side : {2, 3}) at(model.outputs[6], kAnchor * 4 + side, kRow, kColumn) = half;
  ASSERT_TRUE(start(model, R"({"layout":"odtk-retinanet","classes":["cat","dog"]})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 42.7736F, 28.9363F, 45.7548F, 23.1274F);
  EXPECT_STREQ(found[0].class_name, "dog");
  EXPECT_FLOAT_EQ(found[0].score, 0.9F);
}

// Maps of five strides for a picture of 256x256 with two classes. One box, in row 14 and column 12 of the first stride,
// is an object: `offsets` in the anchor `anchor` of `per_cell`. `values`: of the object and of all others.
FakeModel one_box(std::int64_t per_cell, std::int64_t anchor, const std::vector<float>& offsets,
                  std::pair<float, float> values, bool centerness = false) {
  FakeModel model(256, 256);
  const std::vector<std::int64_t> sides = {32, 16, 8, 4, 2};
  const auto maps = [&](const std::string& name, std::int64_t channels) {
    for (const std::int64_t n : sides) model.output(name + std::to_string(n), {1, per_cell * channels, n, n});
  };
  maps("cls_score_", 2);
  maps("bbox_pred_", 4);
  if (centerness) maps("centerness_", 1);
  for (std::size_t i = 0; i < sides.size(); ++i) {
    std::fill(model.outputs[i].values.begin(), model.outputs[i].values.end(), values.second);
  }
  constexpr std::int64_t kRow = 14, kColumn = 12;
  at(model.outputs[0], anchor * 2 + 1, kRow, kColumn) = values.first;
  for (std::size_t i = 0; i < 4; ++i) {
    at(model.outputs[5], anchor * 4 + static_cast<std::int64_t>(i), kRow, kColumn) = offsets[i];
  }
  return model;
}

// What the projects' own code makes of the same offsets in the sixth anchor: torchvision's AnchorGenerator and
// BoxCoder, MMDetection's AnchorGenerator and DeltaXYWHBBoxCoder, detectron2's DefaultAnchorGenerator and
// Box2BoxTransform, and Anchors and BBoxTransform of pytorch-retinanet.
TEST_F(Detections, ReadsRetinanetsByTheAnchorsOfTheirProjects) {
  const auto expect = [](const char* layout, std::pair<float, float> values, const std::array<float, 4>& box) {
    FakeModel model = one_box(9, 5, {0.1F, -0.2F, 0.3F, -0.1F}, values);
    Instance run(find_builtin("detections"));
    const std::string config = std::string(R"({"classes":["cat","dog"],"layout":")") + layout + "\"}";
    ASSERT_EQ(run.create(config), CAMD_OK) << layout << ": " << run.error();
    ASSERT_EQ(run.outputs(model), CAMD_OK) << layout << ": " << run.error();
    ASSERT_EQ(run.process(model), CAMD_OK) << layout << ": " << run.error();
    const auto found = run.found();
    ASSERT_EQ(found.size(), 1U) << layout;
    expect_box(found[0], box[0], box[1], box[2], box[3]);
    EXPECT_STREQ(found[0].class_name, "dog") << layout;
  };
  constexpr std::pair<float, float> kLogits = {2.0F, -9.0F}, kProbabilities = {0.9F, 0.0F};
  expect("torchvision-retinanet", kLogits, {67.2535F, 79.3791F, 67.493F, 45.2419F});
  expect("mmdet-retinanet", kLogits, {66.7954F, 78.8592F, 68.5685F, 45.9629F});
  expect("detectron2-retinanet", kLogits, {79.6095F, 74.8007F, 38.4828F, 51.5916F});
  expect("yhenon-retinanet", kProbabilities, {73.539F, 90.0886F, 53.9379F, 49.791F});
}

// Its one anchor has eight strides. The score is the product of both.
TEST_F(Detections, ReadsMmdetectionsAtssAndWeighsScoresByTheCentreness) {
  FakeModel model = one_box(1, 0, {0.1F, -0.2F, 0.3F, -0.1F}, {2.0F, -9.0F}, true);
  at(model.outputs[10], 0, 14, 12) = 1.0F;
  ASSERT_TRUE(start(model, R"({"layout":"mmdet-atss","classes":["cat","dog"]})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 62.6612F, 79.3536F, 67.9576F, 62.7327F);
  EXPECT_NEAR(found[0].score, 0.880797F * 0.731059F, 1e-5F);
}

// Distances in pixels from the middle of the cell, at (100, 116).
TEST_F(Detections, ReadsMmdetectionsFcosInPixelsFromTheMiddleOfACell) {
  FakeModel model = one_box(1, 0, {10, 20, 30, 40}, {2.0F, -9.0F}, true);
  at(model.outputs[10], 0, 14, 12) = 1.0F;
  ASSERT_TRUE(start(model, R"({"layout":"mmdet-fcos","classes":["cat","dog"]})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 90, 96, 40, 60);
  EXPECT_NEAR(found[0].score, 0.880797F * 0.731059F, 1e-5F);
}

// The last stride has three cells in 320 pixels, so that torchvision puts its points 106 pixels apart, not 128. The
// distances are in strides from the cell's corner, and the score is the root of both.
TEST_F(Detections, ReadsTorchvisionsFcosWhoseCellsShareThePicture) {
  FakeModel model(256, 320);
  constexpr std::int64_t kCells = 40 * 32 + 20 * 16 + 10 * 8 + 5 * 4 + 3 * 2, kLast = kCells - 6;
  FakeTensor& classes = model.output("cls_logits", {1, kCells, 2});
  FakeTensor& boxes = model.output("bbox_regression", {1, kCells, 4});
  FakeTensor& centerness = model.output("bbox_ctrness", {1, kCells, 1});
  std::fill(classes.values.begin(), classes.values.end(), -9.0F);
  at(classes, kLast + 4, 1) = 2.0F;  // in the second row and column
  at(centerness, kLast + 4, 0) = 1.0F;
  set_row(boxes, kLast + 4, {0.5F, 0.25F, 0.25F, 0.5F});
  ASSERT_TRUE(start(model, R"({"layout":"torchvision-fcos","classes":["cat","dog"]})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 42, 96, 96, 96);
  EXPECT_NEAR(found[0].score, std::sqrt(0.880797F * 0.731059F), 1e-5F);
}

TEST_F(Detections, BoundsTheSizeOfABoxByThatOfItsAnchor) {
  FakeModel model(64, 64);
  FakeTensor& boxes = model.output("boxes", {1, 64, 4});
  FakeTensor& scores = model.output("scores", {1, 64, 1});
  at(scores, 27, 0) = 0.9F;
  set_row(boxes, 27, {0, 0, 5, -1});
  ASSERT_TRUE(start(model, R"({"layout":"anchors","strides":[8],"anchors":[[8]],"variances":[1,1],"size_limit":2})"))
      << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 20, 26.5285F, 16, 2.9430F);
}

// 3, 2, 2 and 3 anchors in the cells of four strides. The second one of the second stride, of 48 pixels, in the cell of
// column 2 and row 1: a tenth of its side to the right, with the first key point two tenths below.
TEST_F(Detections, DecodesYunetOf2021WhoseKeyPointsStandBehindTheBox) {
  FakeModel model(64, 64);
  FakeTensor& boxes = model.output("loc", {1, 235, 14});
  FakeTensor& scores = model.output("conf", {1, 235, 2});
  FakeTensor& overlaps = model.output("iou", {1, 235, 1});
  const std::int64_t row = 64 * 3 + (4 + 2) * 2 + 1;
  set_row(boxes, row, {1, 0, 0, 0, 0, 2});
  set_row(scores, row, {0.19F, 0.81F});
  at(overlaps, row, 0) = 1.2F;  // counts as 1
  ASSERT_TRUE(start(model, R"({"layout":"yunet-2021","classes":["face"]})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].score, 0.9F, 1e-6F);
  expect_box(found[0], 44.8F - 24, 0, 48, 48);
  ASSERT_EQ(found[0].keypoint_count, 5);
  EXPECT_NEAR(found[0].keypoints[0][0], 40, 1e-3F);
  EXPECT_NEAR(found[0].keypoints[0][1], 24 + 9.6F, 1e-3F);
}

TEST_F(Detections, SaysWhatTheKeysOfUndecodedHeadsMayBe) {
  FakeModel model = one_box(1, 0, {0, 0, 0, 0}, {0, 0}, true);
  EXPECT_FALSE(start(model, R"({"layout":"mmdet-atss","centerness":"sum"})"));
  EXPECT_EQ(error_, "config.centerness: 'sum' is none of product, root");
  EXPECT_FALSE(start(model, R"({"layout":"mmdet-atss","size_limit":0.5})"));
  EXPECT_EQ(error_, "config.size_limit: must be a number in 1..20000, not 0.5");
  EXPECT_FALSE(start(model, R"({"layout":"mmdet-atss","fitted_strides":1})"));
  EXPECT_EQ(error_, "config.fitted_strides: must be true or false, not 1");
}

TEST_F(Detections, RefusesACentrenessBesideABackground) {
  FakeModel model = one_box(1, 0, {0, 0, 0, 0}, {0, 0}, true);
  EXPECT_FALSE(start(model, R"({"layout":"mmdet-atss","background":true})"));
  EXPECT_EQ(error_,
            "layout 'anchors': config.centerness: logits with a background beside them have none; the model's outputs "
            "look like {layout: mmdet-atss, scores: probability} (MMDetection's ATSS)");
}

// As LibreYOLO exports FCOS: the level stands in front of the scores, and is none of them.
TEST_F(Detections, ReadsFcosWithoutTakingLevelsForScores) {
  FakeModel model(64, 64);
  FakeTensor& rows = model.output("output", {1, 9, 7});
  for (std::int64_t i = 0; i < 9; ++i) {
    const std::int64_t level = i / 3;
    set_row(rows, i, {8, 8, 24, 24, static_cast<float>(level), 0.1F, 0.1F});
  }
  at(rows, 7, 6) = 0.9F;
  ASSERT_TRUE(start(model, R"({"layout":"fcos","classes":["cat","dog"]})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 8, 8, 16, 16);
  EXPECT_STREQ(found[0].class_name, "dog");
  EXPECT_FLOAT_EQ(found[0].score, 0.9F);
}

TEST_F(Detections, ReadsKeypointsBehindChosenRows) {
  FakeModel model(64, 64);
  FakeTensor& rows = model.output("output0", {1, 1, 12});
  set_row(rows, 0, {8, 8, 24, 24, 0.9F, 0, 10, 11, 1, 20, 21, 0.5F});
  ASSERT_TRUE(start(model, R"({"layout":"rows"})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  ASSERT_EQ(found[0].keypoint_count, 2);
  EXPECT_FLOAT_EQ(found[0].keypoints[1][0], 20);
  EXPECT_FLOAT_EQ(found[0].keypoints[1][1], 21);
}

TEST_F(Detections, ReadsChosenBoxesFromTensorsOfTheirOwn) {
  FakeModel model(64, 64);
  FakeTensor& boxes = model.output("boxes", {3, 4});
  boxes.values = {8, 8, 24, 24, 1, 1, 2, 2, -1, -1, -1, -1};
  model.output("scores", {3}).values = {0.9F, 0.2F, -1};
  model.output("labels", {3}).values = {2, 1, -1};
  ASSERT_TRUE(start(model, R"({"layout":"rows","classes":["none","cat","dog"]})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_STREQ(found[0].class_name, "dog");
}

TEST_F(Detections, ReadsBoxesWithScoresAndClassesInATensorOfTheirOwn) {
  FakeModel model(64, 64);
  model.output("dets", {1, 2, 5}).values = {8, 8, 24, 24, 0.9F, 0, 0, 4, 4, 0.1F};
  model.output("labels", {1, 2}).values = {1, 0};
  ASSERT_TRUE(start(model, R"({"layout":"rtmdet","classes":["cat","dog"]})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 8, 8, 16, 16);
  EXPECT_STREQ(found[0].class_name, "dog");
}

TEST_F(Detections, LeavesMasksBehindRowsUnreadWhereNoKeypointsAreWanted) {
  FakeModel model(64, 64);
  FakeTensor& rows = model.output("output0", {1, 1, 9});
  set_row(rows, 0, {8, 8, 24, 24, 0.9F, 1, 5, 6, 7});
  ASSERT_TRUE(start(model, R"({"layout":"rows","keypoints":0})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].keypoint_count, 0);
}

TEST_F(Detections, LeavesMasksBehindNamedClassesUnreadWhereNoKeypointsAreWanted) {
  FakeModel model(64, 64);
  FakeTensor& t = model.output("output0", {1, 4 + 2 + 3, 84});
  const float row[9] = {16, 16, 8, 8, 0.9F, 0.1F, -5, 6, 7};
  for (std::int64_t c = 0; c < 9; ++c) at(t, c, 7) = row[c];
  ASSERT_TRUE(start(model, R"({"layout":"yolo11","keypoints":0,"classes":["cat","dog"]})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 12, 12, 8, 8);
  EXPECT_STREQ(found[0].class_name, "cat");
  EXPECT_EQ(found[0].keypoint_count, 0);
}

TEST_F(Detections, RefusesRowsThatAreNone) {
  FakeModel model(64, 64);
  model.output("output0", {1, 84, 100});
  ASSERT_FALSE(start(model, R"({"layout":"rows"})"));
  EXPECT_THAT(
      error_,
      HasSubstr(
          "layout 'rows': no output of chosen boxes, wanted [1,N,6], [N,5] and labels [N], or boxes [N,4], scores "
          "[N] and labels [N]; the model's outputs are output0 [1,84,100]"));
}

TEST_F(Detections, RefusesWordsOfARowAndABackgroundThatItDoesNotKnow) {
  EXPECT_EQ(run_.create(R"({"layout":"rows","row":["x0","y0","x1","y1","sure","class"],"background":"first"})"),
            CAMD_ERROR_CONFIG);
  EXPECT_STREQ(run_.error().c_str(),
               "config.row: holds 'sure', which is none of x0, y0, x1, y1, cx, cy, w, h, score, class, angle and "
               "skip; "
               "config.background: must be true, false or last");
}

TEST_F(Detections, ReadsRowsOfACornerWithWidthAndHeight) {
  FakeModel model(64, 64);
  model.output("output", {2, 6}).values = {3, 0.9F, 10, 12, 20, 8, 1, 0.2F, 0, 0, 4, 4};
  ASSERT_TRUE(start(model, R"({"layout":"rows","row":["class","score","x0","y0","w","h"]})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 10, 12, 20, 8);
  EXPECT_EQ(found[0].class_id, 3);
}

// Of whom nobody says a class.
void expect_person(const std::vector<camd_detection>& found, int keypoints) {
  ASSERT_EQ(found.size(), 1U);
  EXPECT_STREQ(found[0].class_name, "person");
  EXPECT_NEAR(found[0].box[0], 8, 1e-3F);
  EXPECT_NEAR(found[0].box[3], 32, 1e-3F);
  ASSERT_EQ(found[0].keypoint_count, keypoints);
  EXPECT_NEAR(found[0].keypoints[1][0], 11, 1e-3F);
  EXPECT_NEAR(found[0].keypoints[1][1], 12, 1e-3F);
}

TEST_F(Detections, ReadsRtmosPeopleWhoseKeyPointsHaveATensorOfTheirOwn) {
  FakeModel model(64, 64);
  model.output("dets", {1, 2, 5}).values = {8, 8, 24, 40, 0.9F, 0, 0, 9, 9, 0.1F};
  FakeTensor& points = model.output("keypoints", {1, 2, 3, 3});
  points.values = {9, 10, 0.8F, 11, 12, 0.7F, 13, 14, 0.6F, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  ASSERT_TRUE(start(model, R"({"layout":"rtmo","classes":["person"]})")) << error_;
  expect_person(detect(model), 3);
}

TEST_F(Detections, ReadsPeopleWhoseRowHasNoClassInFrontOfTheirKeyPoints) {
  FakeModel model(64, 64);
  model.output("flat", {1, 12}).values = {0, 8, 8, 24, 40, 0.9F, 9, 10, 0.8F, 11, 12, 0.7F};
  ASSERT_TRUE(start(model, R"({"layout":"rows","row":["skip","x0","y0","x1","y1","score"],"classes":["person"]})"))
      << error_;
  expect_person(detect(model), 2);
}

TEST_F(Detections, RefusesARowWithoutABox) {
  FakeModel model(64, 64);
  model.output("output0", {1, 4, 5});
  EXPECT_FALSE(start(model, R"({"layout":"rows","row":["x0","y0","x1","score","class"]})"));
  EXPECT_THAT(error_, HasSubstr("`row` names neither x0, y0, x1 and y1 nor w and h beside cx and cy or x0 and y0"));
}

TEST_F(Detections, RefusesARowWithoutAScore) {
  FakeModel model(64, 64);
  model.output("output0", {1, 4, 5});
  EXPECT_FALSE(start(model, R"({"layout":"rows","row":["x0","y0","x1","y1","class"]})"));
  EXPECT_THAT(error_, HasSubstr("`row` must name score and class"));
}

// [1, 4 + 1 + 3 * 2, N]: each keypoint has a visibility.
TEST_F(Detections, ReadsKeypointsBehindTheClassesOfYolosPoses) {
  FakeModel model(64, 64);
  FakeTensor& t = model.output("output0", {1, 11, 84});
  const float row[11] = {16, 16, 8, 8, 0.9F, 12, 13, 1, 18, 19, 0.2F};
  for (std::int64_t c = 0; c < 11; ++c) at(t, c, 7) = row[c];
  ASSERT_TRUE(start(model, R"({"layout":"yolov8-pose","keypoints":2,"classes":["person"]})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 12, 12, 8, 8);
  ASSERT_EQ(found[0].keypoint_count, 2);
  EXPECT_FLOAT_EQ(found[0].keypoints[1][1], 19);
}

// Box, objectness, points, classes.
TEST_F(Detections, ReadsKeypointsBeforeTheClassesOfYolov5Face) {
  FakeModel model(64, 64);
  FakeTensor& t = model.output("output", {1, 252, 4 + 1 + 8 + 2});
  set_row(t, 5, {16, 16, 8, 8, 0.9F, 12, 12, 20, 12, 20, 20, 12, 20, 0.1F, 1.0F});
  ASSERT_TRUE(start(model, R"({"layout":"yolov5-face","keypoints":4,"classes":["one","two"]})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_STREQ(found[0].class_name, "two");
  ASSERT_EQ(found[0].keypoint_count, 4);
  EXPECT_FLOAT_EQ(found[0].keypoints[2][0], 20);
}

// Box, objectness, classes, and three values for each point.
TEST_F(Detections, ReadsKeypointsBehindTheClassesOfYolov7sPoses) {
  FakeModel model(64, 64);
  FakeTensor& t = model.output("output", {1, 252 + 3, 4 + 1 + 2 + 9});
  set_row(t, 5, {16, 16, 8, 8, 0.9F, 0.1F, 1.0F, 12, 13, 0.9F, 14, 15, 0.9F, 18, 19, 0.2F});
  ASSERT_TRUE(start(model, R"({"layout":"yolov7","keypoints":3,"classes":["one","two"]})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_STREQ(found[0].class_name, "two");
  ASSERT_EQ(found[0].keypoint_count, 3);
  EXPECT_FLOAT_EQ(found[0].keypoints[1][0], 14);
  EXPECT_FLOAT_EQ(found[0].keypoints[2][1], 19);
}

// Box, objectness, classes, and the coefficients of a mask.
TEST_F(Detections, LeavesWhatStandsBehindTheClassesOfYolov5Unread) {
  FakeModel model(64, 64);
  FakeTensor& t = model.output("output", {1, 252, 4 + 1 + 2 + 3});
  set_row(t, 5, {16, 16, 8, 8, 0.9F, 0.1F, 1.0F, 9, 9, 9});
  ASSERT_TRUE(start(model, R"({"layout":"yolov5","keypoints":0,"classes":["one","two"]})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_STREQ(found[0].class_name, "two");
  EXPECT_FLOAT_EQ(found[0].score, 0.9F);
  EXPECT_EQ(found[0].keypoint_count, 0);
}

TEST_F(Detections, TakesTheLastClassOfDetrForTheBackground) {
  FakeModel model(64, 64);
  FakeTensor& logits = model.output("logits", {1, 2, 3});
  set_row(logits, 0, {0, 5, 0});
  set_row(logits, 1, {0, 0, 5});
  FakeTensor& boxes = model.output("pred_boxes", {1, 2, 4});
  set_row(boxes, 0, {0.5F, 0.5F, 0.25F, 0.25F});
  set_row(boxes, 1, {0.5F, 0.5F, 0.5F, 0.5F});
  ASSERT_TRUE(start(model, R"({"layout":"detr","classes":["cat","dog"]})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_STREQ(found[0].class_name, "dog");
  expect_box(found[0], 24, 24, 16, 16);
}

TEST_F(Detections, LetsKeysWinOverWhatALayoutsNameStandsFor) {
  FakeModel model(64, 64);
  FakeTensor& t = model.output("output0", {1, 6, 84});
  const float row[6] = {0.25F, 0.25F, 0.125F, 0.125F, 0.9F, 0};
  for (std::int64_t c = 0; c < 6; ++c) at(t, c, 7) = row[c];
  ASSERT_TRUE(start(model, R"({"layout":"yolov8","relative":true})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 12, 12, 8, 8);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins::testing
