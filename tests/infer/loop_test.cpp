// Loops whose number of turns is known: they are taken apart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "infer/graph/reference.hpp"
#include "infer/graph/tail.hpp"
#include "lowered.hpp"
#include "onnx_builder.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::lower;
using test::OnnxBuilder;
using test::refusal;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Floats = std::vector<float>;

const Shape kIn{1, 2};

// Makes `body` the graph of the latest node.
OnnxBuilder& with_body(OnnxBuilder& b, OnnxBuilder& body) {
  auto* node = b.proto().mutable_graph()->mutable_node(b.proto().graph().node_size() - 1);
  auto* attribute = node->add_attribute();
  attribute->set_name("body");
  attribute->set_type(onnx::AttributeProto::GRAPH);
  *attribute->mutable_g() = body.proto().graph();
  return b;
}

Floats result(const OnnxBuilder& builder, const Floats& picture, std::size_t output = 0) {
  return run_reference(lower(builder, kIn), picture).at(output).f32;
}

// Hands on v + turn, collects v; goes on while turn + 2 is below `until`.
OnnxBuilder adding(std::int64_t until) {
  OnnxBuilder body;
  body.input("turn", {}, onnx::TensorProto::INT64).input("go", {}, onnx::TensorProto::BOOL).input("v", kIn);
  body.integers("until", {}, {until}).integers("two", {}, {2});
  body.node("Cast", {"turn"}, {"number"}).integer("to", onnx::TensorProto::FLOAT);
  body.node("Add", {"v", "number"}, {"next"}).node("Add", {"turn", "two"}, {"following"});
  body.node("Less", {"following", "until"}, {"more"});
  return body.output("more", {}, onnx::TensorProto::BOOL).output("next", kIn).output("v", kIn);
}

OnnxBuilder looping(OnnxBuilder body, const std::vector<std::int64_t>& turns) {
  OnnxBuilder b;
  b.input("x", kIn).integers("yes", {}, {1}, onnx::TensorProto::BOOL);
  if (!turns.empty()) b.integers("turns", {}, turns);
  b.node("Loop", {turns.empty() ? "" : "turns", "yes", "x"}, {"y", "all"}, "loop");
  return with_body(b, body).output("y", {}).output("all", {});
}

TEST(Loop, HandsOnAndCollectsWhatEachTurnMakes) {
  const OnnxBuilder b = looping(adding(100), {4});
  EXPECT_THAT(result(b, {0, 10}), ElementsAre(6, 16));
  EXPECT_THAT(result(b, {0, 10}, 1), ElementsAre(0, 10, 0, 10, 1, 11, 3, 13));
  const Graph graph = lower(b, kIn);
  EXPECT_EQ(graph.shape(graph.outputs[1]), (Shape{4, 1, 2}));
}

TEST(Loop, EndsWhenItsConditionSaysSo) {
  EXPECT_THAT(result(looping(adding(4), {100}), {0, 10}), ElementsAre(3, 13));
  EXPECT_THAT(result(looping(adding(4), {}), {0, 10}), ElementsAre(3, 13));
}

// As PyTorch writes list.append() in a loop over a tensor's parts.
TEST(Loop, GrowsASequence) {
  OnnxBuilder body;
  body.input("turn", {}, onnx::TensorProto::INT64).input("go", {}, onnx::TensorProto::BOOL).input("list", {});
  body.integers("column", {}, {1}).node("Gather", {"x", "turn"}, {"part"}).integer("axis", 1);
  body.node("SequenceInsert", {"list", "part"}, {"longer"}).node("Identity", {"longer"}, {"same"});
  body.node("Identity", {"go"}, {"still"}).output("still", {}).output("same", {});
  OnnxBuilder b;
  b.input("x", kIn)
      .integers("yes", {}, {1}, onnx::TensorProto::BOOL)
      .integers("turns", {}, {2})
      .integers("zero", {}, {0});
  b.node("SequenceEmpty", {}, {"none"}).node("Loop", {"turns", "yes", "none"}, {"parts"}, "loop");
  with_body(b, body);
  b.node("SequenceInsert", {"parts", "x1", "zero"}, {"three"}).node("SequenceErase", {"three"}, {"two"});
  b.node("Split", {"x"}, {"x0", "x1"}).integer("axis", 1);
  b.node("SequenceLength", {"two"}, {"length"}).node("Cast", {"length"}, {"count"}).integer("to", 1);
  b.node("Squeeze", {"x1"}, {"flat"}).node("SequenceAt", {"two", "zero"}, {"first"});
  b.node("ConcatFromSequence", {"parts"}, {"y"}).integer("axis", 0);
  b.node("Mul", {"first", "count"}, {"z"}).output("y", {}).output("z", {});
  EXPECT_THAT(result(b, {5, 7}), ElementsAre(5, 7));
  EXPECT_THAT(result(b, {5, 7}, 1), ElementsAre(14));
}

TEST(Loop, WithoutTurnsHandsOnWhatItWasGiven) {
  OnnxBuilder b = looping(adding(100), {0});
  b.proto().mutable_graph()->mutable_output()->RemoveLast();
  b.weight("one", {1}, {1}).integers("at", {1}, {0}).integers("flat", {1}, {-1});
  b.node("Shape", {"all"}, {"shape"}).node("Cast", {"shape"}, {"sizes"}).integer("to", 1);
  b.node("ReduceSum", {"x"}, {"sum"}).integer("keepdims", 0).node("Mul", {"sizes", "sum"}, {"z"}).output("z", {});
  EXPECT_THAT(result(b, {2, 3}), ElementsAre(2, 3));
  EXPECT_THAT(result(b, {2, 3}, 1), ElementsAre(0, 5, 10));
}

TEST(Loop, OfMoreTurnsThanAnybodyNeedsIsRefused) {
  EXPECT_THAT(refusal(looping(adding(1 << 30), {1 << 20}), kIn),
              HasSubstr("Loop (node 'loop'): it takes more than 4096 turns"));
  EXPECT_THAT(refusal(looping(adding(1 << 30), {}), kIn),
              HasSubstr("Loop (node 'loop'): it takes more than 4096 turns"));
}

TEST(Loop, InsideALoopInsideALoopIsRefusedBeforeItTakesLong) {
  OnnxBuilder body;
  body.input("turn", {}, onnx::TensorProto::INT64).input("go", {}, onnx::TensorProto::BOOL).input("v", kIn);
  body.node("Identity", {"go"}, {"more"}).node("Identity", {"v"}, {"next"}).output("more", {}).output("next", kIn);
  for (int depth = 0; depth < 2; ++depth) {
    OnnxBuilder around;
    const std::string n = std::to_string(depth), outer = depth == 1 ? "" : "v" + n;
    around.input("turn" + n, {}, onnx::TensorProto::INT64)
        .input("go" + n, {}, onnx::TensorProto::BOOL)
        .input("v" + n, kIn);
    around.integers("turns" + n, {}, {4096}).node("Loop", {"turns" + n, "go" + n, "v" + n}, {"next" + n});
    with_body(around, body).node("Identity", {"go" + n}, {"more" + n}).output("more" + n, {}).output("next" + n, kIn);
    body = around;
  }
  OnnxBuilder b;
  b.input("x", kIn).integers("yes", {}, {1}, onnx::TensorProto::BOOL).integers("turns", {}, {4096});
  b.node("Loop", {"turns", "yes", "x"}, {"y"}, "loop");
  with_body(b, body).node("Neg", {"y"}, {"z"}).output("z", {});
  EXPECT_THAT(refusal(b, kIn), HasSubstr("folding the model's constants up to here takes too long"));
}

TEST(Loop, ThatHandsOnLongSequencesForEverIsRefusedBeforeItTakesLong) {
  constexpr int kSequences = 100;
  OnnxBuilder body;
  body.input("turn", {}, onnx::TensorProto::INT64).input("go", {}, onnx::TensorProto::BOOL);
  body.node("Identity", {"go"}, {"more"}).output("more", {});
  std::vector<std::string> given{"turns", "yes"}, made;
  for (int i = 0; i < kSequences; ++i) {
    const std::string n = std::to_string(i);
    body.input("s" + n, {}).node("Identity", {"s" + n}, {"t" + n}).output("t" + n, {});
    given.emplace_back("parts");
    made.push_back("y" + n);
  }
  const Shape wide{1, 4000};
  OnnxBuilder b;
  b.input("x", wide).integers("yes", {}, {1}, onnx::TensorProto::BOOL).integers("turns", {}, {4096});
  b.integers("first", {}, {0}).node("SplitToSequence", {"x"}, {"parts"}).integer("axis", 1);
  b.node("Loop", given, made, "loop");
  with_body(b, body).node("SequenceAt", {"y0", "first"}, {"z"}).output("z", {});
  EXPECT_THAT(refusal(b, wide), HasSubstr("folding the model's constants up to here takes too long"));
}

TEST(Loop, WhoseConditionThePictureDecidesIsRefusedOnADevice) {
  OnnxBuilder body;
  body.input("turn", {}, onnx::TensorProto::INT64).input("go", {}, onnx::TensorProto::BOOL).input("v", kIn);
  body.weight("limit", {}, {100}).node("Add", {"v", "v"}, {"next"}).node("ReduceMax", {"next"}, {"most"});
  body.node("Squeeze", {"most"}, {"number"}).node("Less", {"number", "limit"}, {"more"});
  OnnxBuilder b = looping(body.output("more", {}).output("next", kIn).output("v", kIn), {8});
  EXPECT_THAT(refusal(b, kIn), HasSubstr("Loop (node 'loop'): its condition depends on the picture"));
}

// Doubles what is there as often as the picture's first number says, on the host.
TEST(Loop, AsOftenAsThePictureSaysRunsInTheTail) {
  OnnxBuilder body;
  body.input("turn", {}, onnx::TensorProto::INT64).input("go", {}, onnx::TensorProto::BOOL).input("v", kIn);
  body.node("Add", {"v", "v"}, {"next"}).node("Identity", {"go"}, {"still"});
  body.output("still", {}).output("next", kIn).output("v", kIn);
  OnnxBuilder b;
  b.input("x", kIn).integers("zero", {}, {0}).integers("yes", {}, {1}, onnx::TensorProto::BOOL);
  b.node("Neg", {"x"}, {"n"}).node("Neg", {"n"}, {"head"});
  b.node("ReduceMax", {"head"}, {"most"}).integer("keepdims", 0);
  b.node("Cast", {"most"}, {"turns"}).integer("to", onnx::TensorProto::INT64);
  b.node("Loop", {"turns", "yes", "head"}, {"y", "all"}, "loop");
  with_body(b, body).output("y", kIn).output("all", {-1, 1, 2});
  const auto split = split_model(b.file(), {"x", kIn, DataType::kF32});
  ASSERT_TRUE(split);
  EXPECT_THAT(split->tail.makes(), ElementsAre("y", "all"));
  std::vector<Constant> values;
  for (const std::string& name : split->tail.reads()) {
    values.push_back(name == "turns" ? Constant{DataType::kF32, {}, {3}, {}}
                                     : Constant{DataType::kF32, kIn, {1, 3}, {}});
  }
  const auto made = split->tail.run(values);
  EXPECT_THAT(made[0]->f32, ElementsAre(8, 24));
  EXPECT_THAT(made[1]->f32, ElementsAre(1, 3, 2, 6, 4, 12));
  EXPECT_EQ(made[1]->shape, (Shape{3, 1, 2}));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
