// Layout `fomo`: a map of classes, of whose cells objects are made.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "detections_fixture.hpp"
#include "harness.hpp"

namespace camd::plugins::testing {
namespace CAMD_TEST_FILE {

using FomoLayout = Detections;

constexpr const char* kTwoClasses = R"({"layout":"fomo","classes":["bolt","nut"]})";

// 96x64 pixels, 12x8 cells: all background.
FakeModel map_first() {
  FakeModel model(64, 96);
  FakeTensor& map = model.output("output", {1, 3, 8, 12});
  for (std::int64_t cell = 0; cell < 96; ++cell) at(map, 0, cell / 12, cell % 12) = 1.0F;
  return model;
}

void put(FakeModel& model, std::int64_t channel, std::int64_t row, std::int64_t column, float share) {
  at(model.outputs[0], channel, row, column) = share;
  at(model.outputs[0], 0, row, column) = 1.0F - share;
}

TEST_F(FomoLayout, JoinsCellsThatTouchAndTakesTheBestOnesScore) {
  FakeModel model = map_first();
  ASSERT_TRUE(start(model, kTwoClasses)) << error_;
  put(model, 1, 2, 3, 0.6F);
  put(model, 1, 2, 4, 0.9F);
  put(model, 1, 3, 5, 0.7F);   // at a corner
  put(model, 1, 6, 11, 0.8F);  // far from them, in the last column
  const std::vector<camd_detection> found = detect(model);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].score, 0.9F);
  EXPECT_STREQ(found[0].class_name, "bolt");
  expect_box(found[0], 24, 16, 24, 16);
  EXPECT_EQ(found[1].score, 0.8F);
  expect_box(found[1], 88, 48, 8, 8);
}

TEST_F(FomoLayout, KeepsClassesApart) {
  FakeModel model = map_first();
  ASSERT_TRUE(start(model, kTwoClasses)) << error_;
  put(model, 1, 0, 0, 0.6F);
  put(model, 2, 0, 1, 0.7F);
  put(model, 1, 0, 2, 0.8F);
  const std::vector<camd_detection> found = detect(model);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_STREQ(found[0].class_name, "bolt");
  expect_box(found[0], 16, 0, 8, 8);
  EXPECT_STREQ(found[1].class_name, "nut");
  expect_box(found[1], 8, 0, 8, 8);
  EXPECT_STREQ(found[2].class_name, "bolt");
  expect_box(found[2], 0, 0, 8, 8);
}

TEST_F(FomoLayout, JoinsARingOfCellsIntoOneBoxAndForgetsItInTheNextFrame) {
  FakeModel model = map_first();
  ASSERT_TRUE(start(model, kTwoClasses)) << error_;
  for (std::int64_t i = 1; i < 7; ++i) {
    for (const auto& [row, column] : {std::pair{i, std::int64_t{1}}, {i, std::int64_t{6}}, {std::int64_t{1}, i}}) {
      put(model, 2, row, column, 0.75F);
    }
  }
  std::vector<camd_detection> found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 8, 8, 48, 48);
  for (std::int64_t cell = 0; cell < 96; ++cell) put(model, 2, cell / 12, cell % 12, 0.0F);
  put(model, 2, 4, 6, 0.75F);
  found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 48, 32, 8, 8);
}

TEST_F(FomoLayout, TakesPixelsThatComeLastAndTheStrideOfTheMap) {
  FakeModel model(64, 96);
  FakeTensor& map = model.output("StatefulPartitionedCall:0", {1, 4, 6, 3});
  map.values[(1 * 6 + 2) * 3 + 2] = 0.75F;
  ASSERT_TRUE(start(model, kTwoClasses)) << error_;
  const std::vector<camd_detection> found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_STREQ(found[0].class_name, "nut");
  expect_box(found[0], 32, 16, 16, 16);
}

TEST_F(FomoLayout, TakesTheSoftmaxOfLogits) {
  FakeModel model(64, 96);
  FakeTensor& map = model.output("output", {1, 3, 8, 12});
  ASSERT_TRUE(start(model, R"({"layout":"fomo","scores":"logits"})")) << error_;
  for (std::int64_t cell = 0; cell < 96; ++cell) at(map, 0, cell / 12, cell % 12) = 5.0F;
  at(map, 2, 7, 0) = 6.0F;
  const std::vector<camd_detection> found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_STREQ(found[0].class_name, "class1");
  EXPECT_NEAR(found[0].score, std::exp(6.0F) / (std::exp(6.0F) + std::exp(5.0F) + 1.0F), 1e-6F);
  expect_box(found[0], 0, 56, 8, 8);
}

TEST_F(FomoLayout, SaysWhichMapItWants) {
  FakeModel model(64, 96);
  model.output("output", {1, 3, 5, 5});
  ASSERT_FALSE(start(model, kTwoClasses));
  EXPECT_EQ(error_,
            "layout 'fomo': no map of classes, wanted [1,C,h,w] or [1,h,w,C] with a cell for 8x8 pixels of "
            "the input (set strides: [S] for SxS); the model's outputs are output [1,3,5,5]");
}

TEST_F(FomoLayout, WantsOneStride) {
  FakeModel model = map_first();
  ASSERT_FALSE(start(model, R"({"layout":"fomo","strides":[8,16]})"));
  EXPECT_EQ(error_, "layout 'fomo': there is one map of classes, of one stride");
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins::testing
