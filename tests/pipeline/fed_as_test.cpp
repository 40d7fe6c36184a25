// How networks are fed by what their file says of pictures, and those of PaddleDetection.
#include "pipeline/run/fed_as.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

TEST(PaddleDetection, IsToldByTheNameOfTheGraphOrByTheFactorsThatItTakes) {
  const std::vector<infer::TensorSpec> factors = {{"scale_factor", {1, 2}, infer::DataType::kF32}};
  EXPECT_TRUE(is_of_paddle("PaddlePaddle Graph in PIR mode", {}));
  EXPECT_TRUE(is_of_paddle("Model from PaddlePaddle.", {}));
  EXPECT_TRUE(is_of_paddle("main_graph", factors));
  EXPECT_FALSE(is_of_paddle("main_graph", {{"orig_target_sizes", {1, 2}, infer::DataType::kI64}}));
}

TEST(PaddleDetection, FeedsPicodetAsImagenetWhichAloneHasABoxForEachCellOfFourStrides) {
  const infer::Shape picture = {1, 3, 320, 320};
  EXPECT_EQ(fed_by_paddle(2125, picture, "color: rgb, scale: 0.00392157"),
            "color: rgb, mean: [123.675, 116.28, 103.53], scale: [0.0171248, 0.0175070, 0.0174292], resize: stretch");
  EXPECT_EQ(fed_by_paddle(2100, picture, "color: rgb, scale: 0.00392157"),
            "color: rgb, scale: 0.00392157, resize: stretch");
  EXPECT_EQ(fed_by_paddle(0, picture, "color: rgb, scale: 1, resize: stretch"),
            "color: rgb, scale: 1, resize: stretch");
}

TEST(OnnxOwnWords, SayTheOrderAndTheRangeOfPixels) {
  const auto fed = [](const char* format, const char* range, const char* usual) {
    return fed_by_format({{"Image.BitmapPixelFormat", format}, {"Image.NominalPixelRange", range}}, usual);
  };
  constexpr const char* kScaled = "color: rgb, mean: [1, 2, 3], scale: [4, 5, 6], resize: stretch";
  EXPECT_EQ(fed("Bgr8", "NominalRange_0_255", kScaled), "color: bgr, scale: 1, resize: stretch");
  EXPECT_EQ(fed("rgba8", "normalized_0_1", "color: bgr, scale: 1"), "color: rgb, scale: 0.00392157");
  EXPECT_EQ(fed("Rgb8", "Normalized_1_1", "color: rgb, scale: 1"),
            "color: rgb, mean: [127.5, 127.5, 127.5], scale: 0.00784314");
  EXPECT_EQ(fed("Gray8", "NominalRange_16_235", kScaled), kScaled);
  EXPECT_EQ(fed_by_format({}, kScaled), kScaled);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
