// What `camd check` and `camd doctor` say of a model.
#include "pipeline/diagnose/model_findings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "config/loader.hpp"
#include "pipeline/diagnose/doctor.hpp"
#include "tests/infer/onnx_builder.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using infer::test::OnnxBuilder;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ModelFindings : public ::testing::Test {
 protected:
  void examine(const OnnxBuilder& model, const std::string& engine = "auto", const std::string& postprocess = "[]") {
    (void)folder_.write("m.onnx", model.bytes());
    const config::Config config =
        config::load_text((folder_.path() / "c.yaml").string(),
                          "device: host\nmodel: {path: m.onnx, engine: " + engine +
                              "}\ncameras: [{name: a, source: {type: test}}]\npostprocess: " + postprocess + "\n",
                          {});
    findings_ = examine_model(config, infer::ReportDepth::kAllEngines);
  }
  [[nodiscard]] Finding of(const std::string& name) const {
    const auto found =
        std::find_if(findings_.begin(), findings_.end(), [&](const Finding& f) { return f.name == name; });
    return found == findings_.end() ? Finding{"", name, Health::kAbsent, "not found", ""} : *found;
  }

  infer::test::TemporaryFolder folder_;
  std::vector<Finding> findings_;
};

// Three strides of a YuNet-like head.
OnnxBuilder faces() {
  OnnxBuilder b;
  b.input("x", {1, 3, 64, 64});
  int stride = 8;
  for (const char* name : {"8", "16", "32"}) {
    for (const auto& [role, channels] : {std::pair{"cls_", 1}, {"obj_", 1}, {"bbox_", 4}, {"kps_", 10}}) {
      const std::string id = std::string(role) + name;
      b.weight("w_" + id, {channels, 3, 1, 1}, std::vector<float>(static_cast<std::size_t>(channels) * 3, 0.1F));
      b.node("Conv", {"x", "w_" + id}, {id}).ints("kernel_shape", {1, 1}).ints("strides", {stride, stride});
      b.output(id, {});
    }
    stride *= 2;
  }
  return b;
}

// One tensor as YOLOv8 gives it, [1,4+3,84]: centre and size in pixels, three classes. `last` names it.
OnnxBuilder rows(const std::string& last) {
  OnnxBuilder b;
  b.input("x", {1, 3, 64, 64});
  int stride = 8;
  for (const char* name : {"8", "16", "32"}) {
    const std::string id = name;
    std::vector<float> weights;
    for (int i = 0; i < 7 * 3; ++i) weights.push_back(0.1F * static_cast<float>(i % 5) - 0.2F);
    b.weight("w" + id, {7, 3, 1, 1}, weights);
    b.node("Conv", {"x", "w" + id}, {"c" + id}).ints("kernel_shape", {1, 1}).ints("strides", {stride, stride});
    b.integers("flat" + id, {3}, {1, 7, -1}).node("Reshape", {"c" + id, "flat" + id}, {"r" + id});
    stride *= 2;
  }
  b.node("Concat", {"r8", "r16", "r32"}, {"all"}).integer("axis", 2).node("Sigmoid", {"all"}, {"parts"});
  b.weight("sizes", {1, 7, 1}, {64, 64, 20, 20, 1, 1, 1});
  return b.node("Mul", {"parts", "sizes"}, {last});
}
OnnxBuilder yolov8() { return rows("output0").output("output0", {}); }

// The same with the choice of boxes in the graph, as Ultralytics exports it: rows of corners, a score and a class.
OnnxBuilder end_to_end(const char* choice = "TopK") {
  OnnxBuilder b = rows("raw");
  b.node("Transpose", {"raw"}, {"rows"}).ints("perm", {0, 2, 1});
  b.integers("parts_of_rows", {2}, {4, 3})
      .node("Split", {"rows", "parts_of_rows"}, {"boxes", "scores"})
      .integer("axis", 2);
  b.node("ReduceMax", {"scores"}, {"best"}).ints("axes", {2}).integer("keepdims", 0);
  b.integers("k", {1}, {30}).node(choice, {"best", "k"}, {"chosen", "places"}, "choose");
  b.integers("last", {1}, {2}).node("Unsqueeze", {"places", "last"}, {"index"});
  b.integers("wide", {3}, {1, 30, 4}).node("Expand", {"index", "wide"}, {"index4"});
  b.node("GatherElements", {"boxes", "index4"}, {"kept"}).integer("axis", 1);
  b.node("GatherElements", {"scores", "index"}, {"kept_scores"}).integer("axis", 1);
  b.node("Concat", {"kept", "kept_scores", "kept_scores"}, {"output0"}).integer("axis", 2);
  return b.output("output0", {1, 30, 6});
}

TEST_F(ModelFindings, NameInputsOutputsOperatorsMemoryAndTheLayoutThatTheOutputsLookLike) {
  examine(faces());
  EXPECT_THAT(of("file").detail, AllOf(HasSubstr("opset 13, 144 parameters"), HasSubstr("multiply-adds")));
  EXPECT_EQ(of("input x").detail, "f32 [1,3,64,64]");
  EXPECT_EQ(of("output kps_16").detail, "f32 [1,10,4,4]") << "computed: the file does not declare it";
  EXPECT_EQ(of("operators").detail, "Conv x12");
  for (const char* engine : {"engine cpu", "engine cuda"}) {
    EXPECT_EQ(of(engine).health, Health::kOk) << engine;
    EXPECT_THAT(of(engine).detail, AllOf(HasSubstr("runs it: "), HasSubstr("MiB for each frame"))) << engine;
  }
  EXPECT_EQ(of("engine opencv").health, Health::kOk);
  EXPECT_EQ(of("detections").detail, "the model's outputs look like {layout: yunet} (YuNet)");
  EXPECT_TRUE(all_usable(findings_));
}

TEST_F(ModelFindings, SayWhyAnEngineCannotRunItAndWhichCan) {
  OnnxBuilder b;
  b.input("x", {1, 3, 8, 8}).node("LRN", {"x"}, {"y"}, "norm").integer("size", 3).output("y", {});
  examine(b);
  EXPECT_EQ(of("operators").detail, "LRN x1; camd's own engines do not have LRN");
  EXPECT_EQ(of("engine cpu").health, Health::kAbsent);
  EXPECT_EQ(of("engine cpu").detail, "cannot run it: LRN (node 'norm'): camd's own engines do not have this operator");
  EXPECT_EQ(of("engine opencv").health, Health::kOk);
  EXPECT_EQ(of("output y").detail, "f32 [1,3,8,8]") << "what OpenCV made of it";
  EXPECT_TRUE(all_usable(findings_));
  examine(b, "cpu");
  EXPECT_EQ(of("engine cpu").health, Health::kBroken) << "the configured engine";
}

TEST_F(ModelFindings, CallAModelThatNothingRunsBroken) {
  OnnxBuilder b;
  b.input("x", {1, 3, 8, 8}).node("FlyToTheMoon", {"x"}, {"y"}).output("y", {});
  examine(b);
  EXPECT_EQ(of("engine cpu").health, Health::kBroken);
  EXPECT_EQ(of("engine opencv").health, Health::kBroken);
  EXPECT_EQ(of("engine cuda").health, Health::kAbsent) << "the configuration says device: host";
}

TEST_F(ModelFindings, LookWhetherDetectionsCanReadTheOutputsAsConfigured) {
  examine(faces(), "auto", "[{plugin: detections, config: {layout: yunet, classes: [face]}}]");
  EXPECT_EQ(of("detections").detail, "reads its outputs as configured");
  examine(faces(), "auto", "[{plugin: detections, config: {layout: nanodet, classes: [face]}}]");
  EXPECT_EQ(of("detections").health, Health::kBroken);
  EXPECT_THAT(of("detections").detail, HasSubstr("layout 'nanodet'"));
}

TEST_F(ModelFindings, CallALayoutBrokenThatOneFrameOfNoiseSpeaksAgainst) {
  examine(yolov8(), "auto", "[{plugin: detections, config: {layout: ssd, boxes: centre, relative: false}}]");
  EXPECT_EQ(of("detections").detail, "reads its outputs as configured");
  examine(yolov8());
  EXPECT_EQ(of("detections").detail,
            "the model's outputs look like {layout: ssd, boxes: centre, relative: false} (YOLOv8 to 26)");
  for (const char* config :
       {"{layout: yolox}", "{layout: ssd}", "{layout: ssd, relative: false}", "{layout: ssd, boxes: centre}"}) {
    examine(yolov8(), "auto", "[{plugin: detections, config: " + std::string(config) + "}]");
    EXPECT_EQ(of("detections").health, Health::kBroken) << config;
    EXPECT_THAT(of("detections").detail, AllOf(HasSubstr("layout '"), HasSubstr("on a picture of noise"),
                                               HasSubstr("; set {layout: ssd, boxes: centre, relative: false}")));
  }
}

TEST_F(ModelFindings, NameTheTensorsToCutAtOnceTheyWereTried) {
  examine(end_to_end("ChooseBest"));
  EXPECT_EQ(of("engine cpu").health, Health::kBroken);
  EXPECT_EQ(
      of("engine cpu").detail,
      "cannot run it: ChooseBest (node 'choose'): camd's own engines do not have this operator; `model.cut_at: [boxes, "
      "scores]` leaves that out, then `detections` reads it with {layout: ssd, boxes: centre, relative: false}");
  examine(end_to_end("ChooseBest"), "auto", "[{plugin: detections, config: {classes: [a, b, c], layout: ssd}}]");
  EXPECT_THAT(of("engine cpu").detail, HasSubstr("`model.cut_at: [boxes, scores]`"));
}

TEST_F(ModelFindings, ReadBoxesThatTheGraphHasChosen) {
  examine(end_to_end());
  EXPECT_EQ(of("engine cpu").health, Health::kOk);
  EXPECT_EQ(of("engine cuda").health, Health::kOk);
}

TEST_F(ModelFindings, SayThatAPartWhoseSizesDependOnThePictureRunsOnTheHost) {
  OnnxBuilder b;
  b.input("x", {1, 3, 8, 8}).node("Relu", {"x"}, {"r"}).node("NonZero", {"r"}, {"y"}, "found").output("y", {4, -1});
  examine(b);
  EXPECT_EQ(of("tail").detail,
            "its last part, which makes y, runs on the host, as sizes there depend on the picture: NonZero (node "
            "'found'): how much it puts out depends on the picture");
  EXPECT_EQ(of("engine cpu").health, Health::kOk);
}

TEST_F(ModelFindings, NameNoCutWhereNoneHelps) {
  OnnxBuilder b;
  b.input("x", {1, 3, 8, 8}).integers("k", {1}, {2}).node("Relu", {"x"}, {"r"});
  b.node("ChooseBest", {"r", "k"}, {"y", "places"}, "first").node("Relu", {"y"}, {"z"}).output("z", {});
  examine(b);
  EXPECT_EQ(
      of("engine cpu").detail,
      "cannot run it: ChooseBest (node 'first'): camd's own engines do not have this operator; nothing in front of it "
      "looks like boxes and scores, so no model.cut_at helps: export the model without it");
}

TEST_F(ModelFindings, TellWhatIsWrongWithAFileThatIsNoModel) {
  const infer::test::TemporaryFolder& folder = folder_;
  (void)folder.write("m.onnx", "cameras:\n");
  const config::Config config = config::load_text(
      (folder.path() / "c.yaml").string(), "model: {path: m.onnx}\ncameras: [{name: a, source: {type: test}}]\n", {});
  findings_ = examine_model(config, infer::ReportDepth::kOwnEngines);
  EXPECT_EQ(of("file").health, Health::kBroken);
  EXPECT_THAT(of("file").detail, HasSubstr("not an ONNX"));
}

TEST(DecodersText, TellsDepthsSizesAndEnginesOfEachCodec) {
  using device::VideoCodec;
  EXPECT_EQ(decoders_text({{VideoCodec::kH264, 8, 7, 4096, 4096},
                           {VideoCodec::kH265, 8, 7, 8192, 8192},
                           {VideoCodec::kH265, 10, 7, 8192, 8192},
                           {VideoCodec::kJpeg, 8, 1, 32768, 16384}}),
            "H.264 (8 bits, to 4096x4096, 7 engines), H.265 (8 and 10 bits, to 8192x8192, 7 engines), "
            "JPEG (8 bits, to 32768x16384, 1 engine)");
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
