// Layout `detectnet`: boxes of each class beside a map of scores.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "detections_fixture.hpp"
#include "harness.hpp"
#include "layout_advice.hpp"

namespace camd::plugins::testing {
namespace CAMD_TEST_FILE {

using DetectnetLayout = Detections;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

// 96x64 pixels, 6x4 cells, three classes. `cls` and `box`: the outputs' names.
FakeModel maps_named(const char* cls, const char* box) {
  FakeModel model(64, 96);
  model.output(box, {1, 12, 4, 6});
  model.output(cls, {1, 3, 4, 6});
  return model;
}

TEST_F(DetectnetLayout, MeasuresBoxesFromHalfAPixelBesideTheCellsCornerInUnitsOf35) {
  FakeModel model = maps_named("output_cov/Sigmoid:0", "output_bbox/BiasAdd:0");
  ASSERT_TRUE(start(model, R"({"layout":"detectnet","classes":["person","bag","face"]})")) << error_;
  at(model.outputs[1], 1, 2, 3) = 0.75F;
  const std::vector<float> sides = {0.5F, 0.25F, 0.125F, 0.0625F};  // left, top, right, bottom
  for (int i = 0; i < 4; ++i) at(model.outputs[0], 4 + i, 2, 3) = sides[static_cast<std::size_t>(i)];
  const std::vector<camd_detection> found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_STREQ(found[0].class_name, "bag");
  EXPECT_EQ(found[0].score, 0.75F);
  expect_box(found[0], 48.5F - 17.5F, 32.5F - 8.75F, 17.5F + 4.375F, 8.75F + 2.1875F);
}

TEST_F(DetectnetLayout, GivesEachClassOfACellItsOwnBox) {
  FakeModel model = maps_named("output_cov/Sigmoid:0", "output_bbox/BiasAdd:0");
  ASSERT_TRUE(start(model, R"({"layout":"detectnet"})")) << error_;
  for (const int k : {0, 2}) {
    at(model.outputs[1], k, 1, 1) = 0.9F - 0.1F * static_cast<float>(k);
    for (int i = 0; i < 4; ++i) at(model.outputs[0], 4 * k + i, 1, 1) = 0.1F * static_cast<float>(k + 1);
  }
  const std::vector<camd_detection> found = detect(model);
  ASSERT_EQ(found.size(), 2U);
  expect_box(found[0], 13, 13, 7, 7);
  expect_box(found[1], 6, 6, 21, 21);
}

TEST_F(DetectnetLayout, SaysWhichMapsItWants) {
  FakeModel model(64, 96);
  model.output("output_cov", {1, 3, 4, 6});
  model.output("output_bbox", {1, 8, 4, 6});
  ASSERT_FALSE(start(model, R"({"layout":"detectnet"})"));
  EXPECT_EQ(
      error_,
      "layout 'detectnet': no map of scores [1,C,h,w] beside one of boxes [1,4C,h,w] with a cell for 16x16 pixels "
      "of the input (set strides: [S] for SxS); the model's outputs are output_cov [1,3,4,6], output_bbox "
      "[1,8,4,6]");
}

TEST(LayoutSuggestions, NameDetectnetByTheNamesOfItsMaps) {
  const auto of = [](const char* cls, const char* box) {
    FakeModel model = model_of(320, {{box, {1, 16, 20, 20}, -0.1F, 1}, {cls, {1, 4, 20, 20}, 0, 1}});
    return by_values(model);
  };
  EXPECT_THAT(of("output_cov/Sigmoid:0", "output_bbox/BiasAdd:0"), ElementsAre("layout: detectnet"));
  EXPECT_THAT(of("1", "2"), Not(Contains("layout: detectnet")));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins::testing
