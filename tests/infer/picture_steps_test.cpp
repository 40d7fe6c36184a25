// What graphs do to a picture before their first layer.
#include "infer/picture_steps.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "onnx_builder.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::OnnxBuilder;

class PictureStepsTest : public ::testing::Test {
 protected:
  // "scaled", "scaled, of bytes", "reversed" and so on, of a graph whose steps end in a value called "steps".
  std::string steps_of(OnnxBuilder b) {
    b.weight("kernel", {1, 3, 1, 1}, {1, 1, 1}).node("Conv", {"steps", "kernel"}, {"y"}).output("y", {});
    const PictureSteps steps = picture_steps(b.file());
    std::string text = steps.scaled ? "scaled" : "";
    if (steps.of_bytes) text += ", of bytes";
    if (steps.reversed) text += text.empty() ? "reversed" : ", reversed";
    if (steps.height > 0) text += ", " + std::to_string(steps.width) + "x" + std::to_string(steps.height);
    if (steps.red_first) text += *steps.red_first ? ", red first" : ", blue first";
    return text;
  }
  static OnnxBuilder picture(int type = onnx::TensorProto::FLOAT) {
    OnnxBuilder b;
    b.input("x", {1, 3, 4, 4}, type);
    return b;
  }
};

TEST_F(PictureStepsTest, AreNoneWhereAConvolutionComesFirst) {
  OnnxBuilder b = picture();
  b.node("Identity", {"x"}, {"steps"});
  EXPECT_EQ(steps_of(std::move(b)), "");
}

TEST_F(PictureStepsTest, BringBytesDownByAFactorAlone) {
  OnnxBuilder by_255 = picture(), to_one = picture();
  by_255.weight("w", {}, {255}).node("Div", {"x", "w"}, {"steps"});
  EXPECT_EQ(steps_of(std::move(by_255)), "scaled, of bytes");
  to_one.weight("w", {}, {2}).weight("o", {}, {1}).node("Mul", {"x", "w"}, {"m"}).node("Sub", {"m", "o"}, {"steps"});
  EXPECT_EQ(steps_of(std::move(to_one)), "scaled");
}

TEST_F(PictureStepsTest, AreOfTheRangeThatTheMeanLiesIn) {
  OnnxBuilder bytes = picture(), parts = picture(), shifted = picture();
  bytes.weight("m", {3, 1, 1}, {123.7F, 116.3F, 103.5F}).weight("s", {3, 1, 1}, {58.4F, 57.1F, 57.4F});
  bytes.node("Sub", {"x", "m"}, {"d"}).node("Div", {"d", "s"}, {"steps"});
  EXPECT_EQ(steps_of(std::move(bytes)), "scaled, of bytes, red first");
  parts.weight("m", {1, 3, 1, 1}, {0.485F, 0.456F, 0.406F}).weight("s", {1, 3, 1, 1}, {0.229F, 0.224F, 0.225F});
  parts.node("Sub", {"x", "m"}, {"d"}).node("Div", {"d", "s"}, {"steps"});
  EXPECT_EQ(steps_of(std::move(parts)), "scaled, red first");
  // Keras' Rescaling.
  shifted.weight("s", {}, {1 / 127.5F}).weight("o", {}, {-1}).node("Mul", {"x", "s"}, {"m"});
  shifted.node("Add", {"m", "o"}, {"steps"});
  EXPECT_EQ(steps_of(std::move(shifted)), "scaled, of bytes");
}

// As detectron2's, which takes a picture without a batch, and one that turns round the channels before that.
TEST_F(PictureStepsTest, TellByImagenetsMeanWhetherThePictureBeginsWithRedOrBlue) {
  OnnxBuilder blue, turned = picture(), grey = picture();
  blue.input("x", {3, 4, 4}).weight("m", {3, 1, 1}, {103.53F, 116.28F, 123.675F}).integers("axes", {1}, {0});
  blue.node("Unsqueeze", {"x", "axes"}, {"b"}).node("Sub", {"b", "m"}, {"steps"});
  EXPECT_EQ(steps_of(std::move(blue)), "scaled, of bytes, blue first");
  turned.integers("order", {3}, {2, 1, 0}).node("Gather", {"x", "order"}, {"r"}).integer("axis", 1);
  turned.weight("m", {3, 1, 1}, {-0.485F, -0.456F, -0.406F}).node("Add", {"r", "m"}, {"steps"});
  EXPECT_EQ(steps_of(std::move(turned)), "scaled, reversed, blue first");
  grey.weight("m", {3, 1, 1}, {127, 127, 127}).node("Sub", {"x", "m"}, {"steps"});
  EXPECT_EQ(steps_of(std::move(grey)), "scaled, of bytes");
}

// As PyTorch writes it for open sizes, and TensorFlow, which puts the channels last.
TEST_F(PictureStepsTest, ResizeToAConstantSize) {
  OnnxBuilder open = picture(), last = picture();
  open.node("Shape", {"x"}, {"all"}).integers("from", {1}, {0}).integers("to", {1}, {2}).integers("hw", {2}, {48, 64});
  open.node("Slice", {"all", "from", "to"}, {"nc"}).node("Concat", {"nc", "hw"}, {"sizes"}).integer("axis", 0);
  open.node("Resize", {"x", "", "", "sizes"}, {"steps"});
  EXPECT_EQ(steps_of(std::move(open)), ", 64x48");
  last.integers("sizes", {4}, {1, 48, 64, 3}).node("Resize", {"x", "", "", "sizes"}, {"steps"});
  EXPECT_EQ(steps_of(std::move(last)), ", 64x48");
}

TEST_F(PictureStepsTest, TurnRoundTheChannelsAsExportersWriteIt) {
  OnnxBuilder gather = picture(onnx::TensorProto::UINT8), slice = picture();
  gather.node("Cast", {"x"}, {"f"}).integer("to", 1).integers("order", {3}, {2, 1, 0});
  gather.node("Gather", {"f", "order"}, {"steps"}).integer("axis", 1);
  EXPECT_EQ(steps_of(std::move(gather)), "reversed");
  slice.integers("from", {1}, {-1}).integers("to", {1}, {-9}).integers("axis", {1}, {1}).integers("step", {1}, {-1});
  slice.node("Slice", {"x", "from", "to", "axis", "step"}, {"r"}).weight("w", {}, {1 / 255.0F});
  slice.node("Mul", {"r", "w"}, {"steps"});
  EXPECT_EQ(steps_of(std::move(slice)), "scaled, of bytes, reversed");
}

TEST_F(PictureStepsTest, EndWhereMoreThanOneReadsThePicture) {
  OnnxBuilder b = picture();
  b.weight("w", {}, {255}).node("Div", {"x", "w"}, {"d"}).node("Add", {"d", "x"}, {"steps"});
  EXPECT_EQ(steps_of(std::move(b)), "");
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
