// What all layouts of the built-in `detections` share: choice among candidates, mapping to the source, what is not a
// number, and what it says about wrong configurations and models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>

#include "detections_fixture.hpp"

namespace camd::plugins::testing {
namespace CAMD_TEST_FILE {

using ::testing::HasSubstr;

TEST_F(Detections, MapsBoxesAndKeypointsBackToTheSource) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, "{}")) << error_;
  at(model.outputs[0], 0, 2, 3) = 0.9F;  // side 16, centre 28, 20
  run_.frame.scale_x = 0.5F;
  run_.frame.scale_y = 0.25F;
  run_.frame.offset_x = 4.0F;
  run_.frame.offset_y = 2.0F;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 32, 40, 32, 64);
  EXPECT_FLOAT_EQ(found[0].keypoints[0][0], 48.0F);
  EXPECT_FLOAT_EQ(found[0].keypoints[0][1], 72.0F);
}

TEST_F(Detections, KeepsTheBestOfOverlappingBoxesOfOneClass) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, "{}")) << error_;
  at(model.outputs[0], 0, 2, 3) = 0.8F;
  at(model.outputs[0], 0, 2, 4) = 0.9F;  // 8 pixels beside, side 16: overlap 1/3, below nms
  at(model.outputs[0], 0, 3, 4) = 0.7F;
  at(model.outputs[1], 1, 3, 4) = -5.0F;  // moved up onto the second: suppressed
  at(model.outputs[0], 1, 2, 4) = 0.6F;   // another class at the same place: kept
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_FLOAT_EQ(found[0].score, 0.9F);
  EXPECT_FLOAT_EQ(found[1].score, 0.8F);
  EXPECT_FLOAT_EQ(found[2].score, 0.6F);
}

TEST_F(Detections, BlendsCloseNeighboursIntoTheBestByTheSquareOfTheirScores) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, R"({"nms":0.1,"blend":0.3})")) << error_;
  at(model.outputs[0], 0, 2, 4) = 0.8F;   // 28..44 x 12..28
  at(model.outputs[2], 8, 2, 4) = 2.5F;   // fifth keypoint 4 pixels to the right of its anchor, at 40
  at(model.outputs[0], 0, 2, 5) = 0.6F;   // 8 pixels to the right: overlap 1/3, blended
  at(model.outputs[0], 0, 3, 5) = 0.59F;  // 8 right and 8 down: overlap 1/7, left out and not blended
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FLOAT_EQ(found[0].score, 0.8F);
  const float shift = 8.0F * 0.36F / (0.64F + 0.36F);
  expect_box(found[0], 28.0F + shift, 12, 16, 16);
  // 4 pixels from both cells' points, which makes them equal.
  EXPECT_NEAR(found[0].keypoints[4][0], 40.0F * 0.64F + 44.0F * 0.36F, 1e-4F);
  EXPECT_NEAR(found[0].keypoints[4][1], 20.0F, 1e-4F);
}

// Where a keypoint comes to lie that a cell of score 0.8 has in its own point, when a cell of score 0.6 whose point is
// `distance` beside has it in its own too. `area` is that of the best box.
float drawn_from_its_cell(float distance, float area) {
  const float neighbour = 0.36F * std::exp(-distance * distance / (2.0F * 0.16F * area));
  return distance * neighbour / (0.64F + neighbour);
}

TEST_F(Detections, BlendsAKeypointByHowNearItTheAnchorsOfTheCellsAre) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, R"({"nms":0.1,"blend":0.3})")) << error_;
  at(model.outputs[0], 0, 2, 4) = 0.8F;   // anchor at 36, 20, side 16
  at(model.outputs[0], 0, 2, 5) = 0.6F;   // at 44, 20
  at(model.outputs[2], 2, 2, 4) = 5.0F;   // second keypoint on the neighbour's anchor
  at(model.outputs[2], 2, 2, 5) = -2.5F;  // which has it at 40
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].keypoints[0][0], 36.0F + drawn_from_its_cell(8.0F, 256.0F), 1e-4F);
  EXPECT_NEAR(found[0].keypoints[0][1], 20.0F, 1e-4F);
  const float near = std::exp(-64.0F / (2.0F * 0.16F * 256.0F));
  EXPECT_NEAR(found[0].keypoints[1][0], (44.0F * 0.64F * near + 40.0F * 0.36F) / (0.64F * near + 0.36F), 1e-4F);
  EXPECT_NEAR(found[0].keypoints[1][1], 20.0F, 1e-4F);
}

TEST_F(Detections, BlendsAKeypointByHowNearItTheCellsOfScrfdAre) {
  FakeModel model(64, 64);
  model.output("score", {64, 1});
  model.output("bbox", {64, 4});
  model.output("kps", {64, 10});
  ASSERT_TRUE(start(model, R"({"layout":"scrfd","classes":["face"],"strides":[8],"anchors_per_cell":1,
      "nms":0.1,"blend":0.3})"))
      << error_;
  for (const std::size_t cell : {std::size_t{2 * 8 + 4}, std::size_t{2 * 8 + 5}}) {  // at 32, 16 and 40, 16
    model.outputs[0].values[cell] = cell == 2 * 8 + 4 ? 0.8F : 0.6F;
    for (std::size_t side = 0; side < 4; ++side) model.outputs[1].values[cell * 4 + side] = 2.0F;  // 32 x 32
  }
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 16.0F + 8.0F * 0.36F, 0, 32, 32);
  EXPECT_NEAR(found[0].keypoints[0][0], 32.0F + drawn_from_its_cell(8.0F, 1024.0F), 1e-4F);
}

TEST_F(Detections, BlendsAKeypointByHowNearItTheCellsOfYunetAre) {
  FakeModel model = yunet();
  ASSERT_TRUE(start(model, R"({"layout":"yunet","classes":["face"],"nms":0.1,"blend":0.3})")) << error_;
  for (const std::int64_t cell : {1 * 4 + 1, 1 * 4 + 2}) {  // stride 16, at 16, 16 and 32, 16
    at(model.outputs[1], cell, 0) = cell == 1 * 4 + 1 ? 0.64F : 0.36F;
    at(model.outputs[4], cell, 0) = 1.0F;
    at(model.outputs[7], cell, 2) = std::log(4.0F);  // 64 x 64
    at(model.outputs[7], cell, 3) = std::log(4.0F);
  }
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].keypoints[0][0], 16.0F + drawn_from_its_cell(16.0F, 4096.0F), 1e-4F);
}

TEST_F(Detections, BlendsAKeypointOfAListWithoutCellsByScoreAlone) {
  FakeModel model(100, 100);
  model.output("scores", {1, 2, 2}, {0.0F, 0.8F, 0.0F, 0.6F});
  model.output("boxes", {1, 2, 4}, {0.2F, 0.2F, 0.6F, 0.6F, 0.3F, 0.2F, 0.7F, 0.6F});
  model.output("points", {1, 2, 10}, {0.2F, 0.2F, 0, 0, 0, 0, 0, 0, 0, 0, 0.3F, 0.2F, 0, 0, 0, 0, 0, 0, 0, 0});
  ASSERT_TRUE(start(model, R"({"layout":"ssd","classes":["face"],"blend":0.5})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].keypoints[0][0], 20.0F + 10.0F * 0.36F, 1e-4F);
  EXPECT_NEAR(found[0].keypoints[0][1], 20.0F, 1e-4F);
}

TEST_F(Detections, BlendsAKeypointFarFromEveryCellByScoreAlone) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, R"({"nms":0.1,"blend":0.3})")) << error_;
  at(model.outputs[0], 0, 2, 4) = 0.8F;
  at(model.outputs[0], 0, 2, 5) = 0.6F;
  at(model.outputs[2], 0, 2, 4) = 625.0F;  // 1000 pixels to the right, at 1036
  at(model.outputs[2], 0, 2, 5) = 625.0F;  // at 1044
  at(model.outputs[2], 2, 2, 4) = 1e30F;   // the square of its distance overflows
  at(model.outputs[2], 2, 2, 5) = 1e30F;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].keypoints[0][0], 1036.0F + 8.0F * 0.36F, 1e-3F);
  EXPECT_FLOAT_EQ(found[0].keypoints[1][0], 1.6e30F);
}

TEST_F(Detections, BlendsScoresOfZeroToNumbers) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, R"({"score":0,"nms":0.1,"blend":0.3,"max":1})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  // The first cell's box, -4..12 both ways, with those of the cells to its right and below it.
  expect_box(found[0], 0, 0, 12.0F + 8.0F / 3.0F, 12.0F + 8.0F / 3.0F);
}

TEST_F(Detections, DoesNotBlendAKeypointThatIsNotANumber) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, R"({"nms":0.1,"blend":0.3})")) << error_;
  at(model.outputs[0], 0, 2, 4) = 0.8F;
  at(model.outputs[0], 0, 2, 5) = 0.6F;
  at(model.outputs[2], 0, 2, 5) = kNan;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 28, 12, 16, 16);
}

TEST_F(Detections, BlendsWhatComesAfterTheListIsFull) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, R"({"nms":0.1,"blend":0.3,"max":1})")) << error_;
  at(model.outputs[0], 0, 2, 4) = 0.8F;
  at(model.outputs[0], 0, 2, 5) = 0.6F;
  at(model.outputs[0], 0, 6, 1) = 0.7F;  // a second object, beyond `max`
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_GT(found[0].box[0], 30.0F);
}

TEST_F(Detections, UsesEachClassesOwnThreshold) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, R"({"score":{"marker":0.9,"default":0.3}})")) << error_;
  at(model.outputs[0], 0, 2, 3) = 0.31F;
  at(model.outputs[0], 1, 6, 6) = 0.89F;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_STREQ(found[0].class_name, "qr");
}

TEST_F(Detections, GivesAtMostSoManyAsAllowedBestFirst) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, R"({"max":2})")) << error_;
  for (int i = 0; i < 3; ++i) at(model.outputs[0], 0, 1, 1 + 3 * i) = 0.6F + 0.1F * static_cast<float>(i);
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_FLOAT_EQ(found[0].score, 0.8F);
  EXPECT_FLOAT_EQ(found[1].score, 0.7F);
}

TEST_F(Detections, StopsAtTheCapacityOfTheList) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, "{}")) << error_;
  for (int i = 0; i < 3; ++i) at(model.outputs[0], 0, 1, 1 + 3 * i) = 0.9F;
  run_.results.capacity = 2;
  EXPECT_EQ(detect(model).size(), 2U);
}

TEST_F(Detections, LeavesOutWhatIsNotANumber) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, "{}")) << error_;
  at(model.outputs[0], 0, 0, 0) = kNan;
  at(model.outputs[0], 0, 0, 1) = kInf;
  at(model.outputs[0], 0, 0, 2) = -kInf;
  const float bad[] = {kNan, kInf, -kInf, 1e30F, -1e30F};
  for (int i = 0; i < 5; ++i) {
    at(model.outputs[0], 0, 1 + i, 3) = 0.9F;
    at(model.outputs[1], 0, 1 + i, 3) = bad[i];  // centres
    at(model.outputs[0], 0, 1 + i, 4) = 0.9F;
    at(model.outputs[2], 3, 1 + i, 4) = i < 3 ? bad[i] : kNan;  // a keypoint
  }
  EXPECT_EQ(detect(model).size(), 0U);
}

TEST_F(Detections, BoundsSizesThatWouldOverflow) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, "{}")) << error_;
  at(model.outputs[0], 0, 2, 3) = 0.9F;
  at(model.outputs[1], 2, 2, 3) = 1e30F;  // width: exp of it is infinite
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 0, 12, 640, 16);
}

TEST_F(Detections, LeavesOutBoxesBesideThePicture) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, "{}")) << error_;
  at(model.outputs[0], 0, 2, 3) = 0.9F;
  run_.frame.offset_x = 100.0F;  // the letterbox' rim
  EXPECT_EQ(detect(model).size(), 0U);
}

TEST_F(Detections, WarnsOnceWhereScoresLookLikeLogits) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, "{}")) << error_;
  at(model.outputs[0], 0, 2, 3) = 4.0F;
  EXPECT_EQ(detect(model).size(), 0U);
  EXPECT_EQ(detect(model).size(), 0U);
  ASSERT_EQ(run_.host.lines.size(), 1U);
  EXPECT_THAT(run_.host.lines[0], HasSubstr("set `scores: logits`"));
}

TEST_F(Detections, WarnsOnceWhereYoloxsScoresLookLikePercent) {
  FakeModel model = yolox();
  ASSERT_TRUE(start(model, R"({"layout":"yolox","decoded":true})")) << error_;
  const float row[7] = {30, 20, 10, 8, 95, 90, 0};
  std::copy(row, row + 7, model.outputs[0].values.begin());
  EXPECT_EQ(detect(model).size(), 0U);
  EXPECT_EQ(detect(model).size(), 0U);
  ASSERT_EQ(run_.host.lines.size(), 1U);
  EXPECT_THAT(run_.host.lines[0], HasSubstr("set `scores: percent`"));
}

TEST_F(Detections, TakesScoresInPercent) {
  FakeModel model = yolox();
  ASSERT_TRUE(start(model, R"({"layout":"yolox","decoded":true,"scores":"percent"})")) << error_;
  const float row[7] = {30, 20, 10, 8, 95, 80, 0};
  std::copy(row, row + 7, model.outputs[0].values.begin());
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].score, 0.76F, 1e-6F);
  FakeModel list(64, 64);
  list.output("boxes", {1, 84, 4});
  list.output("scores", {1, 84, 2});
  Instance again(find_builtin("detections"));
  ASSERT_EQ(again.create(R"({"layout":"ssd","scores":"percent"})"), CAMD_OK);
  ASSERT_EQ(again.outputs(list), CAMD_OK) << again.error();
  const float box[4] = {0.25F, 0.25F, 0.5F, 0.5F};
  std::copy(box, box + 4, list.outputs[0].values.begin());
  at(list.outputs[1], 0, 1) = 50.0F;  // exactly the least score
  ASSERT_EQ(again.process(list), CAMD_OK);
  ASSERT_EQ(again.found().size(), 1U);
  EXPECT_FLOAT_EQ(again.found()[0].score, 0.5F);
}

TEST_F(Detections, RefusesAStrideThatIsNoWholeNumber) {
  EXPECT_EQ(run_.create(R"({"layout":"anchors","strides":[8.5,16]})"), CAMD_ERROR_CONFIG);
  EXPECT_EQ(run_.error(), "config.strides: must be a list of whole numbers in 1..1024, not [8.5,16]");
}

TEST_F(Detections, FindsTheSameAmongTooManyCandidates) {
  // Every cell passes: 2 * 2 * (64 + 16 + 4) is few; a larger input overflows the list of candidates.
  FakeModel model(640, 640);
  for (const std::int64_t stride : {8, 16, 32}) {
    const std::int64_t n = 640 / stride;
    FakeTensor& cls = model.output("cls_" + std::to_string(stride), {1, 4, n, n});
    for (std::size_t i = 0; i < cls.values.size(); ++i)
      cls.values[i] = 0.5F + 0.4F * static_cast<float>(i % 977) / 977.0F;
    model.output("box_" + std::to_string(stride), {1, 8, n, n});
  }
  ASSERT_TRUE(start(model, R"({"layout":"anchors","classes":["a","b"],"max":16})")) << error_;
  at(model.outputs[2], 3, 39, 39) = 0.99F;  // one that is better than all, late in the scan (stride 16)
  run_.frame.height = 640;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 16U);
  EXPECT_FLOAT_EQ(found[0].score, 0.99F);
  EXPECT_EQ(found[0].class_id, 1);
  for (std::size_t i = 1; i < found.size(); ++i) EXPECT_LE(found[i].score, found[i - 1].score);
}

TEST_F(Detections, FailsTheFrameWhenATensorIsNotAsDeclared) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, "{}")) << error_;
  model.outputs[0].shape = {1, 4, 4, 4};
  EXPECT_EQ(run_.process(model), CAMD_ERROR_FAILED);
  EXPECT_EQ(run_.error(), "tensor 'cls_8': is [1,4,4,4], wanted [1,4,8,8]");
}

TEST_F(Detections, TakesOutputsByNameWhereShapesDoNotTell) {
  FakeModel model(64, 64);
  model.output("first", {1, 4, 8, 8});
  model.output("second", {1, 4, 8, 8});
  const std::string common = R"("layout":"anchors","classes":["a","b","c","d"],"strides":[8],"anchors":[[16]])";
  EXPECT_FALSE(start(model, "{" + common + "}"));
  EXPECT_EQ(error_,
            "layout 'anchors': 'cls' could be first [1,4,8,8] second [1,4,8,8]: say which in `outputs: {cls: ...}`; "
            "the model's outputs are first [1,4,8,8], second [1,4,8,8]");
  Instance again(find_builtin("detections"));
  ASSERT_EQ(again.create("{" + common + R"(,"outputs":{"cls":"second","box":["first"]}})"), CAMD_OK);
  ASSERT_EQ(again.outputs(model), CAMD_OK) << again.error();
  at(model.outputs[1], 2, 1, 1) = 0.9F;
  ASSERT_EQ(again.process(model), CAMD_OK);
  ASSERT_EQ(again.found().size(), 1U);
  EXPECT_STREQ(again.found()[0].class_name, "c");
}

TEST_F(Detections, NamesAnUndeclaredOutputAndTheNearestOne) {
  FakeModel model = marker();
  EXPECT_FALSE(start(model, R"({"outputs":{"cls":["cls_8","cls_16","csl_32"]}})"));
  EXPECT_THAT(error_, HasSubstr("layout 'anchors': undeclared output 'csl_32' (did you mean 'cls_32'?): the model's "
                                "outputs are cls_8 [1,4,8,8], box_8 [1,8,8,8]"));
}

TEST_F(Detections, SaysWhatIsMissingAndWhatThereIs) {
  FakeModel model(64, 64);
  model.output("prob", {1, 1000});
  EXPECT_FALSE(start(model, R"({"layout":"yunet","strides":[8]})"));
  EXPECT_EQ(error_,
            "layout 'yunet': no output for 'cls' at stride 8, wanted [1,1,8,8] or the same flattened; "
            "the model's outputs are prob [1,1000]");
}

TEST_F(Detections, RefusesClassNamesThatDoNotFitTheModel) {
  FakeModel model = yolox();
  EXPECT_FALSE(start(model, R"({"layout":"yolox","classes":"coco"})"));
  EXPECT_THAT(error_, HasSubstr("output [1,84,7]"));
}

TEST_F(Detections, RefusesAListOfNamesThatItDoesNotKnow) {
  FakeModel model = yolox();
  EXPECT_FALSE(start(model, R"({"layout":"yolox","classes":"COCO90"})"));
  EXPECT_THAT(error_, HasSubstr("classes: 'COCO90' is no list of names; coco and coco91 are. Of one class: [COCO90]"));
}

TEST_F(Detections, NamesCocosClassesInTheOrderOfDetectorsOrByTheirIds) {
  for (const auto& [words, channels, person, tv, toothbrush] :
       {std::tuple{"coco", 80, 0, 62, 79}, std::tuple{"coco91", 91, 1, 72, 90}}) {
    Instance run(find_builtin("detections"));
    FakeModel model(64, 64);
    model.output("boxes", {1, 3, 4});
    FakeTensor& scores = model.output("scores", {1, 3, channels});
    ASSERT_EQ(run.create(std::string(R"({"layout":"ssd","background":false,"nms":1,"classes":")") + words + "\"}"),
              CAMD_OK);
    ASSERT_EQ(run.outputs(model), CAMD_OK) << run.error();
    model.outputs[0].values = {0, 0, 0.5F, 0.5F, 0.5F, 0, 1, 0.5F, 0, 0.5F, 0.5F, 1};
    at(scores, 0, person) = 0.9F;
    at(scores, 1, tv) = 0.8F;
    at(scores, 2, toothbrush) = 0.7F;
    ASSERT_EQ(run.process(model), CAMD_OK) << run.error();
    ASSERT_EQ(run.found().size(), 3U);
    EXPECT_STREQ(run.found()[0].class_name, "person");
    EXPECT_STREQ(run.found()[1].class_name, "tv");
    EXPECT_STREQ(run.found()[2].class_name, "toothbrush");
  }
}

TEST_F(Detections, RefusesScoresThatHoldTheBackgroundAlone) {
  FakeModel model(64, 64);
  model.output("boxes", {1, 9, 4});
  model.output("scores", {1, 9, 1});
  EXPECT_FALSE(start(model, R"({"layout":"ssd","background":true})"));
  EXPECT_THAT(error_, HasSubstr("the model's scores have no class beside the background"));
}

TEST_F(Detections, RefusesListsWithoutARow) {
  FakeModel model(64, 64);
  model.output("boxes", {1, 0, 4});
  model.output("scores", {1, 0, 3});
  EXPECT_FALSE(start(model, R"({"layout":"ssd"})"));
  EXPECT_THAT(error_,
              HasSubstr("no output of boxes, wanted [1,N,4]; the model's outputs are boxes [1,0,4], scores [1,0,3]"));
}

TEST_F(Detections, SuggestsLayoutsWhereNoneIsNamed) {
  FakeModel model = yunet();
  EXPECT_FALSE(start(model, "{}"));
  EXPECT_EQ(
      error_,
      "config.layout: missing, and the model has no card that names one; the model's outputs look like {layout: yunet} "
      "(YuNet)");
}

TEST_F(Detections, NamesEveryWrongKeyBeforeItSeesAModel) {
  EXPECT_EQ(run_.create(R"({"layout":"anchor","score":1.5,"nmss":0.4,"classes":["a","a"],"anchors":[16]})"),
            CAMD_ERROR_CONFIG);
  EXPECT_EQ(
      run_.error(),
      "config.layout: 'anchor' is none of anchors, scrfd, yunet, ssd, yolox, nanodet, fastestdet, yolo-fastestv2, "
      "yolo-heads, centernet, centerface, detectnet, fomo, mediapipe, rows, nor a "
      "detector that camd knows (did you mean 'anchors'?); config.score: must be a number in 0..1, not 1.5; "
      "config.classes: 'a' stands there twice; "
      "config.anchors: must be one list per stride of sides or [width, height] in network pixels, e.g. "
      "[[16, 32], [64, 128]]; config.nmss: unknown key (did you "
      "mean 'nms'?)");
}

TEST_F(Detections, RefusesAThresholdForAClassThatIsNotThere) {
  FakeModel model = marker();
  EXPECT_FALSE(start(model, R"({"score":{"markr":0.9}})"));
  EXPECT_EQ(error_, "layout 'anchors': config.score.markr: no such class (did you mean 'marker'?)");
}

TEST_F(Detections, ReadsHalfPrecisionOutputs) {
  FakeModel model = marker();
  ASSERT_EQ(run_.create("{}"), CAMD_OK);
  static_cast<void>(model.model());
  model.specs[0].dtype.bits = 16;
  run_.needs.assign(9, CAMD_NEED_NONE);
  run_.need = {
      sizeof(camd_needs), run_.needs.data(), CAMD_NEED_NONE, CAMD_NEED_NONE, CAMD_DEFAULT_DETECTIONS, nullptr, 0};
  ASSERT_EQ(run_.table->outputs(run_.instance, &model.described, &run_.need, &run_.problem), CAMD_OK);
  std::vector<std::uint16_t> halves(256, 0);
  halves[0 * 64 + 2 * 8 + 3] = 0x3A00;  // 0.75
  // process() of the harness makes f32 tensors: the first is exchanged.
  ASSERT_EQ(run_.process(model), CAMD_ERROR_FAILED);
  model.outputs[0].tensor.data = halves.data();
  model.outputs[0].tensor.dtype.bits = 16;
  run_.results.count = 0;
  ASSERT_EQ(run_.table->process(run_.instance, &run_.frame, &run_.tensors, &run_.results, &run_.problem), CAMD_OK)
      << run_.error();
  ASSERT_EQ(run_.found().size(), 1U);
  EXPECT_FLOAT_EQ(run_.found()[0].score, 0.75F);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins::testing
