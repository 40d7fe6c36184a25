// What looks at a picture between its pixels: deformable convolutions, and the boxes of a second stage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "lowered.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::OnnxBuilder;
using test::refusal;
using test::result_of_counts;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::FloatNear;
using ::testing::Pointwise;
using Floats = std::vector<float>;

// ---- DeformConv. The first two are ONNX's cases test_basic_deform_conv_*; Debian's package is older than they are.

TEST(DeformConv, TapsLookWhereTheirOffsetsSay) {
  Floats offset(32, 0.0F);
  offset[0] = 0.5F;           // of the first tap at the first place: half a row down
  offset[5 * 4 + 1] = -0.1F;  // of the third tap at the second place: to the left
  OnnxBuilder b;
  b.opset(19).input("x", {1, 1, 3, 3}).weight("w", {1, 1, 2, 2}, {1, 1, 1, 1}).weight("o", {1, 8, 2, 2}, offset);
  b.node("DeformConv", {"x", "w", "o"}, {"y"}).ints("kernel_shape", {2, 2}).ints("pads", {0, 0, 0, 0});
  b.output("y", {});
  EXPECT_THAT(result_of_counts(b, {1, 1, 3, 3}), Pointwise(FloatNear(1e-5F), Floats{9.5F, 11.9F, 20, 24}));
}

TEST(DeformConv, CountsNothingBeyondTheEdges) {
  Floats offset(128, 0.0F);
  offset[0] = 0.5F;
  offset[5 * 16 + 1 * 4 + 2] = -0.1F;
  OnnxBuilder b;
  b.opset(19).input("x", {1, 1, 3, 3}).weight("w", {1, 1, 2, 2}, {1, 1, 1, 1}).weight("o", {1, 8, 4, 4}, offset);
  b.node("DeformConv", {"x", "w", "o"}, {"y"}).ints("kernel_shape", {2, 2}).ints("pads", {1, 1, 1, 1});
  b.output("y", {});
  EXPECT_THAT(result_of_counts(b, {1, 1, 3, 3}),
              Pointwise(FloatNear(1e-5F), Floats{0, 1, 3, 2, 3, 8, 11.9F, 7, 9, 20, 24, 13, 6, 13, 15, 8}));
}

// Two channels with an offset, a mask and a weight each.
TEST(DeformConv, GroupsHaveOffsetsMasksAndWeightsOfTheirOwn) {
  OnnxBuilder b;
  b.opset(19).input("x", {1, 2, 1, 2}).weight("w", {2, 1, 1, 1}, {2, 3}).weight("bias", {2}, {10, 20});
  b.weight("o", {1, 4, 1, 2}, {0, 0, 0, 0, 0, 0, 1, 1}).weight("m", {1, 2, 1, 2}, {0.5F, 0.25F, 1, 1});
  b.node("DeformConv", {"x", "w", "o", "bias", "m"}, {"y"}).integer("group", 2).integer("offset_group", 2);
  b.output("y", {});
  EXPECT_THAT(result_of_counts(b, {1, 2, 1, 2}), Pointwise(FloatNear(1e-5F), Floats{10, 10.5F, 29, 20}));
}

// With offsets that are 0 it is a convolution.
TEST(DeformConv, StridesAndDilationsAreThoseOfAConvolution) {
  Floats weight(std::size_t{2} * 3 * 3 * 2);
  for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(i % 7) - 3;
  const auto network = [&](bool deformed) {
    OnnxBuilder b;
    b.opset(19).input("x", {1, 3, 7, 8}).weight("w", {2, 3, 3, 2}, weight).weight("o", {1, 12, 4, 3}, Floats(144, 0));
    b.node(deformed ? "DeformConv" : "Conv",
           deformed ? std::vector<std::string>{"x", "w", "o"} : std::vector<std::string>{"x", "w"}, {"y"});
    b.ints("strides", {2, 3}).ints("dilations", {1, 2}).ints("pads", {1, 0, 1, 2}).output("y", {});
    return result_of_counts(b, {1, 3, 7, 8});
  };
  EXPECT_THAT(network(true), Pointwise(FloatNear(2e-2F), network(false)));
}

TEST(DeformConv, OffsetsThatDoNotFitAreRefused) {
  OnnxBuilder b;
  b.opset(19).input("x", {1, 1, 3, 3}).weight("w", {1, 1, 2, 2}, {1, 1, 1, 1}).weight("o", {1, 8, 3, 3}, Floats(72, 0));
  b.node("DeformConv", {"x", "w", "o"}, {"y"}, "bent").output("y", {});
  EXPECT_THAT(refusal(b, {1, 1, 3, 3}),
              EndsWith("DeformConv (node 'bent'): its offset [1,8,3,3] does not fit its input [1,1,3,3]"));
}

// The table of undisturbed places would take as many numbers as the offsets have.
TEST(DeformConv, OffsetsOfMorePlacesThanAConstantMayHaveAreRefused) {
  OnnxBuilder b;
  b.opset(19).input("x", {1, 2, 2900, 2900}).weight("w", {1, 2, 1, 1}, {1, 1});
  b.node("DeformConv", {"x", "w", "x"}, {"y"}, "bent").output("y", {});
  EXPECT_THAT(refusal(b, {1, 2, 2900, 2900}), EndsWith("DeformConv (node 'bent'): its offset is too large"));
}

// ---- RoiAlign. ONNX's cases have boxes that are known beforehand.

// One box covers all of a picture of 0 to 7, whose mean is 3.5.
TEST(RoiAlign, BoxesWithoutAPlaceAreNothing) {
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  OnnxBuilder b;
  b.opset(16).input("x", {1, 1, 2, 4}).weight("boxes", {2, 4}, {0, 0, 4, 2, 0, kNone, 4, 2});
  b.integers("pictures", {2}, {0, 0}).node("RoiAlign", {"x", "boxes", "pictures"}, {"y"}).integer("sampling_ratio", 2);
  b.output("y", {});
  EXPECT_THAT(result_of_counts(b, {1, 1, 2, 4}), ElementsAre(3.5F, 0));
}

TEST(RoiAlign, BoxesLargerThanAnyPictureAreRefused) {
  OnnxBuilder b;
  b.opset(16).input("x", {1, 1, 2, 4}).weight("boxes", {1, 4}, {0, 0, 1e9F, 2}).integers("pictures", {1}, {0});
  b.node("RoiAlign", {"x", "boxes", "pictures"}, {"y"}, "second").output("y", {});
  EXPECT_THAT(refusal(b, {1, 1, 2, 4}), EndsWith("RoiAlign (node 'second'): one of its boxes is out of range"));
}

// 1024 samples along each side of a bin: four million places and as many weights.
TEST(RoiAlign, BoxesWithMoreSamplesThanCanBeKeptAreRefused) {
  OnnxBuilder b;
  b.opset(16)
      .input("x", {1, 1, 2, 4})
      .weight("boxes", {2, 4}, {0, 0, 4, 2, 0, 0, 4, 2})
      .integers("pictures", {2}, {0, 0});
  b.node("RoiAlign", {"x", "boxes", "pictures"}, {"y"}, "second").integer("sampling_ratio", 1024).output("y", {});
  EXPECT_THAT(refusal(b, {1, 1, 2, 4}), EndsWith("folding the model's constants up to here takes too long"));
}

TEST(RoiAlign, IndicesOfOtherPicturesAreRefused) {
  OnnxBuilder b;
  b.opset(16).input("x", {1, 1, 2, 4}).weight("boxes", {1, 4}, {0, 0, 4, 2}).integers("pictures", {1}, {1});
  b.node("RoiAlign", {"x", "boxes", "pictures"}, {"y"}, "second").output("y", {});
  EXPECT_THAT(refusal(b, {1, 1, 2, 4}), EndsWith("RoiAlign (node 'second'): one of its indices is out of range"));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
