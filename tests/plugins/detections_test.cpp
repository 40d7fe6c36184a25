// The built-in `detections`, layout by layout, against boxes computed by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "detections_fixture.hpp"

namespace camd::plugins::testing {
namespace CAMD_TEST_FILE {

using ::testing::HasSubstr;

TEST_F(Detections, DecodesTheReferenceDetectorFromItsCardAlone) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, "{}")) << error_;
  // Stride 8, row 2, column 3, second anchor (side 32, centre 28, 20), class marker.
  at(model.outputs[0], 1 * 2 + 1, 2, 3) = 0.75F;
  at(model.outputs[1], 4, 2, 3) = 1.0F;                   // cx = 28 + 0.1 * 32 = 31.2
  at(model.outputs[1], 5, 2, 3) = -1.0F;                  // cy = 20 - 3.2 = 16.8
  at(model.outputs[1], 6, 2, 3) = std::log(0.5F) / 0.2F;  // w = 16
  at(model.outputs[1], 7, 2, 3) = 0.0F;                   // h = 32
  for (int k = 0; k < 5; ++k) {
    at(model.outputs[2], 10 + 2 * k, 2, 3) = static_cast<float>(k);       // x = 28 + 3.2 k
    at(model.outputs[2], 10 + 2 * k + 1, 2, 3) = -static_cast<float>(k);  // y = 20 - 3.2 k
  }
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].class_id, 1);
  EXPECT_STREQ(found[0].class_name, "marker");
  EXPECT_FLOAT_EQ(found[0].score, 0.75F);
  expect_box(found[0], 23.2F, 0.8F, 16.0F, 32.0F);
  ASSERT_EQ(found[0].keypoint_count, 5);
  for (int k = 0; k < 5; ++k) {
    EXPECT_NEAR(found[0].keypoints[k][0], 28.0F + 3.2F * static_cast<float>(k), 1e-3F);
    EXPECT_NEAR(found[0].keypoints[k][1], 20.0F - 3.2F * static_cast<float>(k), 1e-3F);
  }
}

TEST_F(Detections, ReadsOnlyTheOutputsOfTheHeads) {
  FakeModel model = marker();
  model.output("features", {1, 7, 3, 3});
  ASSERT_TRUE(start(model, "{}")) << error_;
  for (int i = 0; i < 9; ++i) EXPECT_EQ(run_.needs[static_cast<std::size_t>(i)], CAMD_NEED_HOST);
  EXPECT_EQ(run_.needs[9], CAMD_NEED_NONE);
  EXPECT_EQ(run_.need.picture, CAMD_NEED_NONE);
}

TEST_F(Detections, DoesNotReadKeypointsWhereNoneAreWanted) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, R"({"keypoints":0})")) << error_;
  EXPECT_EQ(run_.needs[2], CAMD_NEED_NONE);
  at(model.outputs[0], 0, 2, 3) = 0.75F;
  EXPECT_EQ(detect(model).at(0).keypoint_count, 0);
}

// 40x40 is no multiple of 32: levels of 5, 3 and 2 cells, as convolutions round up.
TEST_F(Detections, FindsLevelsThatRoundUp) {
  FakeModel model(40, 40);
  for (const auto& [stride, n] : {std::pair<int, std::int64_t>{8, 5}, {16, 3}, {32, 2}}) {
    model.output("a" + std::to_string(stride), {1, 2, n, n});
    model.output("b" + std::to_string(stride), {1, 8, n, n});
  }
  ASSERT_TRUE(start(model, R"({"layout":"anchors","classes":["face"],"strides":[8,16,32]})")) << error_;
  at(model.outputs[4], 0, 1, 1) = 0.9F;  // stride 32, centre 48, 48, side 256: clipped to the picture
  run_.frame.width = run_.frame.height = 40;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 0, 0, 40, 40);
}

// RetinaFace's original: [background a0, background a1, face a0, face a1], no variances, centres at x * stride + 7.5.
TEST_F(Detections, DecodesPairsOfBackgroundAndObject) {
  FakeModel model(64, 64);
  for (const std::int64_t stride : {32, 16, 8}) {
    const std::int64_t n = 64 / stride;
    const std::string suffix = "_stride" + std::to_string(stride);
    model.output("face_rpn_cls_prob_reshape" + suffix, {1, 4, n, n});
    model.output("face_rpn_bbox_pred" + suffix, {1, 8, n, n});
    model.output("face_rpn_landmark_pred" + suffix, {1, 20, n, n});
  }
  ASSERT_TRUE(start(model, R"({"layout":"anchors","classes":["face"],"strides":[8,16,32],"variances":[1,1],
      "anchors":[[32,16],[128,64],[512,256]],"anchor_offset":0,"anchor_shift":7.5})"))
      << error_;
  FakeTensor& cls = model.outputs[6];  // stride 8
  at(cls, 0, 1, 1) = 0.99F;            // background: no candidate
  at(cls, 1, 1, 1) = 0.2F;
  at(cls, 2, 1, 1) = 0.01F;
  at(cls, 3, 1, 1) = 0.8F;                  // face, second anchor: side 16, centre 15.5, 15.5
  at(model.outputs[7], 4, 1, 1) = 0.5F;     // cx = 15.5 + 8
  at(model.outputs[8], 10, 1, 1) = -0.25F;  // x = 15.5 - 4
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FLOAT_EQ(found[0].score, 0.8F);
  EXPECT_STREQ(found[0].class_name, "face");
  expect_box(found[0], 15.5F, 7.5F, 16.0F, 16.0F);
  EXPECT_NEAR(found[0].keypoints[0][0], 11.5F, 1e-4F);
}

TEST_F(Detections, TakesTheSigmoidOfLogits) {
  FakeModel model = marker();
  for (FakeTensor& t : model.outputs) {
    if (t.name[0] == 'c') t.values.assign(t.values.size(), -9.0F);
  }
  ASSERT_TRUE(start(model, R"({"scores":"logits","score":0.5})")) << error_;
  at(model.outputs[0], 0, 2, 3) = 0.0F;  // exactly the threshold
  at(model.outputs[0], 0, 6, 6) = -0.01F;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FLOAT_EQ(found[0].score, 0.5F);
}

TEST_F(Detections, DecodesScrfd) {
  FakeModel model(64, 64);
  for (const std::int64_t stride : {8, 16, 32})
    model.output("score_" + std::to_string(stride), {64 / stride * 64 / stride * 2, 1});
  for (const std::int64_t stride : {8, 16, 32})
    model.output("bbox_" + std::to_string(stride), {64 / stride * 64 / stride * 2, 4});
  for (const std::int64_t stride : {8, 16, 32})
    model.output("kps_" + std::to_string(stride), {64 / stride * 64 / stride * 2, 10});
  ASSERT_TRUE(start(model, R"({"layout":"scrfd","classes":["face"]})")) << error_;
  const std::size_t row = (1 * 4 + 2) * 2 + 1;  // stride 16: row 1, column 2, second anchor: point 32, 16
  model.outputs[1].values[row] = 0.9F;
  const float sides[4] = {1.0F, 0.5F, 0.25F, 2.0F};
  std::copy(sides, sides + 4, model.outputs[4].values.begin() + static_cast<std::ptrdiff_t>(row * 4));
  model.outputs[7].values[row * 10] = -0.5F;
  model.outputs[7].values[row * 10 + 9] = 0.5F;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 16.0F, 8.0F, 20.0F, 40.0F);
  EXPECT_FLOAT_EQ(found[0].keypoints[0][0], 24.0F);
  EXPECT_FLOAT_EQ(found[0].keypoints[4][1], 24.0F);
}

TEST_F(Detections, DecodesYunet) {
  FakeModel model = yunet();
  ASSERT_TRUE(start(model, R"({"layout":"yunet","classes":["face"]})")) << error_;
  const std::int64_t cell = 1 * 4 + 2;  // stride 16: row 1, column 2
  at(model.outputs[1], cell, 0) = 0.64F;
  at(model.outputs[4], cell, 0) = 1.0F;
  at(model.outputs[7], cell, 0) = 0.5F;            // cx = 2.5 * 16
  at(model.outputs[7], cell, 1) = 0.25F;           // cy = 1.25 * 16
  at(model.outputs[7], cell, 2) = std::log(2.0F);  // w = 32
  at(model.outputs[10], cell, 2) = -1.0F;          // second keypoint: (1, 1) * 16
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FLOAT_EQ(found[0].score, 0.8F);
  expect_box(found[0], 24.0F, 12.0F, 32.0F, 16.0F);
  EXPECT_FLOAT_EQ(found[0].keypoints[1][0], 16.0F);
  EXPECT_FLOAT_EQ(found[0].keypoints[1][1], 16.0F);
}

TEST_F(Detections, TellsYunetsTwoScoreHeadsApartByName) {
  FakeModel model = yunet();
  ASSERT_TRUE(start(model, R"({"layout":"yunet"})")) << error_;
  at(model.outputs[0], 5, 0) = 1.0F;  // a class without an object
  EXPECT_EQ(detect(model).size(), 0U);
}

TEST_F(Detections, DecodesSsdBoxesThatTheGraphDecoded) {
  FakeModel model(240, 320);
  FakeTensor& scores = model.output("scores", {1, 6, 2});
  FakeTensor& boxes = model.output("boxes", {1, 6, 4});
  ASSERT_TRUE(start(model, R"({"layout":"ssd","classes":["face"]})")) << error_;
  at(scores, 3, 0) = 0.1F;
  at(scores, 3, 1) = 0.9F;
  at(scores, 4, 0) = 0.95F;  // background
  const float box[4] = {0.25F, 0.5F, 0.5F, 0.75F};
  std::copy(box, box + 4, boxes.values.begin() + 12);
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 80, 120, 80, 60);
}

TEST_F(Detections, DecodesSsdBoxesInTensorFlowsOrder) {
  FakeModel model(100, 200);
  model.output("raw_outputs/box_encodings", {1, 2, 4}, {0.1F, 0.2F, 0.3F, 0.4F});
  model.output("raw_outputs/class_predictions", {1, 2, 3}, {0.0F, 0.0F, 0.7F});
  ASSERT_TRUE(start(model, R"({"layout":"ssd","boxes":"corners_yx","classes":["cat","dog"]})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_STREQ(found[0].class_name, "dog");
  expect_box(found[0], 40, 10, 40, 20);
}

TEST_F(Detections, DecodesSsdCentresInPixelsAndSoftmaxesLogits) {
  FakeModel model(100, 200);
  model.output("loc", {1, 2, 4}, {50, 40, 20, 10});
  model.output("conf", {1, 2, 3}, {0.0F, 1.0F, 3.0F, 9.0F, 0.0F, 0.0F});
  ASSERT_TRUE(start(model, R"({"layout":"ssd","boxes":"centre","relative":false,"scores":"logits",
      "classes":["cat","dog"]})"))
      << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].score, std::exp(3.0F) / (1.0F + std::exp(1.0F) + std::exp(3.0F)), 1e-6F);
  expect_box(found[0], 40, 35, 20, 10);
}

TEST_F(Detections, DecodesSsdPriorsOfAllStridesInOneTensor) {
  FakeModel model(32, 32);  // strides 8 and 16: 16 * 2 + 4 * 1 = 36 priors
  FakeTensor& boxes = model.output("boxes", {1, 36, 4});
  FakeTensor& scores = model.output("scores", {1, 36, 2});
  ASSERT_TRUE(start(model, R"({"layout":"ssd","boxes":"priors","strides":[8,16],"anchors":[[10,20],[[30,40]]]})"))
      << error_;
  at(scores, 32 + 1, 1) = 0.9F;                         // stride 16, row 0, column 1: centre 24, 8, prior 30 x 40
  at(boxes, 33, 0) = 1.0F;                              // cx = 24 + 0.1 * 30
  at(boxes, 33, 1) = 1.0F;                              // cy = 8 + 0.1 * 40
  run_.frame.offset_x = run_.frame.offset_y = -100.0F;  // away from the picture's rim
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_STREQ(found[0].class_name, "class0");
  expect_box(found[0], 112, 92, 30, 40);
}

TEST_F(Detections, DecodesYolox) {
  FakeModel model = yolox();
  ASSERT_TRUE(start(model, R"({"layout":"yolox","classes":["person","bicycle"]})")) << error_;
  const std::int64_t cell = 64 + 4 + 2;  // stride 16: row 1, column 2
  const float row[7] = {0.5F, 0.25F, 0.0F, std::log(2.0F), 0.9F, 0.3F, 0.8F};
  std::copy(row, row + 7, model.outputs[0].values.begin() + cell * 7);
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].class_id, 1);
  EXPECT_FLOAT_EQ(found[0].score, 0.72F);
  expect_box(found[0], 32, 4, 16, 32);
}

TEST_F(Detections, TakesYoloxBoxesThatTheGraphDecoded) {
  FakeModel model = yolox();
  ASSERT_TRUE(start(model, R"({"layout":"yolox","decoded":true})")) << error_;
  const float row[7] = {30, 20, 10, 8, 1, 1, 0};
  std::copy(row, row + 7, model.outputs[0].values.begin());
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 25, 16, 10, 8);
}

// YOLOv5 and its kind: three anchors per cell, decoded in the graph.
TEST_F(Detections, TakesThreeDecodedAnchorsPerCell) {
  FakeModel model(64, 64);
  model.output("output0", {1, 252, 7});
  ASSERT_TRUE(start(model, R"({"layout":"yolox","decoded":true,"anchors_per_cell":3})")) << error_;
  const float row[7] = {30, 20, 10, 8, 0.9F, 0.1F, 1.0F};
  std::copy(row, row + 7, &at(model.outputs[0], 200, 0));
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].class_id, 1);
  expect_box(found[0], 25, 16, 10, 8);
}

// As TensorFlow's YOLOv5 puts them out.
TEST_F(Detections, TakesDecodedBoxesInPartsOfThePicture) {
  FakeModel model(64, 64);
  model.output("output0", {1, 252, 7});
  ASSERT_TRUE(start(model, R"({"layout":"yolov5","relative":true})")) << error_;
  const float row[7] = {0.5F, 0.25F, 0.125F, 0.25F, 0.9F, 0.1F, 1.0F};
  std::copy(row, row + 7, &at(model.outputs[0], 200, 0));
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 28, 8, 8, 16);
}

TEST_F(Detections, RefusesPartsOfThePictureOfYoloxWhichAreNotDecoded) {
  FakeModel model(64, 64);
  model.output("output0", {1, 84, 7});
  EXPECT_FALSE(start(model, R"({"layout":"yolox","relative":true})"));
  EXPECT_THAT(error_, HasSubstr("`relative: true` needs `decoded: true`"));
}

// YOLOv8-face as it is exported for OpenCV: 64 bins, one class and points of three values.
TEST_F(Detections, ReadsKeypointsBehindTheClassOfYolov8sMaps) {
  FakeModel model(64, 64);
  for (const std::int64_t stride : {8, 16, 32})
    model.output("output" + std::to_string(stride), {1, 64 + 1 + 6, 64 / stride, 64 / stride});
  for (FakeTensor& map : model.outputs) {
    for (std::int64_t i = 0; i < map.shape[2] * map.shape[3]; ++i)
      map.values[static_cast<std::size_t>(64 * map.shape[2] * map.shape[3] + i)] = -9.0F;
  }
  ASSERT_TRUE(start(model, R"({"layout":"yolov8-heads","keypoints":2})")) << error_;
  FakeTensor& map = model.outputs[1];
  for (std::int64_t side = 0; side < 4; ++side) at(map, side * 16 + 1, 1, 2) = 40.0F;  // a distance of one cell
  const float rest[7] = {9, 0.5F, 0.25F, 9, -0.5F, 0, -9};
  for (std::int64_t k = 0; k < 7; ++k) at(map, 64 + k, 1, 2) = rest[k];
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 24, 8, 32, 32);
  ASSERT_EQ(found[0].keypoint_count, 2U);
  EXPECT_NEAR(found[0].keypoints[0][0], 48, 1e-3F);
  EXPECT_NEAR(found[0].keypoints[0][1], 24, 1e-3F);
  EXPECT_NEAR(found[0].keypoints[1][0], 16, 1e-3F);
  EXPECT_NEAR(found[0].keypoints[1][1], 16, 1e-3F);
}

// FairMOT's sizes.
TEST_F(Detections, TakesFourSizesOfACentreForDistancesToTheSides) {
  FakeModel model(64, 64);
  model.output("hm", {1, 1, 16, 16});
  model.output("wh", {1, 4, 16, 16});
  model.output("id", {1, 128, 16, 16});
  model.output("reg", {1, 2, 16, 16});
  ASSERT_TRUE(start(model, R"({"layout":"centernet"})")) << error_;
  at(model.outputs[0], 0, 5, 6) = 0.9F;
  for (std::int64_t k = 0; k < 4; ++k) at(model.outputs[1], k, 5, 6) = 1.0F + static_cast<float>(k);
  for (std::int64_t k = 0; k < 2; ++k) at(model.outputs[3], k, 5, 6) = 0.5F;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 22, 14, 16, 24);
}

// YOLOv8 and its kind: [1,4+C,N], centre and size in pixels, no background.
TEST_F(Detections, DecodesBoxesAndClassesInOneTransposedTensor) {
  FakeModel model(64, 64);
  FakeTensor& output = model.output("output0", {1, 6, 84});
  ASSERT_TRUE(start(model, R"({"layout":"ssd","boxes":"centre","relative":false})")) << error_;
  const float column[6] = {30, 20, 10, 8, 0.1F, 0.9F};
  for (std::int64_t i = 0; i < 6; ++i) at(output, i, 50) = column[i];
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_STREQ(found[0].class_name, "class1");
  expect_box(found[0], 25, 16, 10, 8);
}

TEST_F(Detections, TakesTheFirstOfRetinafacesScoresForTheBackgroundWhereNoClassesAreNamed) {
  FakeModel model(64, 64);
  model.output("output0", {1, 168, 4});
  FakeTensor& scores = model.output("586", {1, 168, 2});
  model.output("585", {1, 168, 10});
  for (std::int64_t i = 0; i < 168; ++i) at(scores, i, 0) = 0.99F;
  const std::int64_t anchor = std::int64_t{2} * (64 + 1 * 4 + 2);  // stride 16: centre 40, 24, side 64
  at(scores, anchor, 0) = 0.2F;
  at(scores, anchor, 1) = 0.8F;
  ASSERT_TRUE(start(model, R"({"layout":"anchors"})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].class_id, 0);
  EXPECT_FLOAT_EQ(found[0].score, 0.8F);
  EXPECT_EQ(found[0].keypoint_count, 5);
}

TEST_F(Detections, DecodesNanodet) {
  FakeModel model(64, 64);
  for (const std::int64_t stride : {8, 16, 32})
    model.output("cls_pred_stride_" + std::to_string(stride), {1, 64 / stride * 64 / stride, 2});
  for (const std::int64_t stride : {8, 16, 32})
    model.output("dis_pred_stride_" + std::to_string(stride), {1, 64 / stride * 64 / stride, 32});
  ASSERT_TRUE(start(model, R"({"layout":"nanodet","classes":["person","bicycle"]})")) << error_;
  const std::int64_t cell = 1 * 4 + 2;  // stride 16: point 40, 24
  at(model.outputs[1], cell, 1) = 0.6F;
  at(model.outputs[4], cell, 0 * 8 + 1) = 50.0F;  // left: bin 1 for sure: 16 pixels
  at(model.outputs[4], cell, 2 * 8 + 2) = 50.0F;  // right: bin 2: 32 pixels
  // top and bottom: all bins alike: 3.5 * 16 = 56 pixels
  run_.frame.offset_y = -100.0F;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].class_id, 1);
  expect_box(found[0], 24, 68, 48, 112);
}

TEST_F(Detections, DecodesNanodetOfEightyClassesThatNobodyNamed) {
  FakeModel model(64, 64);
  for (const std::int64_t stride : {8, 16, 32})
    model.output("scores" + std::to_string(stride), {1, 64 / stride * 64 / stride, 80});
  for (const std::int64_t stride : {8, 16, 32})
    model.output("bins" + std::to_string(stride), {1, 64 / stride * 64 / stride, 32});
  ASSERT_TRUE(start(model, R"({"layout":"nanodet"})")) << error_;
  const std::int64_t cell = 1 * 4 + 2;  // stride 16: point 40, 24
  at(model.outputs[1], cell, 79) = 0.6F;
  for (int side = 0; side < 4; ++side) at(model.outputs[4], cell, side * 8 + 1) = 50.0F;  // 16 pixels
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].class_id, 79);
  expect_box(found[0], 24, 8, 32, 32);
}

TEST_F(Detections, DecodesNanodetPlusFromOneTensor) {
  FakeModel model(64, 64);
  model.output("output", {1, 64 + 16 + 4 + 1, 2 + 32});
  ASSERT_TRUE(start(model, R"({"layout":"nanodet","classes":["person","bicycle"],"anchor_offset":0})")) << error_;
  const std::int64_t cell = 64 + 16 + 4;  // stride 64: point 0, 0
  at(model.outputs[0], cell, 0) = 0.6F;
  for (int side = 0; side < 4; ++side) at(model.outputs[0], cell, 2 + side * 8 + 1) = 50.0F;  // 64 pixels
  run_.frame.offset_x = run_.frame.offset_y = -100.0F;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 36, 36, 128, 128);
}

TEST_F(Detections, DecodesNanodetPlusOfEightBinsWhereNoClassesAreNamed) {
  FakeModel model(64, 64);
  model.output("output", {1, 64 + 16 + 4 + 1, 3 + 32});
  ASSERT_TRUE(start(model, R"({"layout":"nanodet","anchor_offset":0})")) << error_;
  const std::int64_t cell = 64 + 16 + 4;  // stride 64: point 0, 0
  at(model.outputs[0], cell, 2) = 0.6F;
  for (int side = 0; side < 4; ++side) at(model.outputs[0], cell, 3 + side * 8 + 1) = 50.0F;  // 64 pixels
  run_.frame.offset_x = run_.frame.offset_y = -100.0F;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].class_id, 2);
  expect_box(found[0], 36, 36, 128, 128);
}

TEST_F(Detections, DecodesFastestDet) {
  FakeModel model(64, 96);
  model.output("758", {1, 7, 4, 6});
  ASSERT_TRUE(start(model, R"({"layout":"fastestdet","classes":["person","bicycle"]})")) << error_;
  at(model.outputs[0], 0, 1, 2) = 0.8F;
  at(model.outputs[0], 1, 1, 2) = 1.0F;   // cx = (2 + tanh 1) * 16
  at(model.outputs[0], 3, 1, 2) = -1.0F;  // w = sigmoid(-1) * 96
  at(model.outputs[0], 4, 1, 2) = 0.0F;   // h = 32
  at(model.outputs[0], 6, 1, 2) = 0.9F;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].class_id, 1);
  EXPECT_NEAR(found[0].score, std::pow(0.8F, 0.6F) * std::pow(0.9F, 0.4F), 1e-6F);
  const float width = 96.0F / (1.0F + std::exp(1.0F));
  expect_box(found[0], (2 + std::tanh(1.0F)) * 16 - width / 2, 0.0F, width, 32.0F);
}

// The second anchor of YOLOv5's first stride, 16x30, in the cell of column 2 and row 3: in the middle of the cell, and
// as large as the anchor.
TEST_F(Detections, DecodesYoloHeadsWhoseClassesBoxesAndObjectnessHaveMapsOfTheirOwn) {
  FakeModel model(64, 64);
  for (const std::int64_t n : {8, 4, 2}) {
    model.output("cls" + std::to_string(n), {1, 6, n, n});
    model.output("box" + std::to_string(n), {1, 12, n, n});
    FakeTensor& obj = model.output("obj" + std::to_string(n), {1, 3, n, n});
    std::fill(obj.values.begin(), obj.values.end(), -9.0F);
  }
  ASSERT_TRUE(start(model, R"({"layout":"yolov5-heads","classes":["cat","dog"]})")) << error_;
  at(model.outputs[0], 2 + 1, 3, 2) = 4.0F;
  at(model.outputs[2], 1, 3, 2) = 3.0F;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_STREQ(found[0].class_name, "dog");
  EXPECT_NEAR(found[0].score, 1 / (1 + std::exp(-4.0F)) / (1 + std::exp(-3.0F)), 1e-6F);
  expect_box(found[0], 20 - 8, 28 - 15, 16, 30);
}

TEST_F(Detections, RefusesYoloHeadsThatItCannotReadInOneLineEach) {
  FakeModel maps(64, 64), list(64, 64);
  for (const std::int64_t n : {8, 4, 2}) maps.output("out" + std::to_string(n), {1, 21, n, n});
  list.output("output", {1, 252, 7});
  FakeModel bins(64, 64);
  bins.output("output", {1, 84, 66});
  const auto refused = [](FakeModel& model, const std::string& config) {
    Instance run(find_builtin("detections"));
    EXPECT_EQ(run.create(config), CAMD_OK) << run.error();
    EXPECT_NE(run.outputs(model), CAMD_OK);
    return run.error();
  };
  EXPECT_EQ(refused(maps, R"({"layout":"yolo-heads"})"),
            "layout 'yolo-heads': config.anchors: missing, one list per stride is needed; yolov5-heads and other names "
            "bring their own");
  EXPECT_EQ(refused(maps, R"({"layout":"yolov5-heads","scale_xy":[1.2,1.1]})"),
            "layout 'yolo-heads': config.scale_xy: 2 numbers, but 3 strides: one, or one per stride, is needed; the "
            "model's outputs look like {layout: yolov5-heads, scores: probability} (YOLOv5)");
  EXPECT_EQ(refused(list, R"({"layout":"yolov5-heads"})"),
            "layout 'yolo-heads': wanted a map [1,A*k,h,w] or [1,A,h,w,k] of each stride, found output [1,252,7]; the "
            "model's outputs look like {layout: yolox, decoded: true, anchors_per_cell: 3} (YOLOv5 and its kind)");
  EXPECT_EQ(refused(bins, R"({"layout":"yolov8-heads"})"),
            "layout 'nanodet': `boxes_first` is for a map [1,k,h,w] of each of three strides or more, not for output "
            "[1,84,66]; the model's outputs look like {layout: yolox} (YOLOX)");
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins::testing
