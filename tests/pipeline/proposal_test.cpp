// What camd decides for a model without a card.
#include "pipeline/run/proposal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "proposed_card.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::OnnxBuilder;
using testing::ProposedCard;
using testing::with_metadata;
using testing::with_names;
using testing::yolov8;

// Boxes in parts of the picture and scores of two classes, which the values of `pixels` do not change.
void put_lists(OnnxBuilder& b, const char* pixels) {
  b.weight("0", {}, {0}).node("ReduceMean", {pixels}, {"m"}).integer("keepdims", 0).node("Mul", {"m", "0"}, {"n"});
  b.weight("c", {1, 3, 4}, {0.1F, 0.1F, 0.3F, 0.4F, 0.2F, 0.3F, 0.6F, 0.5F, 0.2F, 0.2F, 0.7F, 0.5F});
  b.weight("s", {1, 3, 2}, {0.9F, 0.1F, 0.8F, 0.2F, 0.9F, 0.1F}).node("Add", {"n", "c"}, {"boxes"});
  b.node("Add", {"n", "s"}, {"scores"}).output("boxes", {}).output("scores", {});
}

TEST_F(ProposedCard, HoldsLayoutClassesAndHowThePictureIsFed) {
  config::Config c = config(with_names(yolov8()), "", "");
  const auto proposal = Proposer().complete(c);
  ASSERT_TRUE(proposal);
  EXPECT_EQ(proposal->card,
            "layout: ssd\nboxes: centre\nrelative: false\nclasses: [\"cat\",\"dog's\",\"cow\"]\n"
            "input: {color: rgb, scale: 0.00392157}\n");
  EXPECT_EQ(c.model.input.color, config::ColorOrder::kRgb);
  EXPECT_THAT(c.model.card_json, HasSubstr("\"layout\":\"ssd\""));
  EXPECT_THAT(proposal->reasons, ::testing::Contains("its exporter names 3 classes"));
}

TEST_F(ProposedCard, ReadsClassesThatTheExporterWroteAsJson) {
  config::Config c = config(with_names(yolov8(), R"({"0": "cat", "1" : "a: \"b\"", "2": "cow"})"), "", "");
  const auto proposal = Proposer().complete(c);
  ASSERT_TRUE(proposal);
  EXPECT_THAT(proposal->card, HasSubstr(R"(classes: ["cat","a: \"b\"","cow"])"));
}

// As LibreYOLO's Deformable DETR and DINO, whose outputs have 91 classes.
TEST_F(ProposedCard, NamesClassesByCocosIdsWhereTheExporterNamesEightyThatDoNotFit) {
  std::string eighty = "person";
  for (int i = 1; i < 80; ++i) eighty += "\nthing " + std::to_string(i);
  std::vector<float> logits(std::size_t{2} * 91, -4);
  for (std::size_t k = 0; k < 91; ++k) logits[k] = -5;
  OnnxBuilder b;
  b.input("x", {1, 3, 64, 64}).weight("0", {}, {0}).node("ReduceMean", {"x"}, {"m"}).integer("keepdims", 0);
  b.node("Mul", {"m", "0"}, {"nothing"}).weight("l", {1, 2, 91}, logits);
  b.weight("q", {1, 2, 4}, {0.3F, 0.3F, 0.2F, 0.2F, 0.6F, 0.5F, 0.3F, 0.3F});
  b.node("Add", {"nothing", "q"}, {"pred_boxes"}).node("Add", {"nothing", "l"}, {"pred_logits"});
  b.output("pred_logits", {1, 2, 91}).output("pred_boxes", {1, 2, 4});
  config::Config c = config(with_metadata(b, {{"character", eighty}}), "", "");
  const auto proposal = Proposer().complete(c);
  ASSERT_TRUE(proposal);
  EXPECT_THAT(proposal->card, HasSubstr("classes: coco91\n"));
  EXPECT_THAT(proposal->reasons, Contains("its exporter names 80 classes, which do not fit its outputs"));
}

TEST_F(ProposedCard, ReadsClassesThatRapidAIWroteOneALine) {
  config::Config c = config(with_metadata(yolov8(), {{"character", "title\nfigure caption\ntable"}}), "", "");
  const auto proposal = Proposer().complete(c);
  ASSERT_TRUE(proposal);
  EXPECT_THAT(proposal->card, HasSubstr(R"(classes: ["title","figure caption","table"])"));
}

// LibreYOLO's FOMO: its values tell no background, but its exporter says that it finds points.
TEST_F(ProposedCard, ReadsAMapOfClassesWhereTheExporterSaysThatTheModelFindsPoints) {
  std::vector<float> weights(std::size_t{3} * 3 * 8 * 8);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i * 7 % 11) - 5.0F;
  OnnxBuilder b;
  b.input("x", {1, 3, 64, 64}).weight("w", {3, 3, 8, 8}, weights);
  b.node("Conv", {"x", "w"}, {"y"}).ints("strides", {8, 8}).output("y", {});
  config::Config untold = config(b, "", "");
  EXPECT_FALSE(Proposer().complete(untold));
  config::Config told =
      config(with_metadata(b, {{"task", "point"}, {"names", R"({"0": "bolt", "1": "nut"})"}}), "", "");
  const auto proposal = Proposer().complete(told);
  ASSERT_TRUE(proposal);
  EXPECT_EQ(proposal->card,
            "layout: fomo\nscores: logits\nclasses: [\"bolt\",\"nut\"]\n"
            "input: {color: rgb, mean: [127.5, 127.5, 127.5], scale: 0.00784314, resize: stretch}\n");
}

// LibreYOLO writes which of its families a model is of, and these are not fed alike.
TEST_F(ProposedCard, FeedsPicturesAsTheExportersFamilyIsFed) {
  for (const auto& [family, pad, input] :
       {std::tuple{"rtmdet", "",
                   "color: bgr, mean: [103.53, 116.28, 123.675], scale: [0.0174292, 0.0175070, 0.0171248], position: "
                   "top_left"},
        {"yolo9", "topleft", "color: rgb, scale: 0.00392157, position: top_left"},
        {"yolo9", "center", "color: rgb, scale: 0.00392157"},
        {"yolo7", "", "color: rgb, scale: 0.00392157, position: top_left"},
        {"yolo4", "", "color: rgb, scale: 0.00392157, position: top_left, pad: 128"},
        {"yolo1", "", "color: rgb, scale: 0.00392157, resize: stretch"},
        {"nobody's", "", "color: rgb, scale: 0.00392157"}}) {
    config::Config c =
        config(with_metadata(with_names(yolov8()), {{"model_family", family}, {"letterbox_pad", pad}}), "", "");
    const auto proposal = Proposer().complete(c);
    ASSERT_TRUE(proposal);
    EXPECT_THAT(proposal->card, HasSubstr("input: {" + std::string(input) + "}\n"));
  }
}

TEST_F(ProposedCard, FeedsTheLargerDeimv2sAsTheirBackboneIsFed) {
  for (const auto& [size, input] :
       {std::tuple{"n", "color: rgb, scale: 0.00392157, resize: stretch"},
        {"s",
         "color: rgb, mean: [123.675, 116.28, 103.53], scale: [0.0171248, 0.0175070, 0.0174292], resize: stretch"}}) {
    config::Config c =
        config(with_metadata(with_names(yolov8()), {{"model_family", "deimv2"}, {"model_size", size}}), "", "");
    const auto proposal = Proposer().complete(c);
    ASSERT_TRUE(proposal);
    EXPECT_THAT(proposal->card, HasSubstr("input: {" + std::string(input) + "}\n"));
  }
}

// Boxes in parts of the picture are usually those of DETRs, which are fed with stretched pictures.
TEST_F(ProposedCard, FeedsWhatUltralyticsCallsAYoloWithALetterbox) {
  for (const auto& [description, input] :
       {std::tuple{"Ultralytics YOLO26n model trained on data.yaml", "color: rgb, scale: 0.00392157"},
        {"Ultralytics RTDETR-l model", "color: rgb, scale: 0.00392157, resize: stretch"}}) {
    config::Config c =
        config(with_metadata(with_names(yolov8({1, 1, 0.3F, 0.3F, 1, 1, 1})), {{"description", description}}), "", "");
    const auto proposal = Proposer().complete(c);
    ASSERT_TRUE(proposal);
    EXPECT_THAT(proposal->card, HasSubstr("input: {" + std::string(input) + "}\n"));
  }
}

// As PyTorch's exporter writes YOLOs by itself, without what Ultralytics' writes beside the graph.
TEST_F(ProposedCard, FindsMasksBehindTheScoresByTheMapsBesideThem) {
  OnnxBuilder b = yolov8({64, 64, 20, 20, 1, 1, 1, -1, -1});
  b.weight("m", {2, 3, 4, 4}, std::vector<float>(96, 0.1F)).node("Conv", {"x", "m"}, {"maps"}).ints("strides", {4, 4});
  b.output("maps", {1, 2, 16, 16});
  config::Config c = config(b, "", "");
  const auto proposal = Proposer().complete(c);
  ASSERT_TRUE(proposal);
  EXPECT_EQ(proposal->card,
            "layout: ssd\nboxes: centre\nrelative: false\nkeypoints: 0\nclasses: [\"class0\",\"class1\",\"class2\"]\n"
            "input: {color: rgb, scale: 0.00392157}\n");
}

// Three rows for each cell of 64x64: a box, an objectness, the scores of `classes` and the coefficients of two masks,
// beside the masks' maps.
OnnxBuilder yolov5_with_masks(int classes) {
  const std::int64_t rows = 3 * (64 + 16 + 4), values = 4 + 1 + classes + 2;
  std::vector<float> all;
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto cell = static_cast<int>(i % 64);
    all.insert(all.end(), {static_cast<float>(cell % 8 * 8 + 4), static_cast<float>(cell / 8 * 8 + 4), 10, 12});
    for (int k = 0; k < 1 + classes; ++k) all.push_back(0.01F * static_cast<float>((i + k) % 50));
    all.insert(all.end(), {-1.5F + 0.01F * static_cast<float>(i), 0.7F});
  }
  OnnxBuilder b;
  b.input("x", {1, 3, 64, 64}).weight("0", {}, {0}).node("ReduceMean", {"x"}, {"m"}).integer("keepdims", 0);
  b.node("Mul", {"m", "0"}, {"nothing"})
      .weight("all", {1, rows, values}, all)
      .node("Add", {"nothing", "all"}, {"rows"});
  b.weight("w", {2, 3, 4, 4}, std::vector<float>(96, 0.1F)).node("Conv", {"x", "w"}, {"maps"}).ints("strides", {4, 4});
  return b.output("rows", {}).output("maps", {});
}

TEST_F(ProposedCard, LeavesTheCoefficientsOfYolov5sMasksUnread) {
  for (const bool named : {true, false}) {
    const OnnxBuilder model = yolov5_with_masks(3);
    config::Config c =
        config(named ? with_metadata(model, {{"names", "{0: 'cat', 1: 'dog', 2: 'cow'}"}}) : model, "", "");
    const auto proposal = Proposer().complete(c);
    ASSERT_TRUE(proposal);
    EXPECT_EQ(proposal->card,
              std::string("layout: yolox\ndecoded: true\nanchors_per_cell: 3\nkeypoints: 0\nclasses: ") +
                  (named ? R"(["cat","dog","cow"])" : R"(["class0","class1","class2"])") +
                  "\ninput: {color: rgb, scale: 0.00392157}\n");
  }
}

TEST_F(ProposedCard, IsNoneWhereNamedClassesFitNoLayoutAndAnotherReadsAPartOfTheOutputs) {
  OnnxBuilder b = yolov8({64, 64, 20, 20, 1, 1, 1, 1, 1, 1});
  b.weight("m", {2, 3, 4, 4}, std::vector<float>(96, 0.1F)).node("Conv", {"x", "m"}, {"maps"}).ints("strides", {4, 4});
  (void)folder_.write("m.onnx", with_names(b.output("maps", {1, 2, 16, 16})).bytes());
  config::Model model;
  model.path = folder_.path() / "m.onnx";
  const Proposal proposal = propose_card(model);
  EXPECT_EQ(proposal.card, "");
  EXPECT_EQ(
      proposal.refused,
      model.path.string() +
          ": its exporter names 3 classes, which no layout finds in the model's outputs; {layout: ssd, boxes: centre, "
          "relative: false} (YOLOv8 to 26) would read a part of "
          "them, with other classes: set `layout` and `classes`");
}

TEST_F(ProposedCard, FindsKeyPointsBehindOneScoreWhereNothingElseFits) {
  config::Config c = config(yolov8({64, 64, 20, 20, 1, 300, 300, 1, 300, 300, 1}), "", "");
  const auto proposal = Proposer().complete(c);
  ASSERT_TRUE(proposal);
  EXPECT_EQ(proposal->card,
            "layout: ssd\nboxes: centre\nrelative: false\nkeypoints: 2\ninput: {color: rgb, scale: 0.00392157}\n");
}

// As YOLOv7 and others export for TensorRT, whose plug-in chooses boxes as `detections` does.
TEST_F(ProposedCard, LeavesOutWhatNoEngineRunsBehindBoxesAndScores) {
  OnnxBuilder b = yolov8();
  b.proto().mutable_graph()->clear_output();
  b.node("EfficientNMS_TRT", {"output0"}, {"num_dets", "det_boxes", "det_scores", "det_classes"}).domain("TRT");
  b.output("num_dets", {1, 1}, onnx::TensorProto::INT32).output("det_boxes", {1, 100, 4});
  b.output("det_scores", {1, 100}).output("det_classes", {1, 100}, onnx::TensorProto::INT32);
  config::Config c = config(b, "", "");
  const auto proposal = Proposer().complete(c);
  ASSERT_TRUE(proposal);
  EXPECT_EQ(proposal->card,
            "layout: ssd\nboxes: centre\nrelative: false\ncut_at: [\"output0\"]\n"
            "input: {color: rgb, scale: 0.00392157}\n");
  EXPECT_THAT(c.model.cut_at, ElementsAre("output0"));
  EXPECT_THAT(proposal->reasons,
              Contains("camd has not all its operators: what lies behind boxes and scores is left out"));
}

TEST_F(ProposedCard, IsNoneWhereWhatNoEngineRunsReadsAMapWhichWouldDoForFastestdet) {
  OnnxBuilder b;
  b.input("x", {1, 3, 64, 64}).weight("w", {8, 3, 16, 16}, std::vector<float>(std::size_t{8} * 768, 0.001F));
  b.node("Conv", {"x", "w"}, {"c"}).ints("strides", {16, 16}).node("Sigmoid", {"c"}, {"map"});
  b.node("ChooseBest", {"map"}, {"y"}, "choose").output("y", {});
  (void)folder_.write("m.onnx", b.bytes());
  config::Model model;
  model.path = folder_.path() / "m.onnx";
  const Proposal proposal = propose_card(model);
  EXPECT_EQ(proposal.card, "");
  EXPECT_THAT(proposal.refused, HasSubstr("ChooseBest (node 'choose')"));
}

// As Qualcomm's AI Hub exports YOLOs: each box with its best class, and nothing chosen.
TEST_F(ProposedCard, ChoosesAmongBoxesOfWhichTheGraphGivesTheBestClass) {
  constexpr int kBoxes = 1100;
  std::vector<float> corners, certainties, numbers;
  for (int i = 0; i < kBoxes; ++i) {
    const int row = i / 40;
    const auto left = static_cast<float>(i % 40), top = static_cast<float>(row);
    corners.insert(corners.end(), {left, top, left + 20, top + 25});
    certainties.push_back(static_cast<float>(i % 10) / 20);
    numbers.push_back(static_cast<float>(i % 80));
  }
  OnnxBuilder b;
  b.input("x", {1, 3, 64, 64}).weight("0", {}, {0}).node("ReduceMean", {"x"}, {"m"}).integer("keepdims", 0);
  b.node("Mul", {"m", "0"}, {"nothing"}).weight("c", {1, kBoxes, 4}, corners).weight("s", {1, kBoxes}, certainties);
  b.weight("n", {1, kBoxes}, numbers)
      .node("Add", {"nothing", "c"}, {"boxes"})
      .node("Add", {"nothing", "s"}, {"scores"});
  b.node("Add", {"nothing", "n"}, {"f"}).node("Cast", {"f"}, {"class_idx"}).integer("to", onnx::TensorProto::UINT8);
  b.output("boxes", {1, kBoxes, 4}).output("scores", {1, kBoxes});
  b.output("class_idx", {1, kBoxes}, onnx::TensorProto::UINT8);
  config::Config c = config(b, "", "");
  const auto proposal = Proposer().complete(c);
  ASSERT_TRUE(proposal);
  EXPECT_EQ(proposal->card,
            "layout: rows\nnms: 0.4\noutputs: {\"cls\":\"class_idx\",\"obj\":\"scores\"}\n"
            "input: {color: rgb, scale: 0.00392157}\n");
}

// As TensorFlow's detectors, which take pictures as cameras give them.
// A head of nine anchors, whose weights are called so.
OnnxBuilder nine_anchors(const std::string& classes, const std::string& boxes) {
  OnnxBuilder b;
  b.input("x", {1, 3, 128, 128});
  std::vector<float> values(std::size_t{36} * 3);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = (static_cast<float>(i * 7 % 11) - 5.0F) / 1000.0F;
  b.weight(classes, {9, 3, 1, 1}, {values.begin(), values.begin() + 27});
  b.weight(boxes, {36, 3, 1, 1}, values);
  for (const auto& [weight, output] : {std::pair(classes, "a"), {boxes, "b"}}) {
    for (const std::int64_t stride : {8, 16, 32, 64, 128}) {
      const std::string name = output + std::to_string(stride);
      b.node("Conv", {"x", weight}, {name}).ints("strides", {stride, stride});
      b.output(name, {});
    }
  }
  return b;
}

TEST_F(ProposedCard, TellsWhoseAnchorsAHeadHasByTheNamesOfItsWeights) {
  const auto card = [&](const char* classes, const char* boxes) {
    const Proposal proposal = propose_card(config(nine_anchors(classes, boxes), "", ", config: {layout: ssd}").model);
    return proposal.refused + proposal.card.substr(0, proposal.card.find('\n'));
  };
  EXPECT_EQ(card("head.classification_head.cls_logits.weight", "head.regression_head.bbox_reg.weight"),
            "layout: torchvision-retinanet");
  EXPECT_EQ(card("bbox_head.retina_cls.weight", "bbox_head.retina_reg.weight"), "layout: mmdet-retinanet");
  EXPECT_EQ(card("class_net.predict.conv_pw.weight", "box_net.predict.conv_pw.weight"), "layout: efficientdet");
  EXPECT_THAT(card("onnx::Conv_1", "onnx::Conv_2"), HasSubstr("nothing in the file tells whose rules they follow"));
}

TEST_F(ProposedCard, FeedsPixelsAsTheyAreToAModelThatTakesWholeNumbers) {
  using T = onnx::TensorProto;
  for (const auto& [type, input] :
       {std::pair{T::UINT8, "scale: 1"}, {T::INT32, "scale: 1"}, {T::INT8, "mean: [128, 128, 128], scale: 1"}}) {
    OnnxBuilder model;
    model.input("x", {1, 64, 64, 3}, type).node("Cast", {"x"}, {"f"}).integer("to", T::FLOAT);
    put_lists(model, "f");
    config::Config c = config(model, "", "");
    const auto proposal = Proposer().complete(c);
    ASSERT_TRUE(proposal);
    EXPECT_EQ(proposal->card, "layout: ssd\ninput: {color: rgb, resize: stretch, " + std::string(input) + "}\n");
  }
}

TEST_F(ProposedCard, FeedsWhatTheGraphScalesAndTurnsRoundWithThePixelsThatItTakes) {
  OnnxBuilder model;
  model.input("x", {1, 3, 64, 64}).weight("255", {}, {255}).integers("order", {3}, {2, 1, 0});
  model.node("Gather", {"x", "order"}, {"bgr"}).integer("axis", 1).node("Div", {"bgr", "255"}, {"parts"});
  put_lists(model, "parts");
  config::Config c = config(model, "", "");
  const auto proposal = Proposer().complete(c);
  ASSERT_TRUE(proposal);
  EXPECT_EQ(proposal->card, "layout: ssd\ninput: {color: bgr, resize: stretch, scale: 1}\n");
  EXPECT_THAT(proposal->reasons, Contains("its graph scales the picture itself"));
  EXPECT_THAT(proposal->reasons, Contains("its graph turns round the order of the picture's channels"));
}

TEST_F(ProposedCard, FeedsPicturesAsTheProjectDoesThatCallsPartsOfItsNetworksSo) {
  for (const auto& [name, other, input] :
       {std::tuple{"bbox_head.multi_level_conv_cls.0.weight", "onnx::Conv_2",
                   "color: bgr, scale: 1, position: top_left"},
        {"bbox_head.retina_cls.weight", "onnx::Conv_2",
         "color: rgb, mean: [123.675, 116.28, 103.53], scale: [0.0171248, 0.0175070, 0.0174292], position: top_left"},
        {"m.bbox_head.head_module.cls_preds.0.weight", "onnx::Conv_2", "color: rgb, scale: 0.00392157"},
        {"m.bbox_head.head_module.cls_preds.0.weight", "/bbox_head/head_module/cls_stems.1/conv/conv/Conv",
         "color: rgb, scale: 0.00392157, resize: stretch"},
        {"m.class_labels_classifier.bias", "onnx::Conv_2",
         "color: rgb, mean: [123.675, 116.28, 103.53], scale: [0.0171248, 0.0175070, 0.0174292], resize: stretch"},
        {"m.model.encoder.layers.0.self_attn.sampling_offsets.bias", "onnx::Conv_2",
         "color: rgb, mean: [123.675, 116.28, 103.53], scale: [0.0171248, 0.0175070, 0.0174292], resize: stretch"},
        {"m.model.decoder.ref_anchor_head.layers.0.bias", "onnx::Conv_2",
         "color: rgb, mean: [123.675, 116.28, 103.53], scale: [0.0171248, 0.0175070, 0.0174292], resize: stretch"},
        {"m.model.enc_out_class_embed.0.bias", "onnx::Conv_2",
         "color: rgb, mean: [123.675, 116.28, 103.53], scale: [0.0171248, 0.0175070, 0.0174292], resize: stretch"},
        {"backbone.dinov3.patch_embed.proj.bias", "decoder.enc_score_head.bias",
         "color: rgb, mean: [123.675, 116.28, 103.53], scale: [0.0171248, 0.0175070, 0.0174292], resize: stretch"},
        {"m.model.conv_encoder.backbone.embeddings.register_tokens", "onnx::Conv_2",
         "color: rgb, mean: [123.675, 116.28, 103.53], scale: [0.0171248, 0.0175070, 0.0174292], resize: stretch"},
        {"m.model.enc_score_head.bias", "m.model.decoder.layers.0.encoder_attn.sampling_offsets.bias",
         "color: rgb, scale: 0.00392157"},
        {"onnx::Conv_1", "onnx::Conv_2", "color: rgb, scale: 0.00392157"}}) {
    OnnxBuilder model = yolov8();
    model.weight(name, {1}, {1}).weight(other, {1}, {1});
    config::Config c = config(model, "", "");
    const auto proposal = Proposer().complete(c);
    ASSERT_TRUE(proposal);
    EXPECT_THAT(proposal->card, HasSubstr("input: {" + std::string(input) + "}\n"));
  }
}

// LW-DETR counts as COCO does, to 91, and its exporter names the 80 that there are.
TEST_F(ProposedCard, LeavesClassesOutThatDoNotFitTheOutputs) {
  config::Config c = config(with_names(yolov8(), "{0: 'cat', 1: 'dog'}"), "", "");
  const auto proposal = Proposer().complete(c);
  ASSERT_TRUE(proposal);
  EXPECT_EQ(proposal->card, "layout: ssd\nboxes: centre\nrelative: false\ninput: {color: rgb, scale: 0.00392157}\n");
  EXPECT_THAT(proposal->reasons, ::testing::Contains("its exporter names 2 classes, which do not fit its outputs"));
}

TEST_F(ProposedCard, StretchesPicturesForModelsThatTakeTheSizeAsRtDetrAndPaddleDetectionDo) {
  for (const auto& [name, type] :
       {std::pair{"orig_target_sizes", onnx::TensorProto::INT64}, {"scale_factor", onnx::TensorProto::FLOAT}}) {
    OnnxBuilder model = yolov8();
    model.input(name, {1, 2}, type);
    config::Config c = config(model, "", "");
    const auto proposal = Proposer().complete(c);
    ASSERT_TRUE(proposal);
    EXPECT_THAT(proposal->card, HasSubstr("input: {color: rgb, scale: 0.00392157, resize: stretch}"));
    EXPECT_EQ(c.model.input.resize, config::ResizeMode::kStretch);
  }
}

// As Paddle2ONNX writes PaddleDetection's networks: the graph chooses among boxes for the cells of `cells`, none here.
OnnxBuilder chosen_by_paddle(std::int64_t cells) {
  OnnxBuilder b;
  b.proto().mutable_graph()->set_name("PaddlePaddle Graph in PIR mode");
  b.input("x", {1, 3, 64, 64}).weight("0", {}, {0}).node("ReduceMean", {"x"}, {"m"}).integer("keepdims", 0);
  b.node("Mul", {"m", "0"}, {"nothing"}).weight("b", {1, cells, 4}, std::vector<float>(std::size_t(cells) * 4, 1));
  b.weight("s", {1, 2, cells}, std::vector<float>(std::size_t(cells) * 2, 0)).node("Add", {"nothing", "b"}, {"boxes"});
  b.node("NonMaxSuppression", {"boxes", "s"}, {"indices"});
  b.weight("r", {10, 6}, std::vector<float>(60, -1)).node("Add", {"nothing", "r"}, {"rows"});
  return b.output("rows", {10, 6});
}

TEST_F(ProposedCard, ReadsRowsAsPaddleDetectionWritesThemWhereNoValueTells) {
  for (const auto& [cells, input] :
       {std::pair{64 + 16 + 4, "color: rgb, scale: 0.00392157, resize: stretch"},
        {64 + 16 + 4 + 1,
         "color: rgb, mean: [123.675, 116.28, 103.53], scale: [0.0171248, 0.0175070, 0.0174292], resize: stretch"}}) {
    config::Config c = config(chosen_by_paddle(cells), "", "");
    const auto proposal = Proposer().complete(c);
    ASSERT_TRUE(proposal);
    EXPECT_EQ(proposal->card,
              std::string("layout: rows\nrow: [class, score, x0, y0, x1, y1]\ninput: {") + input + "}\n");
  }
}

TEST_F(ProposedCard, FeedsModelsThatTakeAMaskOfPixelsAsDetrIsFed) {
  OnnxBuilder model = yolov8();
  model.input("pixel_mask", {1, 64, 64}, onnx::TensorProto::INT64);
  config::Config c = config(model, "", "");
  const auto proposal = Proposer().complete(c);
  ASSERT_TRUE(proposal);
  EXPECT_THAT(proposal->card, HasSubstr("input: {color: rgb, mean: [123.675, 116.28, 103.53], scale: [0.0171248, "
                                        "0.0175070, 0.0174292], resize: stretch}"));
}

TEST_F(ProposedCard, LeavesKeysAloneThatTheUserHasWritten) {
  config::Config c = config(with_names(yolov8()), ", input: {color: bgr}", ", config: {classes: [a, b, c]}");
  ASSERT_TRUE(Proposer().complete(c));
  EXPECT_EQ(c.model.input.color, config::ColorOrder::kBgr);
  EXPECT_THAT(c.postprocess[0].config_json, HasSubstr("[\"a\",\"b\",\"c\"]"));
}

TEST_F(ProposedCard, IsRememberedUntilTheModelIsAnotherFile) {
  Proposer proposer;
  config::Config first = config(with_names(yolov8()), "", "");
  ASSERT_TRUE(proposer.complete(first));
  // The same path and time, so that only memory can answer: nothing of the file can be read any more.
  const auto path = folder_.path() / "m.onnx";
  const auto written = std::filesystem::last_write_time(path);
  config::Config again = config(with_names(yolov8()), "", "");
  (void)folder_.write("m.onnx", "no model");
  std::filesystem::last_write_time(path, written);
  const auto remembered = proposer.complete(again);
  ASSERT_TRUE(remembered);
  EXPECT_EQ(again.model, first.model);
  std::filesystem::last_write_time(path, written + std::chrono::seconds(1));
  config::Config other = first;
  other.model = config::Model{};
  other.model.path = path;
  EXPECT_FALSE(proposer.complete(other));
}

TEST_F(ProposedCard, IsNotAskedForWhereTheLayoutIsWritten) {
  config::Config c = config(yolov8(), "", ", config: {layout: yolov8}");
  EXPECT_FALSE(Proposer().complete(c));
  EXPECT_FALSE(c.model.input.color);
}

TEST_F(ProposedCard, IsNoneWhereNoLayoutReadsTheOutputs) {
  OnnxBuilder b;
  b.input("x", {1, 3, 8, 8}).node("Relu", {"x"}, {"y"}).output("y", {});
  config::Config c = config(b, "", "");
  Proposer proposer;
  EXPECT_FALSE(proposer.complete(c));
  const Proposal proposal = propose_card(c.model);
  EXPECT_EQ(proposal.card, "");
  EXPECT_EQ(proposer.refused(), proposal.refused);
  EXPECT_THAT(proposal.refused, ::testing::MatchesRegex(".*/m.onnx: the model's outputs, y .1,3,8,8., look like no "
                                                        "layout that camd knows .*"));
}

TEST_F(ProposedCard, DecidesAnOpenSizeAlsoWhereThereIsNone) {
  OnnxBuilder b;
  b.input("x", {1, 3, -1, -1}).node("Relu", {"x"}, {"y"}).output("y", {});
  config::Config c = config(b, ", input: {height: 320}", "");
  EXPECT_FALSE(Proposer().complete(c));
  EXPECT_EQ(c.model.input.width, 640);
  EXPECT_EQ(c.model.input.height, 320);
}

TEST_F(ProposedCard, IsNoneWhereNoEngineRunsTheModelWhichIsSaid) {
  OnnxBuilder b;
  b.input("x", {1, 3, 8, 8}).node("Nonsense", {"x"}, {"y"}).output("y", {});
  EXPECT_THAT(propose_card(config(b, "", "").model).refused,
              ::testing::MatchesRegex(
                  ".*/m.onnx: Nonsense .node that makes 'y'.: camd's own engines do not have this operator.*"));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
