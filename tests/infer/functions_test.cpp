// Functions that a model brings along, as PyTorch's exporter of 2.1 to 2.5 writes one for each layer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.hpp"
#include "infer/model.hpp"
#include "lowered.hpp"
#include "onnx_builder.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::OnnxBuilder;
using test::refusal;
using test::result_of_counts;
using ::testing::ElementsAre;

using Names = std::vector<std::string>;

// One that is called; its nodes are added by node().
class Function {
 public:
  Function(OnnxBuilder& model, const std::string& name, const Names& inputs, const Names& outputs, int opset = 13)
      : proto_(*model.proto().add_functions()) {
    proto_.set_domain("own");
    proto_.set_name(name);
    for (const auto& input : inputs) proto_.add_input(input);
    for (const auto& output : outputs) proto_.add_output(output);
    proto_.add_opset_import()->set_version(opset);
  }
  onnx::NodeProto& node(const std::string& type, const Names& inputs, const Names& outputs) {
    onnx::NodeProto& node = *proto_.add_node();
    node.set_op_type(type);
    for (const auto& input : inputs) node.add_input(input);
    for (const auto& output : outputs) node.add_output(output);
    return node;
  }
  void call(const std::string& name, const Names& inputs, const Names& outputs) {
    node(name, inputs, outputs).set_domain("own");
  }
  [[nodiscard]] onnx::FunctionProto& proto() { return proto_; }

 private:
  onnx::FunctionProto& proto_;
};

onnx::AttributeProto integer(const std::string& name, std::int64_t value) {
  onnx::AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
  return attribute;
}
void refer(onnx::NodeProto& node, const std::string& name, const std::string& to) {
  auto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_ref_attr_name(to);
}

TEST(ModelFunctions, AreComputedWhereTheyAreCalledAndMayCallOthers) {
  OnnxBuilder b;
  b.input("x", {1, 4}).weight("w", {4}, {10, 20, 30, 40});
  Function twice(b, "Twice", {"a"}, {"sum"});
  twice.node("Add", {"a", "a"}, {"sum"});
  Function layer(b, "Layer", {"a", "bias"}, {"result"});
  layer.call("Twice", {"a"}, {"between"});
  layer.node("Add", {"between", "bias"}, {"result"});
  // Names inside are those of the graph as well: "a", "sum" and "between" are other tensors in each call.
  b.node("Layer", {"x", "w"}, {"a"})
      .domain("own")
      .node("Layer", {"a", "w"}, {"sum"})
      .domain("own")
      .output("sum", {1, 4});
  EXPECT_THAT(result_of_counts(b, {1, 4}), ElementsAre(30, 64, 98, 132));
}

TEST(ModelFunctions, TakeTheirAttributesFromTheCallOrTheirOwnDefaultsOrNone) {
  OnnxBuilder b;
  b.input("x", {1, 2, 3}).output("one", {}).output("other", {}).output("third", {});
  Function best(b, "Best", {"a"}, {"place"});
  onnx::NodeProto& node = best.node("ArgMax", {"a"}, {"place"});
  refer(node, "axis", "along");
  refer(node, "keepdims", "keep");
  best.proto().add_attribute("along");
  // FunctionProto.attribute_proto, which Debian's onnx does not know yet.
  best.proto().mutable_unknown_fields()->AddLengthDelimited(11, integer("keep", 0).SerializeAsString());
  b.node("Best", {"x"}, {"one"}).domain("own").integer("along", 2);
  b.node("Best", {"x"}, {"other"}).domain("own").integer("along", 1).integer("keep", 1);
  b.node("Best", {"x"}, {"third"}).domain("own");
  const Graph graph = test::lower(b, {1, 2, 3});
  EXPECT_EQ(to_string(graph.shape(graph.outputs[0])), "[1,2]");
  EXPECT_EQ(to_string(graph.shape(graph.outputs[1])), "[1,1,3]");
  EXPECT_EQ(to_string(graph.shape(graph.outputs[2])), "[2,3]");
}

TEST(ModelFunctions, MayLeaveOutInputsAndOutputsAndHandAnInputThrough) {
  OnnxBuilder b;
  b.input("x", {1, 3}).weight("most", {}, {1.5F}).output("y", {}).output("same", {});
  Function limit(b, "Limit", {"a", "low", "high"}, {"a", "unread", "clipped"});
  limit.node("Neg", {"a"}, {"unread"});
  limit.node("Clip", {"a", "low", "high"}, {"clipped"});
  b.node("Limit", {"x", "", "most"}, {"same", "", "y"}).domain("own");
  const auto outputs = run_reference(test::lower(b, {1, 3}), {0, 1, 2});
  EXPECT_THAT(outputs[0].f32, ElementsAre(0, 1, 1.5F));
  EXPECT_THAT(outputs[1].f32, ElementsAre(0, 1, 2));
}

TEST(ModelFunctions, AreCalledAndHoldGraphsInsideNodesToo) {
  OnnxBuilder b;
  b.input("x", {1, 2}).integers("yes", {}, {1}, onnx::TensorProto::BOOL).output("y", {});
  Function twice(b, "Twice", {"a"}, {"sum"});
  twice.node("Add", {"a", "a"}, {"sum"});
  Function branch(b, "Branch", {"if", "a"}, {"chosen"});
  onnx::NodeProto& node = branch.node("If", {"if"}, {"chosen"});
  for (const char* name : {"then_branch", "else_branch"}) {
    auto* attribute = node.add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::GRAPH);
    auto* inner = attribute->mutable_g()->add_node();
    inner->set_op_type(std::string(name) == "then_branch" ? "Twice" : "Neg");
    if (inner->op_type() == "Twice") inner->set_domain("own");
    inner->add_input("a");
    inner->add_output("inside");
    attribute->mutable_g()->add_output()->set_name("inside");
  }
  b.node("Branch", {"yes", "x"}, {"y"}).domain("own");
  EXPECT_THAT(result_of_counts(b, {1, 2}), ElementsAre(0, 2));
}

TEST(ModelFunctions, ThatCallThemselvesAreRefused) {
  OnnxBuilder b;
  b.input("x", {1, 2}).node("Round", {"x"}, {"y"}).domain("own").output("y", {});
  Function round(b, "Round", {"a"}, {"b"});
  round.call("Round", {"a"}, {"b"});
  EXPECT_EQ(refusal(b, {1, 2}), "test.onnx: the model's own function 'Round' is called 32 calls deep or calls itself");
}

TEST(ModelFunctions, ThatComeToTooMuchAreRefusedBeforeTheyDo) {
  OnnxBuilder b;
  b.input("x", {1, 2}).node("Half_0", {"x"}, {"y"}).domain("own").output("y", {});
  for (int i = 0; i < 30; ++i) {
    Function half(b, "Half_" + std::to_string(i), {"a"}, {"b"});
    if (i == 29) {
      half.node("Neg", {"a"}, {"b"});
      continue;
    }
    half.call("Half_" + std::to_string(i + 1), {"a"}, {"c"});
    half.call("Half_" + std::to_string(i + 1), {"c"}, {"b"});
  }
  EXPECT_EQ(
      refusal(b, {1, 2}),
      "test.onnx: the model's own functions come to more than 40000 nodes or 67108864 bytes where they are called");
  OnnxBuilder names;
  const std::string name(std::size_t{1} << 20, 'n');
  names.input("x", {1, 2}).node("Neg", {"x"}, {name}).node("Many", {name}, {"y"}).domain("own").output("y", {});
  Function many(names, "Many", {"a"}, {"b"});
  onnx::NodeProto& sum = many.node("Sum", {}, {"b"});
  for (int i = 0; i < 100; ++i) sum.add_input("a");
  EXPECT_EQ(
      refusal(names, {1, 2}),
      "test.onnx: the model's own functions come to more than 40000 nodes or 67108864 bytes where they are called");
}

TEST(ModelFunctions, OfAnotherOpsetOrThereTwiceOrWithFewerInputsAreRefused) {
  const auto model = [](int opset, int times, const Names& inputs) {
    OnnxBuilder b;
    b.input("x", {1, 2}).node("Turn", inputs, {"y"}, "turn").domain("own").output("y", {});
    for (int i = 0; i < times; ++i) {
      Function turn(b, "Turn", {"a"}, {"b"}, opset);
      turn.node("Neg", {"a"}, {"b"});
    }
    return refusal(b, {1, 2});
  };
  EXPECT_EQ(model(13, 1, {"x"}), "accepted");
  EXPECT_EQ(
      model(18, 1, {"x"}),
      "test.onnx: the model's own function 'Turn' is written for opset 18 and the model for 13, camd takes one opset "
      "for all; export the model with its functions inlined");
  EXPECT_EQ(model(13, 2, {"x"}), "test.onnx: the model's own function 'Turn' is there twice");
  EXPECT_EQ(
      model(13, 1, {"x", "x"}),
      "test.onnx: the model's own function 'Turn' has inputs and outputs 1 and 1, but Turn (node 'turn') gives it 2 "
      "and 1");
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
