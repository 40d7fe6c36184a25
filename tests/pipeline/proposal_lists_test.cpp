// What camd decides for a model without a card whose outputs are told by their types, their values or the names of
// weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/run/proposal.hpp"
#include "proposed_card.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::OnnxBuilder;
using testing::ProposedCard;

// As torchvision's SSD, RetinaNet and FCOS.
OnnxBuilder lists_without_names(const infer::Shape& of_boxes = {2, 4}) {
  OnnxBuilder b;
  b.input("x", {1, 3, 64, 64}).weight("0", {}, {0}).node("ReduceMean", {"x"}, {"m"}).integer("keepdims", 0);
  b.node("Mul", {"m", "0"}, {"nothing"}).weight("corners", {2, 4}, {4, 4, 20, 30, 8, 9, 60, 50});
  b.weight("certainties", {2}, {0.9F, 0.25F}).weight("numbers", {2}, {17, 3});
  b.node("Add", {"nothing", "corners"}, {"9"}).node("Add", {"nothing", "numbers"}, {"n"});
  b.node("Cast", {"n"}, {"7"}).integer("to", onnx::TensorProto::INT64);
  b.node("Add", {"nothing", "certainties"}, {"8"});
  b.output("9", of_boxes).output("7", {2}, onnx::TensorProto::INT64).output("8", {2});
  return b;
}

TEST_F(ProposedCard, TellsScoresFromClassesByTheTypesOfListsThatHaveNoNames) {
  config::Config c = config(lists_without_names(), "", "");
  const auto proposal = Proposer().complete(c);
  ASSERT_TRUE(proposal);
  EXPECT_EQ(proposal->card,
            "layout: rows\noutputs: {\"cls\":\"7\",\"obj\":\"8\"}\ninput: {color: rgb, scale: 0.00392157}\n");
}

// As detectron2's exports, whose last output is the picture's size.
TEST_F(ProposedCard, TakesTheSizeOfThePictureForNoListOfABoxEach) {
  OnnxBuilder b = lists_without_names({-1, 4});
  b.integers("size", {2}, {64, 64}).node("Identity", {"size"}, {"6"}).output("6", {2}, onnx::TensorProto::INT64);
  for (const int list : {1, 2}) {
    auto& output = *b.proto().mutable_graph()->mutable_output(list);
    output.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_param("boxes");
  }
  config::Config c = config(b, "", "");
  const auto proposal = Proposer().complete(c);
  ASSERT_TRUE(proposal);
  EXPECT_THAT(proposal->card, HasSubstr("layout: rows\n"));
}

// What TensorRT-YOLO writes behind boxes, scores and more: rows of `parts` values, of which a plug-in of TensorRT reads
// the first two parts, and something else the third.
OnnxBuilder for_tensorrt(const char* plugin, const std::vector<float>& most, const std::vector<std::int64_t>& parts) {
  OnnxBuilder b = testing::yolov8(most);
  b.proto().mutable_graph()->clear_output();
  b.node("Transpose", {"output0"}, {"rows"}).ints("perm", {0, 2, 1});
  b.integers("parts_of_rows", {static_cast<std::int64_t>(parts.size())}, parts);
  const bool masks = parts.size() == 3;
  b.node("Split", {"rows", "parts_of_rows"},
         masks ? std::vector<std::string>{"boxes", "scores", "coefficients"}
               : std::vector<std::string>{"boxes", "scores"})
      .integer("axis", 2);
  b.node(plugin, {"boxes", "scores"}, {"num_dets", "det_boxes", "det_scores", "det_classes", "det_indices"})
      .domain("TRT");
  b.output("num_dets", {1, 1}, onnx::TensorProto::INT32).output("det_boxes", {1, 100, masks ? 4 : 5});
  b.output("det_scores", {1, 100}).output("det_classes", {1, 100}, onnx::TensorProto::INT32);
  if (masks) b.node("GatherND", {"coefficients", "det_indices"}, {"det_masks"}).output("det_masks", {1, 100, 32});
  return b;
}

TEST_F(ProposedCard, ReadsTheBoxesAndScoresThatAPluginOfTensorrtReadsAndNoCoefficientsOfMasks) {
  std::vector<float> most = {64, 64, 20, 20, 1, 1, 1};
  most.resize(7 + 32, 3.0F);
  config::Config c = config(for_tensorrt("EfficientIdxNMS_TRT", most, {4, 3, 32}), "", "");
  const auto proposal = Proposer().complete(c);
  ASSERT_TRUE(proposal);
  EXPECT_EQ(proposal->card,
            "layout: ssd\nboxes: centre\nrelative: false\nbackground: false\ncut_at: [\"boxes\",\"scores\"]\n"
            "input: {color: rgb, scale: 0.00392157}\n");
}

// `score_activation` of EfficientNMS_TRT.
TEST_F(ProposedCard, ReadsLogitsOfWhichAPluginOfTensorrtTakesTheSigmoid) {
  OnnxBuilder b = for_tensorrt("EfficientNMS_TRT", {64, 64, 20, 20, 1, 1, 1}, {4, 3});
  auto* nodes = b.proto().mutable_graph()->mutable_node();
  nodes->Mutable(nodes->size() - 1)->set_input(1, "logits");
  b.weight("half", {}, {0.5F}).weight("eight", {}, {8}).node("Sub", {"scores", "half"}, {"around"});
  b.node("Mul", {"around", "eight"}, {"logits"});
  config::Config c = config(b, "", "");
  const auto proposal = Proposer().complete(c);
  ASSERT_TRUE(proposal);
  EXPECT_EQ(proposal->card,
            "layout: ssd\nboxes: centre\nrelative: false\nscores: logits\nbackground: false\n"
            "cut_at: [\"boxes\",\"logits\"]\ninput: {color: rgb, scale: 0.00392157}\n");
}

TEST_F(ProposedCard, ReadsTheTurnedBoxesThatAPluginOfTensorrtReads) {
  config::Config c = config(for_tensorrt("EfficientRotatedNMS_TRT", {64, 64, 20, 20, 1.5F, 1, 1, 1}, {5, 3}), "", "");
  const auto proposal = Proposer().complete(c);
  ASSERT_TRUE(proposal);
  EXPECT_EQ(proposal->card,
            "layout: ssd\nboxes: centre\nrelative: false\noriented: true\nbackground: false\n"
            "cut_at: [\"boxes\",\"scores\"]\ninput: {color: rgb, scale: 0.00392157}\n");
}

// As torchvision's Mask R-CNN and Keypoint R-CNN.
TEST_F(ProposedCard, ReadsTheBoxesBesideMasksAndKeyPoints) {
  OnnxBuilder b = lists_without_names();
  b.weight("masks", {2, 1, 8, 8}, std::vector<float>(128, 0.5F)).node("Add", {"nothing", "masks"}, {"6"});
  b.weight("points", {2, 17}, std::vector<float>(34, 3)).node("Add", {"nothing", "points"}, {"5"});
  b.output("6", {2, 1, 8, 8}).output("5", {2, 17});
  config::Config c = config(b, "", "");
  const auto proposal = Proposer().complete(c);
  ASSERT_TRUE(proposal);
  EXPECT_EQ(proposal->card,
            "layout: rows\noutputs: {\"cls\":\"7\",\"obj\":\"8\"}\ncut_at: [\"9\",\"7\",\"8\"]\n"
            "input: {color: rgb, scale: 0.00392157}\n");
  EXPECT_THAT(c.model.cut_at, ElementsAre("9", "7", "8"));
  EXPECT_THAT(proposal->reasons, Contains("nothing reads its masks or key points: what makes them is left out"));
}

// The file does not say its shape.
TEST_F(ProposedCard, ReadsTheBoxesBesideAnOutputOfUnknownShape) {
  OnnxBuilder b = lists_without_names();
  b.weight("points", {2, 17}, std::vector<float>(34, 3)).node("Add", {"nothing", "points"}, {"5"}).output("5", {});
  config::Config c = config(b, "", "");
  ASSERT_TRUE(Proposer().complete(c));
  EXPECT_THAT(c.model.cut_at, ElementsAre("9", "7", "8"));
}

// What is not known to be a mask is not left out.
TEST_F(ProposedCard, KeepsBoxesWhoseShapeTheFileDoesNotSay) {
  OnnxBuilder b = lists_without_names({});
  config::Config c = config(b, "", "");
  ASSERT_TRUE(Proposer().complete(c));
  EXPECT_THAT(c.model.cut_at, IsEmpty());
}

// Somebody may want the masks.
TEST_F(ProposedCard, LeavesAllOutputsToOtherPluginsThatReadThem) {
  OnnxBuilder b = lists_without_names();
  b.weight("masks", {2, 1, 8, 8}, std::vector<float>(128, 0.5F)).node("Add", {"nothing", "masks"}, {"6"});
  b.output("6", {2, 1, 8, 8});
  config::Config c = config(b, "", "");
  c.postprocess.push_back(c.postprocess.front());
  c.postprocess.back().plugin = "tensors";
  ASSERT_TRUE(Proposer().complete(c));
  EXPECT_THAT(c.model.cut_at, IsEmpty());
}

// Where the file calls all of them numbers, as TensorFlow's exports do.
TEST_F(ProposedCard, TellsScoresFromClassesByTheirValuesWhereTypesTellNothing) {
  OnnxBuilder b;
  b.input("x", {1, 3, 64, 64}).weight("0", {}, {0}).node("ReduceMean", {"x"}, {"m"}).integer("keepdims", 0);
  b.node("Mul", {"m", "0"}, {"nothing"}).weight("corners", {2, 4}, {4, 4, 20, 30, 8, 9, 60, 50});
  b.weight("certainties", {2}, {0.9F, 0.25F}).weight("numbers", {2}, {17, 3}).weight("two", {1}, {2});
  b.node("Add", {"nothing", "corners"}, {"9"}).node("Add", {"nothing", "numbers"}, {"7"});
  b.node("Add", {"nothing", "certainties"}, {"8"}).node("Add", {"nothing", "two"}, {"6"});
  b.output("9", {2, 4}).output("7", {2}).output("8", {2}).output("6", {1});
  config::Config c = config(b, "", "");
  const auto proposal = Proposer().complete(c);
  ASSERT_TRUE(proposal);
  EXPECT_EQ(proposal->card,
            "layout: rows\noutputs: {\"cls\":\"7\",\"obj\":\"8\"}\ninput: {color: rgb, scale: 0.00392157}\n");
}

// Boxes are pixels of that size.
TEST_F(ProposedCard, TakesTheSizeThatAGraphMakesOfPicturesOfAnySize) {
  OnnxBuilder b = testing::yolov8();
  auto& input = *b.proto().mutable_graph()->mutable_input(0);
  input.set_name("frame");
  for (const int side : {2, 3})
    input.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(side)->set_dim_param("side");
  b.integers("pixels", {4}, {1, 3, 64, 64}).node("Resize", {"frame", "", "", "pixels"}, {"x"});
  config::Config c = config(b, "", "");
  const auto proposal = Proposer().complete(c);
  ASSERT_TRUE(proposal);
  EXPECT_EQ(c.model.input.width, 64);
  EXPECT_EQ(c.model.input.height, 64);
  EXPECT_THAT(proposal->reasons,
              Contains("the model leaves its input's size open: what its graph makes of a picture is taken"));
}

TEST_F(ProposedCard, SaysThatAGraphMakesAnotherSizeOfThePicture) {
  OnnxBuilder b = testing::yolov8();
  b.proto().mutable_graph()->mutable_input(0)->set_name("frame");
  auto& shape = *b.proto().mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape.mutable_dim(3)->set_dim_value(96);
  b.integers("pixels", {4}, {1, 3, 64, 64}).node("Resize", {"frame", "", "", "pixels"}, {"x"});
  config::Config c = config(b, "", "");
  const auto proposal = Proposer().complete(c);
  ASSERT_TRUE(proposal);
  EXPECT_THAT(proposal->reasons, Contains("its graph makes 64x64 of the picture: where its boxes are pixels of that "
                                          "size, export it with such an input"));
}

// YOLOv8-face's, each stride with 64 bins, one class and five points.
TEST_F(ProposedCard, CountsTheKeyPointsOfMapsWhoseLayerHasThemByItsName) {
  OnnxBuilder b;
  b.input("x", {1, 3, 64, 64});
  for (const std::int64_t stride : {8, 16, 32}) {
    const std::string s = std::to_string(stride);
    std::vector<std::string> parts;
    for (const auto& [part, channels] : {std::pair<std::string, std::int64_t>{"cv2", 64}, {"cv3", 1}, {"cv4", 15}}) {
      const std::string name = "model.22." + part + "." + std::to_string(stride / 16) + ".2.weight";
      std::vector<float> weights(static_cast<std::size_t>(channels * 3 * stride * stride));
      for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = 0.01F * (static_cast<float>(i * 7 % 11) - 5.0F);
      b.weight(name, {channels, 3, stride, stride}, weights);
      b.node("Conv", {"x", name}, {part + s}).ints("strides", {stride, stride});
      parts.push_back(part + s);
    }
    b.node("Concat", parts, {"map" + s}).integer("axis", 1).output("map" + s, {});
  }
  config::Config c = config(b, "", "");
  const auto proposal = Proposer().complete(c);
  ASSERT_TRUE(proposal);
  EXPECT_EQ(proposal->card, "layout: yolov8-heads\nkeypoints: 5\ninput: {color: rgb, scale: 0.00392157}\n");
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
