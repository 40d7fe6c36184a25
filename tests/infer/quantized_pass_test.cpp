#include "infer/graph/quantized_pass.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "infer/graph/reference.hpp"
#include "lowered.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::lower;
using test::OnnxBuilder;

constexpr std::int64_t kSide = 6;
const Shape kShape = {1, 2, kSide, kSide};

// A builder with the input x and the pair's parameters: scale s, zero point z.
OnnxBuilder builder() {
  OnnxBuilder b;
  b.input("x", kShape).weight("s", {}, {0.3F}).integers("z", {}, {-3}, onnx::TensorProto::INT8);
  return b;
}

// Adds a pair around `from`; its result is called `to`.
void pair(OnnxBuilder& b, const std::string& from, const std::string& to, const std::string& scale = "s") {
  b.node("QuantizeLinear", {from, scale, "z"}, {to + "_q"}).node("DequantizeLinear", {to + "_q", scale, "z"}, {to});
}

// Beyond both bounds, and halves of steps.
std::vector<float> pictures() {
  std::vector<float> values;
  values.reserve(2 * kSide * kSide);
  for (int i = 0; i < 2 * kSide * kSide; ++i) values.push_back(0.15F * static_cast<float>(i * 17 % 700 - 350));
  return values;
}

// The optimised graph, after comparing its outputs with the graph as lowered: every float must be the same.
Graph equal_and_optimised(const OnnxBuilder& b) {
  Graph graph = lower(b, kShape);
  LowerOptions as_it_is;
  as_it_is.optimize = false;
  const auto want = run_reference(lower(b, kShape, as_it_is), pictures());
  const auto got = run_reference(graph, pictures());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].f32, want[i].f32) << "output " << i;
  return graph;
}

int count(const Graph& graph, Binary::Kind kind) {
  return static_cast<int>(std::count_if(graph.ops.begin(), graph.ops.end(), [&](const Op& op) {
    const auto* b = std::get_if<Binary>(&op.operation);
    return b != nullptr && b->kind == kind;
  }));
}

TEST(QuantizedPass, APairTakesTwoOpsAndChangesNoFloat) {
  OnnxBuilder b = builder();
  pair(b, "x", "y");
  const Graph graph = equal_and_optimised(b.output("y", {}));
  ASSERT_EQ(graph.ops.size(), 2U);
  EXPECT_EQ(graph.ops[0].activation.function, Function::kRound);
  EXPECT_EQ(graph.ops[1].activation, (Activation{Function::kClip, -125 * 0.3F, 130 * 0.3F}));
}

TEST(QuantizedPass, PairsOfOneInputBecomeOne) {
  OnnxBuilder b = builder();
  b.node("QuantizeLinear", {"x", "s", "z"}, {"q"});
  b.node("DequantizeLinear", {"q", "s", "z"}, {"a"}).node("DequantizeLinear", {"q", "s", "z"}, {"b"});
  b.node("Exp", {"a"}, {"c"}).node("Abs", {"b"}, {"d"});
  const Graph graph = equal_and_optimised(b.output("c", {}).output("d", {}));
  EXPECT_EQ(graph.ops.size(), 4U);
}

TEST(QuantizedPass, APairBehindAnEqualOneGoesAcrossWhatOnlyMovesValues) {
  OnnxBuilder b = builder();
  pair(b, "x", "a");
  b.node("MaxPool", {"a"}, {"pooled"}).ints("kernel_shape", {3, 3}).ints("pads", {1, 1, 1, 1});
  pair(b, "pooled", "b");
  b.node("Concat", {"a", "b"}, {"joined"}).integer("axis", 1);
  pair(b, "joined", "c");
  b.node("Transpose", {"c"}, {"turned"}).ints("perm", {0, 2, 3, 1});
  pair(b, "turned", "d");
  b.node("Relu", {"d"}, {"e"});
  pair(b, "e", "y");
  const Graph graph = equal_and_optimised(b.output("y", {}));
  EXPECT_EQ(count(graph, Binary::Kind::kDiv), 1);
  EXPECT_EQ(count(graph, Binary::Kind::kMul), 1);
}

// As between QLinearConvs: the whole numbers are moved.
TEST(QuantizedPass, HalvesOfAPairComeTogetherAcrossWhatOnlyMovesValues) {
  OnnxBuilder b = builder();
  b.node("QuantizeLinear", {"x", "s", "z"}, {"q"});
  b.node("MaxPool", {"q"}, {"pooled"}).ints("kernel_shape", {3, 3}).ints("pads", {1, 1, 1, 1});
  b.node("Transpose", {"pooled"}, {"turned"}).ints("perm", {0, 2, 3, 1});
  b.node("DequantizeLinear", {"turned", "s", "z"}, {"a"}).node("DequantizeLinear", {"pooled", "s", "z"}, {"b"});
  b.node("DequantizeLinear", {"q", "s", "z"}, {"c"});
  b.node("Exp", {"a"}, {"d"}).node("Abs", {"b"}, {"e"}).node("Neg", {"c"}, {"f"});
  const Graph graph = equal_and_optimised(b.output("d", {}).output("e", {}).output("f", {}));
  EXPECT_EQ(count(graph, Binary::Kind::kDiv), 1);
  EXPECT_EQ(count(graph, Binary::Kind::kMul), 1);
  EXPECT_EQ(count(graph, Binary::Kind::kAdd) + count(graph, Binary::Kind::kSub), 0);
}

TEST(QuantizedPass, HalvesOfAPairWithMovedWholeNumbersThatSomebodyReadsGiveBoth) {
  OnnxBuilder b = builder();
  b.node("QuantizeLinear", {"x", "s", "z"}, {"q"}).node("Transpose", {"q"}, {"t"}).ints("perm", {0, 1, 3, 2});
  b.node("DequantizeLinear", {"t", "s", "z"}, {"y"});
  const Graph graph = equal_and_optimised(b.output("t", {}).output("y", {}));
  EXPECT_EQ(graph.outputs.size(), 2U);
}

// As onnxruntime's quantizer leaves a Resize between operators with the pair inside, and ONNX Runtime computes it.
TEST(QuantizedPass, AResizeOfStepsIsCutOffToStepsAndOneOfNumbersIsNot) {
  for (const bool steps : {true, false}) {
    OnnxBuilder b;
    b.input("x", {1, 1, 1, 3}).weight("s", {}, {1}).integers("z", {}, {0}, onnx::TensorProto::UINT8);
    b.weight("twice", {4}, {1, 1, 1, 2});
    b.node("QuantizeLinear", {"x", "s", "z"}, {"q"});
    if (!steps) b.node("DequantizeLinear", {"q", "s", "z"}, {"n"});
    b.node("Resize", {steps ? "q" : "n", "", "twice"}, {"r"}).text("mode", "linear");
    if (steps) b.node("DequantizeLinear", {"r", "s", "z"}, {"y"});
    b.output(steps ? "y" : "r", {});
    const std::vector<float> want =
        steps ? std::vector<float>{0, 0, 0, 1, 1, 2} : std::vector<float>{0, 0.25F, 0.75F, 1.25F, 1.75F, 2};
    EXPECT_EQ(test::result_of_counts(b, {1, 1, 1, 3}), want);
  }
}

TEST(QuantizedPass, HalvesWithAnotherZeroPointStayWhatTheyAre) {
  OnnxBuilder b = builder();
  b.integers("w", {}, {2}, onnx::TensorProto::INT8);
  b.node("QuantizeLinear", {"x", "s", "z"}, {"q"}).node("Transpose", {"q"}, {"t"}).ints("perm", {0, 1, 3, 2});
  b.node("DequantizeLinear", {"t", "s", "w"}, {"y"});
  const Graph graph = equal_and_optimised(b.output("y", {}));
  EXPECT_EQ(count(graph, Binary::Kind::kSub), 1);
}

TEST(QuantizedPass, APairWithAnotherScaleOrBehindNewNumbersStays) {
  OnnxBuilder b = builder();
  b.weight("t", {}, {0.7F});
  pair(b, "x", "a");
  pair(b, "a", "b", "t");
  b.node("Abs", {"b"}, {"c"});
  pair(b, "c", "y", "t");
  const Graph graph = equal_and_optimised(b.output("y", {}));
  EXPECT_EQ(count(graph, Binary::Kind::kDiv), 3);
}

TEST(QuantizedPass, AReluThatOnlyAPairReadsMovesItsBound) {
  OnnxBuilder b = builder();
  b.node("Relu", {"x"}, {"r"});
  pair(b, "r", "y");
  const Graph graph = equal_and_optimised(b.output("y", {}));
  ASSERT_EQ(graph.ops.size(), 2U);
  EXPECT_EQ(graph.ops[1].activation, (Activation{Function::kClip, 0, 130 * 0.3F}));
}

TEST(QuantizedPass, AReluThatAnotherReadsStays) {
  OnnxBuilder b = builder();
  b.node("Relu", {"x"}, {"r"});
  pair(b, "r", "y");
  const Graph graph = equal_and_optimised(b.output("y", {}).output("r", {}));
  EXPECT_EQ(graph.ops.size(), 3U);
}

TEST(QuantizedPass, WholeNumbersThatSomebodyReadsStay) {
  OnnxBuilder b = builder();
  b.node("QuantizeLinear", {"x", "s", "z"}, {"q"}).node("DequantizeLinear", {"q", "s", "z"}, {"y"});
  const Graph graph = equal_and_optimised(b.output("q", {}).output("y", {}));
  EXPECT_EQ(graph.outputs.size(), 2U);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
