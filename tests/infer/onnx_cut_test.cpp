// Files whose outputs the configuration chooses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.hpp"
#include "device/host_device.hpp"
#include "infer/engine.hpp"
#include "infer/graph/lower_model.hpp"
#include "infer/onnx/file.hpp"
#include "onnx_builder.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::OnnxBuilder;
using test::TemporaryFolder;
using ::testing::ElementsAre;

using Names = std::vector<std::string>;

// Scores and boxes, and behind them a choice that no engine runs: an operator of its own domain and a second input.
OnnxBuilder choosing_detector() {
  OnnxBuilder b;
  b.input("picture", {1, 3, 8, 8}).input("scale_factor", {1, 2});
  b.weight("w", {2, 3, 1, 1}, {1, 2, 3, 4, 5, 6}).integers("k", {1}, {2});
  b.node("Conv", {"picture", "w"}, {"boxes"}, "conv").ints("kernel_shape", {1, 1});
  b.node("Sigmoid", {"boxes"}, {"scores"}, "sigmoid");
  b.node("Unique", {"scores"}, {"best", "places"}, "choose");
  b.node("Scale", {"best", "scale_factor"}, {"result"}, "scale").domain("vendor");
  return b.output("result", {});
}

std::string refusal(const Names& outputs) {
  try {
    (void)parse_onnx(choosing_detector().bytes(), "m.onnx", outputs);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind(), base::ErrorKind::kModel);
    return error.what();
  }
  return "accepted";
}

TEST(CutModel, HasTheNamedOutputsInTheirOrderAndNothingThatOnlyTheRestNeeds) {
  const OnnxFile file = parse_onnx(choosing_detector().bytes(), "m.onnx", {"scores", "boxes"});
  const ModelDescription model = describe_model(file);
  ASSERT_EQ(model.inputs.size(), 1U);
  EXPECT_EQ(model.inputs[0].name, "picture");
  ASSERT_EQ(model.outputs.size(), 2U);
  EXPECT_EQ(model.outputs[0].name, "scores");
  EXPECT_EQ(model.outputs[1].name, "boxes");
  ASSERT_EQ(model.operators.size(), 2U);
  EXPECT_EQ(model.operators[0].type, "Conv");
  EXPECT_EQ(model.operators[1].type, "Sigmoid");
  const Graph graph = lower_model(file, model.inputs[0]);
  EXPECT_EQ(to_string(graph.shape(graph.outputs[0])), "[1,2,8,8]");
}

TEST(CutModel, KeepsInsideGraphsWhatABranchReadsFromAround) {
  OnnxBuilder b;
  b.input("x", {1, 2}).node("Relu", {"x"}, {"far"}, "relu").node("Constant", {}, {"yes"}, "yes");
  auto* value = b.proto().mutable_graph()->mutable_node(1)->add_attribute();
  value->set_name("value");
  value->set_type(onnx::AttributeProto::TENSOR);
  value->mutable_t()->set_data_type(onnx::TensorProto::BOOL);
  value->mutable_t()->add_int32_data(1);
  b.node("If", {"yes"}, {"chosen"}, "if");
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto* inner = b.proto().mutable_graph()->mutable_node(2)->add_attribute();
    inner->set_name(branch);
    inner->set_type(onnx::AttributeProto::GRAPH);
    auto* node = inner->mutable_g()->add_node();
    node->set_op_type("Neg");
    node->add_input("far");
    node->add_output("near");
    inner->mutable_g()->add_output()->set_name("near");
  }
  b.node("TopK", {"chosen", "chosen"}, {"best", "places"}).output("best", {});
  const OnnxFile file = parse_onnx(b.bytes(), "m.onnx", {"chosen"});
  EXPECT_EQ(file.proto.graph().node_size(), 3);
}

TEST(CutModel, RefusesNamesThatNoNodeMakesWithTheModelsOwnOutputs) {
  EXPECT_EQ(refusal({"scores", "boxs"}),
            "m.onnx: model.cut_at names 'boxs', a tensor that no node makes; the model's own "
            "outputs are 'result'");
  EXPECT_EQ(refusal({"picture"}),
            "m.onnx: model.cut_at names 'picture', a tensor that no node makes; the model's own "
            "outputs are 'result'");
}

TEST(CutModel, RefusesANameThatIsThereTwice) {
  EXPECT_EQ(refusal({"scores", "scores"}), "m.onnx: model.cut_at names 'scores' twice");
}

TEST(CutModel, RunsOnEveryEngineOfTheHost) {
  const TemporaryFolder folder;
  const std::string path = folder.write("m.onnx", choosing_detector().bytes());
  const auto device = device::make_host_device(base::system_clock());
  for (const EngineKind kind : {EngineKind::kCpu, EngineKind::kOpenCv}) {
    EngineOptions options;
    options.kind = kind;
    options.cut_at = {"boxes", "scores"};
    const auto engine = make_engine(path, options, *device);
    ASSERT_EQ(engine->outputs().size(), 2U);
    EXPECT_EQ(engine->outputs()[0].name, "boxes");
    EXPECT_EQ(to_string(engine->outputs()[1].shape), "[1,2,8,8]");
    const auto execution = engine->make_execution();
    const device::Stream stream = device->make_stream("compute");
    const base::PictureLayout layout = base::tight_layout(base::PixelFormat::kGray8, 8, 8);
    const std::vector<std::byte> picture(layout.size_bytes, std::byte{255});
    ASSERT_TRUE(execution->enqueue_preprocess({picture.data(), layout}, stream));
    ASSERT_TRUE(execution->enqueue_network(stream));
    ASSERT_TRUE(device->synchronize(execution->output_ready(1)));
    ASSERT_TRUE(execution->result());
    const auto* boxes = static_cast<const float*>(execution->output(0).data);
    EXPECT_NEAR(boxes[9], 6.0F, 1e-5F);
    EXPECT_NEAR(boxes[64 + 9], 15.0F, 1e-4F);
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
