// Models whose last part has sizes that the picture decides.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/clock.hpp"
#include "device/host_device.hpp"
#include "infer/engine.hpp"
#include "infer/graph/tail.hpp"
#include "infer/tail/tail_engine.hpp"
#include "lowered.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::OnnxBuilder;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;

// Scores are the first channel of each pixel, boxes its position: those above 0.5 are put out, as [count, 2] places.
OnnxBuilder bright_pixels() {
  OnnxBuilder b;
  b.input("x", {1, 3, 2, 4}).weight("half", {}, {0.5F});
  b.integers("zero", {1}, {0}).integers("one", {1}, {1}).integers("channel", {1}, {1});
  b.node("Slice", {"x", "zero", "one", "channel"}, {"red"}).node("Greater", {"red", "half"}, {"bright"});
  b.node("NonZero", {"bright"}, {"places"}, "found").node("Transpose", {"places"}, {"rows"}).ints("perm", {1, 0});
  b.integers("two", {1}, {2}).integers("four", {1}, {4});
  b.node("Slice", {"rows", "two", "four", "one"}, {"pixels"}).output("pixels", {-1, 2});
  return b.output("red", {});
}

std::vector<float> run(Engine& engine, device::Device& device, const std::vector<float>& picture, std::size_t output) {
  const auto execution = engine.make_execution();
  execution->keep_input();
  const device::Stream stream = device.make_stream("test");
  std::copy(picture.begin(), picture.end(), static_cast<float*>(execution->input().data));
  EXPECT_TRUE(execution->enqueue_network(stream));
  EXPECT_TRUE(device.synchronize(stream));
  EXPECT_TRUE(execution->result());
  const TensorView view = execution->output(output);
  const auto* const values = static_cast<const float*>(view.data);
  return {values, values + element_count(view.spec->shape)};
}

TEST(SplitModel, EndsTheHeadWhereSizesBeginToDependOnThePicture) {
  const OnnxFile file = bright_pixels().file();
  const auto split = split_model(file, {"x", {1, 3, 2, 4}, DataType::kF32});
  ASSERT_TRUE(split);
  EXPECT_THAT(split->tail.reads(), ElementsAre("bright"));
  EXPECT_THAT(split->tail.makes(), ElementsAre("pixels"));
  EXPECT_EQ(split->because, "NonZero (node 'found'): how much it puts out depends on the picture");
  ASSERT_EQ(split->head.proto.graph().output_size(), 2);
  EXPECT_EQ(split->head.proto.graph().output(1).name(), "red");
}

TEST(SplitModel, LeavesModelsWithoutSuchAPartAlone) {
  const auto file = OnnxBuilder().input("x", {1, 3, 2, 2}).node("Relu", {"x"}, {"y"}).output("y", {}).file();
  EXPECT_FALSE(split_model(file, {"x", {1, 3, 2, 2}, DataType::kF32}));
}

TEST(SplitModel, LeavesModelsAloneWhoseLastPartHasForeignOperators) {
  OnnxBuilder b = bright_pixels();
  b.node("Unique", {"pixels"}, {"other"}).output("other", {});
  EXPECT_FALSE(split_model(b.file(), {"x", {1, 3, 2, 4}, DataType::kF32}));
}

class TailEngineTest : public ::testing::Test {
 protected:
  std::unique_ptr<Engine> engine(const OnnxBuilder& b) {
    const std::string path = folder_.write("m.onnx", b.bytes());
    EngineOptions options;
    options.kind = EngineKind::kCpu;
    return make_engine(path, options, *device_);
  }

  std::unique_ptr<device::Device> device_ = device::make_host_device(base::system_clock());
  test::TemporaryFolder folder_;
};

TEST_F(TailEngineTest, PutsOutWhatThePictureHasAndFillsTheRestWithMinusOne) {
  const auto made = engine(bright_pixels());
  ASSERT_EQ(made->outputs().size(), 2U);
  EXPECT_EQ(to_string(made->outputs()[0].shape), "[1024,2]");
  EXPECT_EQ(to_string(made->outputs()[1].shape), "[1,1,2,4]");
  std::vector<float> picture(24, 0.0F);
  picture[1] = picture[6] = 0.9F;
  const std::vector<float> pixels = run(*made, *device_, picture, 0);
  EXPECT_THAT(std::vector<float>(pixels.begin(), pixels.begin() + 6), ElementsAre(0, 1, 1, 2, -1, -1));
  EXPECT_EQ(run(*made, *device_, picture, 1)[6], 0.9F);
}

TEST_F(TailEngineTest, PutsOutNothingForAPictureWithNothing) {
  const auto made = engine(bright_pixels());
  const std::vector<float> pixels = run(*made, *device_, std::vector<float>(24, 0.0F), 0);
  EXPECT_TRUE(std::all_of(pixels.begin(), pixels.end(), [](float v) { return v == -1; }));
}

TEST_F(TailEngineTest, PadsWhatWasFoundEvenWhereThatIsNothing) {
  OnnxBuilder b = bright_pixels();
  b.integers("eight", {1}, {8});
  b.node("Cast", {"pixels"}, {"real"}).integer("to", 1).node("Shape", {"pixels"}, {"shape"});
  b.node("Slice", {"shape", "zero", "one", "zero"}, {"count"}).node("Sub", {"eight", "count"}, {"missing"});
  b.node("Concat", {"zero", "zero", "missing", "zero"}, {"pads"}).integer("axis", 0);
  b.node("Pad", {"real", "pads"}, {"padded"}).output("padded", {8, 2});
  const auto made = engine(b);
  std::vector<float> picture(24, 0.0F);
  EXPECT_THAT(run(*made, *device_, picture, 2), Each(0));
  picture[1] = picture[6] = 0.9F;
  const std::vector<float> rows = run(*made, *device_, picture, 2);
  EXPECT_THAT(rows, ElementsAre(0, 1, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
}

TEST_F(TailEngineTest, GivesRoomForMoreRowsButNotForWiderOnesWhereTheFileLeavesBothOpen) {
  OnnxBuilder b;
  b.input("x", {1, 3, 2, 4}).weight("half", {}, {0.5F});
  b.node("Greater", {"x", "half"}, {"bright"}).node("NonZero", {"bright"}, {"places"});
  b.node("Transpose", {"places"}, {"rows"}).ints("perm", {1, 0}).output("rows", {-1, -1});
  EXPECT_EQ(to_string(engine(b)->outputs()[0].shape), "[1024,4]");
}

// As MMDeploy's exports, which put a row of zeros behind the chosen boxes, and have a first dimension of 1.
TEST_F(TailEngineTest, GivesNoRoomForWiderRowsWhereAPictureWithNothingHasASingleOne) {
  OnnxBuilder b;
  b.input("x", {1, 3, 2, 4}).weight("half", {}, {0.5F}).integers("none", {1, 4}, {0, 0, 0, 0});
  b.integers("first", {1}, {0}).integers("second", {1}, {1});
  b.node("Greater", {"x", "half"}, {"bright"}).node("NonZero", {"bright"}, {"places"});
  b.node("Transpose", {"places"}, {"chosen"}).ints("perm", {1, 0});
  b.node("Concat", {"chosen", "none"}, {"padded"}).integer("axis", 0);
  b.node("Unsqueeze", {"padded", "first"}, {"rows"}).output("rows", {-1, -1, -1});
  b.node("ReduceSum", {"rows", "second"}, {"sum"}).output("sum", {-1, -1, -1});
  const auto made = engine(b);
  EXPECT_EQ(to_string(made->outputs()[0].shape), "[1,1024,4]");
  EXPECT_EQ(to_string(made->outputs()[1].shape), "[1,1,4]");
}

// Boxes, scores, a choice among them, and the chosen ones.
TEST_F(TailEngineTest, ChoosesBoxesAsTheGraphSays) {
  OnnxBuilder b;
  b.input("x", {1, 3, 2, 4});
  b.integers("as_scores", {3}, {1, 3, 8}).node("Reshape", {"x", "as_scores"}, {"classes"});
  b.integers("zero", {1}, {0}).integers("one", {1}, {1}).integers("axis", {1}, {1});
  b.node("Slice", {"classes", "zero", "one", "axis"}, {"scores"});
  std::vector<float> corners;
  for (int i = 0; i < 8; ++i) {
    const int pair = i / 2;  // two of each
    const auto left = static_cast<float>(10 * pair);
    corners.insert(corners.end(), {left, left, left + 8, left + 8});
  }
  b.weight("boxes", {1, 8, 4}, corners)
      .integers("most", {1}, {10})
      .weight("iou", {1}, {0.5F})
      .weight("least", {1}, {0.3F});
  b.node("NonMaxSuppression", {"boxes", "scores", "most", "iou", "least"}, {"chosen"}, "nms").output("chosen", {-1, 3});
  const auto made = engine(b);
  std::vector<float> picture(24, 0.0F);
  picture[2] = 0.6F;
  picture[3] = 0.7F;  // the same box, with a better score
  picture[6] = 0.9F;
  picture[7] = 0.2F;
  const std::vector<float> chosen = run(*made, *device_, picture, 0);
  EXPECT_THAT(std::vector<float>(chosen.begin(), chosen.begin() + 9), ElementsAre(0, 0, 6, 0, 0, 3, -1, -1, -1));
}

TEST_F(TailEngineTest, TakesTheBranchThatThePictureDecides) {
  OnnxBuilder b;
  b.input("x", {1, 3, 2, 4}).weight("zero", {}, {0});
  b.node("ReduceMax", {"x"}, {"most"}).integer("keepdims", 0).node("Greater", {"most", "zero"}, {"any"});
  b.node("If", {"any"}, {"y"}, "if").output("y", {1, 3, 2, 4});
  auto* node = b.proto().mutable_graph()->mutable_node(2);
  for (const auto& [branch, type] : {std::pair{"then_branch", "Neg"}, std::pair{"else_branch", "Exp"}}) {
    auto* attribute = node->add_attribute();
    attribute->set_name(branch);
    attribute->set_type(onnx::AttributeProto::GRAPH);
    auto* inner = attribute->mutable_g()->add_node();
    inner->set_op_type(type);
    inner->add_input("x");
    inner->add_output("z");
    attribute->mutable_g()->add_output()->set_name("z");
  }
  // The branches read the picture itself, which no head puts out.
  EXPECT_FALSE(split_model(b.file(), {"x", {1, 3, 2, 4}, DataType::kF32}));
}

// Two stages: one box for each bright pixel, all the same, which a mean of the picture and a product read.
OnnxBuilder two_stages() {
  OnnxBuilder b;
  b.opset(16).input("x", {1, 3, 2, 4}).weight("half", {}, {0.5F}).node("Relu", {"x"}, {"features"});
  b.integers("zero", {1}, {0}).integers("one", {1}, {1}).integers("two", {1}, {2}).integers("channel", {1}, {1});
  b.node("Slice", {"features", "zero", "one", "channel"}, {"red"}).node("Greater", {"red", "half"}, {"bright"});
  b.node("NonZero", {"bright"}, {"places"}, "found").node("Shape", {"places"}, {"size"});
  b.node("Slice", {"size", "one", "two"}, {"count"}).integers("four", {1}, {4});
  b.node("Concat", {"count", "four"}, {"of_boxes"}).integer("axis", 0).weight("whole", {1, 4}, {0, 0, 4, 2});
  b.node("Expand", {"whole", "of_boxes"}, {"boxes"}).node("ConstantOfShape", {"count"}, {"pictures_f"});
  b.node("Cast", {"pictures_f"}, {"pictures"}).integer("to", onnx::TensorProto::INT64);
  b.node("RoiAlign", {"features", "boxes", "pictures"}, {"seen"}, "second").integer("sampling_ratio", 2);
  b.node("Flatten", {"seen"}, {"means"}).weight("w", {2, 3}, {1, 10, 100, 0, 0, 1}).weight("bias", {2}, {0.5F, 0});
  b.node("Gemm", {"means", "w", "bias"}, {"scores"}).integer("transB", 1).output("scores", {-1, 2});
  return b.output("boxes", {-1, 4});
}

TEST_F(TailEngineTest, LooksAtThePictureAgainForEachBoxOfTheFirstStage) {
  const auto made = engine(two_stages());
  EXPECT_EQ(to_string(made->outputs()[0].shape), "[1024,2]");
  EXPECT_EQ(to_string(made->outputs()[1].shape), "[1024,4]");
  std::vector<float> picture(24, 0.0F);
  picture[1] = picture[6] = 0.8F;  // the mean of the first channel is 0.2
  std::fill(picture.begin() + 8, picture.begin() + 16, 0.3F);
  std::fill(picture.begin() + 16, picture.end(), 0.4F);
  const std::vector<float> scores = run(*made, *device_, picture, 0);
  EXPECT_THAT(std::vector<float>(scores.begin(), scores.begin() + 5),
              ElementsAre(FloatEq(43.7F), FloatEq(0.4F), FloatEq(43.7F), FloatEq(0.4F), -1));
  EXPECT_THAT(run(*made, *device_, std::vector<float>(24, 0.0F), 0), Each(-1)) << "no boxes";
}

// One box in each of the trials: what else is as long as a list of boxes has room as well.
TEST_F(TailEngineTest, GivesRoomForMoreBoxesThanTheTrialsFound) {
  OnnxBuilder b;
  b.input("x", {1, 3, 2, 4}).integers("as_scores", {3}, {1, 3, 8}).node("Reshape", {"x", "as_scores"}, {"scores"});
  b.integers("row", {1}, {0}).integers("one", {1}, {1}).integers("axis", {1}, {1});
  b.node("Slice", {"scores", "row", "one", "axis"}, {"red"}).weight("boxes", {1, 8, 4}, std::vector<float>(32, 1));
  b.node("NonMaxSuppression", {"boxes", "red", "one"}, {"chosen"}, "nms").integers("place", {}, {2});
  b.node("Gather", {"chosen", "place"}, {"index"}).integer("axis", 1).integers("eight", {2}, {8, 4});
  b.node("Reshape", {"boxes", "eight"}, {"all"}).node("Gather", {"all", "index"}, {"kept"}).output("kept", {-1, 4});
  b.output("index", {-1}, onnx::TensorProto::INT64);
  const auto made = engine(b);
  EXPECT_EQ(to_string(made->outputs()[0].shape), "[1024,4]");
  EXPECT_EQ(to_string(made->outputs()[1].shape), "[1024]");
}

TEST(NodesOutOfOrder, AreBroughtIntoOrder) {
  OnnxBuilder b;
  b.input("x", {1, 3, 2, 2}).node("Neg", {"a"}, {"y"}).node("Relu", {"x"}, {"a"}).output("y", {});
  const Graph graph = test::lower(b, {1, 3, 2, 2});
  EXPECT_EQ(graph.ops.size(), 2U);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
