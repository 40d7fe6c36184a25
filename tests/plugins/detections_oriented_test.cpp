// Boxes that are turned: what encloses them, their corners, and which of them are one object.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "detections_fixture.hpp"
#include "plugins/detections/candidates.hpp"

namespace camd::plugins::testing {
namespace CAMD_TEST_FILE {

using ::testing::HasSubstr;

constexpr float kPi = 3.14159265F;

// Of [1, 4 + classes + 1, 84], the row of one cell.
void set_cell(FakeTensor& t, std::int64_t cell, const std::vector<float>& values) {
  for (std::size_t c = 0; c < values.size(); ++c) at(t, static_cast<std::int64_t>(c), cell) = values[c];
}

void expect_corners(const camd_detection& d, const float (&corners)[4][2]) {
  ASSERT_EQ(d.keypoint_count, 4);
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(d.keypoints[i][0], corners[i][0], 1e-3F) << i;
    EXPECT_NEAR(d.keypoints[i][1], corners[i][1], 1e-3F) << i;
  }
}

TEST_F(Detections, GivesAnOrientedBoxAsWhatEnclosesItAndItsCorners) {
  FakeModel model(64, 64);
  FakeTensor& t = model.output("output0", {1, 7, 84});
  // 20 x 10, turned by a quarter, then by 30 degrees.
  set_cell(t, 3, {32, 32, 20, 10, 0.9F, 0.1F, kPi / 2});
  set_cell(t, 9, {32, 32, 20, 10, 0.1F, 0.8F, kPi / 6});
  ASSERT_TRUE(start(model, R"({"layout":"yolo11-obb","classes":["ship","plane"]})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_STREQ(found[0].class_name, "ship");
  expect_box(found[0], 27, 22, 10, 20);
  expect_corners(found[0], {{37, 22}, {37, 42}, {27, 42}, {27, 22}});
  EXPECT_STREQ(found[1].class_name, "plane");
  const float c = std::cos(kPi / 6), s = 0.5F;
  expect_corners(found[1], {{32 - 10 * c + 5 * s, 32 - 10 * s - 5 * c},
                            {32 + 10 * c + 5 * s, 32 + 10 * s - 5 * c},
                            {32 + 10 * c - 5 * s, 32 + 10 * s + 5 * c},
                            {32 - 10 * c - 5 * s, 32 - 10 * s + 5 * c}});
  expect_box(found[1], 32 - 10 * c - 5 * s, 32 - 10 * s - 5 * c, 20 * c + 10 * s, 20 * s + 10 * c);
}

// As TensorRT's EfficientRotatedNMS_TRT reads them.
TEST_F(Detections, ReadsTheAngleBehindABoxWhoseScoresHaveATensorOfTheirOwn) {
  FakeModel model(64, 64);
  FakeTensor& boxes = model.output("boxes", {1, 84, 5});
  FakeTensor& scores = model.output("scores", {1, 84, 2});
  const std::vector<float> box = {32, 32, 20, 10, kPi / 2};
  for (std::size_t k = 0; k < box.size(); ++k) at(boxes, 3, static_cast<std::int64_t>(k)) = box[k];
  at(scores, 3, 1) = 0.9F;
  ASSERT_TRUE(start(
      model,
      R"({"layout":"ssd","boxes":"centre","relative":false,"oriented":true,"background":false,"classes":["ship","plane"]})"))
      << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_STREQ(found[0].class_name, "plane");
  expect_box(found[0], 27, 22, 10, 20);
  expect_corners(found[0], {{37, 22}, {37, 42}, {27, 42}, {27, 22}});
}

// Two bars that cross have nearly one enclosing box, and share little.
TEST_F(Detections, KeepsOrientedBoxesWhoseEnclosingBoxesAloneOverlap) {
  FakeModel model(64, 64);
  FakeTensor& t = model.output("output0", {1, 6, 84});
  set_cell(t, 0, {32, 32, 40, 4, 0.9F, kPi / 4});
  set_cell(t, 1, {32, 32, 40, 4, 0.8F, -kPi / 4});
  set_cell(t, 2, {32, 32, 38, 4, 0.7F, kPi / 4});  // shares 0.95 with the first
  set_cell(t, 3, {32, 32, 4, 40, 0.6F, kPi / 4});  // the second once more: a side is the other one
  ASSERT_TRUE(start(model, R"({"layout":"yolov8-obb","classes":["bar"]})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_FLOAT_EQ(found[0].score, 0.9F);
  EXPECT_FLOAT_EQ(found[1].score, 0.8F);
}

TEST_F(Detections, ReadsOrientedBoxesThatTheGraphHasChosen) {
  FakeModel model(64, 64);
  model.output("output0", {1, 2, 7}).values = {32, 32, 20, 10, 0.9F, 1, kPi / 2, 0, 0, 0, 0, 0, 0, 0};
  ASSERT_TRUE(start(model, R"({"layout":"yolo26-obb","classes":["ship","plane"]})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_STREQ(found[0].class_name, "plane");
  expect_box(found[0], 27, 22, 10, 20);
  expect_corners(found[0], {{37, 22}, {37, 42}, {27, 42}, {27, 22}});
}

// The classes have a tensor of their own, and no score is in front of the angle.
TEST_F(Detections, ReadsOrientedBoxesOfMmrotate) {
  FakeModel model(64, 64);
  model.output("dets", {1, 2, 6}, {32, 24, 20, 10, 1.5707964F, 0.9F, 0, 0, 0, 0, 0, 0});
  model.output("labels", {1, 2}, {1, 0});
  ASSERT_TRUE(start(model, R"({"layout":"mmrotate","classes":["plane","ship"]})")) << error_;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 27, 14, 10, 20);
  EXPECT_STREQ(found[0].class_name, "ship");
}

TEST_F(Detections, RefusesOrientedBoxesWithKeypointsOrAMean) {
  FakeModel model(64, 64);
  model.output("output0", {1, 6, 84});
  EXPECT_FALSE(start(model, R"({"layout":"yolov8-obb","keypoints":1})"));
  EXPECT_THAT(error_,
              HasSubstr("`oriented: true` needs `boxes: centre` and no keypoints: those are the box's corners"));
  EXPECT_FALSE(start(model, R"({"layout":"yolov8-obb","blend":0.7})"));
  EXPECT_THAT(error_, HasSubstr("config.blend: boxes that are turned have no mean, leave it out"));
}

TEST(OverlapOfCorners, IsThatOfTheTurnedRectangles) {
  const Point square[4] = {{0, 0}, {2, 0}, {2, 2}, {0, 2}};
  const Point beside[4] = {{1, 0}, {3, 0}, {3, 2}, {1, 2}};
  const Point away[4] = {{5, 5}, {6, 5}, {6, 6}, {5, 6}};
  const Point diamond[4] = {{1, 0}, {2, 1}, {1, 2}, {0, 1}};
  const Point backwards[4] = {{0, 2}, {2, 2}, {2, 0}, {0, 0}};
  EXPECT_FLOAT_EQ(overlap_of_corners(square, square), 1);
  EXPECT_FLOAT_EQ(overlap_of_corners(square, backwards), 1);
  EXPECT_FLOAT_EQ(overlap_of_corners(square, beside), 1.0F / 3.0F);
  EXPECT_FLOAT_EQ(overlap_of_corners(square, away), 0);
  EXPECT_FLOAT_EQ(overlap_of_corners(square, diamond), 0.5F);
  EXPECT_FLOAT_EQ(overlap_of_corners(diamond, square), 0.5F);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins::testing
