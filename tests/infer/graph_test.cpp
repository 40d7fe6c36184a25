#include "infer/graph/lower_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/error.hpp"
#include "conformance.hpp"
#include "device/host_device.hpp"
#include "infer/engine.hpp"
#include "infer/graph/reference.hpp"
#include "infer/half.hpp"
#include "infer/onnx/input.hpp"
#include "lowered.hpp"
#include "onnx_builder.hpp"
#include "tests/support/paths.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::lower;
using test::OnnxBuilder;
using test::refusal;
using ::testing::HasSubstr;

TensorSpec input_spec(Shape shape) { return {"x", std::move(shape), DataType::kF32}; }

std::vector<float> noise(std::int64_t count, unsigned seed = 3) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& v : values) v = uniform(random);
  return values;
}

std::string kinds(const Graph& graph) {
  std::string text;
  for (const Op& op : graph.ops) text += (text.empty() ? "" : " ") + std::string(kind_name(op.operation));
  return text;
}

// The passes must not change what the graph computes.
void expect_same_as_unoptimized(const OnnxBuilder& builder, const Shape& shape = {1, 3, 8, 8}) {
  LowerOptions plain;
  plain.optimize = false;
  const std::vector<float> x = noise(element_count(shape));
  const auto want = run_reference(lower(builder, shape, plain), x);
  const auto got = run_reference(lower(builder, shape), x);
  ASSERT_EQ(want.size(), got.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(want[i].shape, got[i].shape);
    for (std::size_t k = 0; k < want[i].f32.size(); ++k)
      ASSERT_NEAR(want[i].f32[k], got[i].f32[k], 2e-5F) << i << " " << k;
  }
}

OnnxBuilder conv_head(const std::string& output = "c", std::int64_t channels = 4) {
  OnnxBuilder b;
  b.input("x", {1, 3, 8, 8});
  b.weight("w", {channels, 3, 3, 3}, noise(channels * 27)).weight("bias", {channels}, noise(channels));
  b.node("Conv", {"x", "w", "bias"}, {output}, "conv").ints("pads", {1, 1, 1, 1});
  return b;
}

TEST(Graph, EveryConformanceCaseOfASupportedOperatorHolds) {
  const auto cases = test::conformance_cases();
  if (cases.empty()) GTEST_SKIP() << "python3-onnx is not here";
  EXPECT_GT(cases.size(), 300U);
  for (const auto& c : cases) {
    for (const bool optimize : {false, true}) {
      LowerOptions options;
      options.optimize = optimize;
      try {
        const Graph graph = lower_model(c.file, c.input, options);
        const auto outputs = run_reference(graph, c.values);
        ASSERT_EQ(outputs.size(), c.expected.size()) << c.name;
        for (std::size_t i = 0; i < outputs.size(); ++i) {
          EXPECT_EQ(test::difference(c.expected[i], outputs[i].f32.data(), outputs[i].shape), "") << c.name;
        }
      } catch (const std::exception& error) {
        ADD_FAILURE() << c.name << ": " << error.what();
      }
    }
  }
}

TEST(Graph, BatchNormalizationGoesIntoTheConvolution) {
  OnnxBuilder b = conv_head();
  for (const char* name : {"scale", "shift", "mean"}) b.weight(name, {4}, noise(4, static_cast<unsigned>(name[0])));
  b.weight("var", {4}, {0.5F, 1.0F, 1.5F, 2.0F});
  b.node("BatchNormalization", {"c", "scale", "shift", "mean", "var"}, {"n"})
      .node("Relu", {"n"}, {"y"})
      .output("y", {});
  const Graph graph = lower(b);
  EXPECT_EQ(kinds(graph), "Conv");
  EXPECT_EQ(graph.ops[0].activation.function, Function::kRelu);
  expect_same_as_unoptimized(b);
}

TEST(Graph, ScaleAndShiftAfterATransposedConvolutionGoIntoItsWeights) {
  OnnxBuilder b;
  b.input("x", {1, 4, 5, 5}).weight("w", {4, 3, 2, 2}, noise(48)).weight("k", {1, 6, 1, 1}, noise(6, 9));
  b.node("ConvTranspose", {"x", "w"}, {"t"}).integer("group", 2).ints("strides", {2, 2});
  b.node("Mul", {"t", "k"}, {"m"}).node("Sub", {"k", "m"}, {"y"}).output("y", {});
  EXPECT_EQ(kinds(lower(b, {1, 4, 5, 5})), "ConvTranspose");
  expect_same_as_unoptimized(b, {1, 4, 5, 5});
}

TEST(Graph, BiasAfterAMatrixProductGoesIntoIt) {
  OnnxBuilder b;
  b.input("x", {2, 5}).weight("w", {5, 3}, noise(15)).weight("b", {3}, noise(3, 8));
  b.node("MatMul", {"x", "w"}, {"m"}).node("Add", {"b", "m"}, {"a"}).node("Tanh", {"a"}, {"y"}).output("y", {});
  EXPECT_EQ(kinds(lower(b, {2, 5})), "MatMul");
  expect_same_as_unoptimized(b, {2, 5});
}

// max(x, 0) * 2 - 3 is max(2x - 3, -3); times a number below zero the bound is one from above.
TEST(Graph, ANumberTimesABoundedResultAndPlusANumberMoveTheBound) {
  for (const float gain : {2.0F, -0.5F}) {
    OnnxBuilder b = conv_head();
    b.weight("gain", {1}, {gain}).weight("offset", {}, {-3.0F});
    b.node("Relu", {"c"}, {"r"}).node("Mul", {"r", "gain"}, {"m"}).node("Add", {"offset", "m"}, {"y"});
    b.output("y", {1, 4, 8, 8});
    const Graph graph = lower(b);
    EXPECT_EQ(kinds(graph), "Conv");
    const Activation bound =
        gain > 0 ? Activation{Function::kClip, -3.0F, INFINITY} : Activation{Function::kClip, -INFINITY, -3.0F};
    EXPECT_EQ(graph.ops[0].activation, bound);
    expect_same_as_unoptimized(b);
  }
}

TEST(Graph, ABoundIsNotMovedByOtherNumbersForEachChannel) {
  OnnxBuilder b = conv_head();
  b.weight("gain", {4, 1, 1}, {1, 2, 3, 4}).node("Relu", {"c"}, {"r"}).node("Mul", {"r", "gain"}, {"y"});
  b.output("y", {1, 4, 8, 8});
  EXPECT_EQ(kinds(lower(b)), "Conv Binary");
  expect_same_as_unoptimized(b);
}

TEST(Graph, OneOfTheStackedResultsIsTakenWhereItWasMade) {
  OnnxBuilder b = conv_head();
  b.node("Relu", {"c"}, {"r"}).node("Sigmoid", {"c"}, {"s"}).node("Concat", {"r", "s"}, {"stack"}).integer("axis", 0);
  b.integers("last", {1}, {1}).node("Gather", {"stack", "last"}, {"y"}).integer("axis", 0).output("y", {1, 4, 8, 8});
  const Graph graph = lower(b);
  EXPECT_EQ(kinds(graph), "Conv");
  EXPECT_EQ(graph.value(graph.outputs[0]).name, "y");
  expect_same_as_unoptimized(b);
}

TEST(Graph, ArithmeticThatIsNotPerChannelStays) {
  OnnxBuilder b = conv_head();
  b.weight("k", {1, 1, 8, 8}, noise(64)).node("Mul", {"c", "k"}, {"y"}).output("y", {});
  EXPECT_EQ(kinds(lower(b)), "Conv Binary");
}

TEST(Graph, ConvolutionReadTwiceKeepsItsWeights) {
  OnnxBuilder b = conv_head();
  b.weight("k", {1}, {2.0F}).node("Mul", {"c", "k"}, {"y"}).output("y", {}).output("c", {});
  EXPECT_EQ(kinds(lower(b)), "Conv Binary");
  expect_same_as_unoptimized(b);
}

TEST(Graph, ResidualGoesIntoTheLaterConvolution) {
  OnnxBuilder b = conv_head();
  b.weight("w2", {4, 4, 1, 1}, noise(16, 5)).node("Conv", {"c", "w2"}, {"d"});
  b.node("Add", {"d", "c"}, {"s"}).node("Relu", {"s"}, {"y"}).output("y", {});
  const Graph graph = lower(b);
  EXPECT_EQ(kinds(graph), "Conv Conv");
  EXPECT_EQ(graph.ops[1].inputs[3], graph.ops[0].output);
  EXPECT_EQ(graph.ops[1].activation.function, Function::kRelu);
  EXPECT_FALSE(std::get<Conv>(graph.ops[1].operation).activation_first);
  expect_same_as_unoptimized(b);
}

TEST(Graph, ResidualAfterTheActivationIsMarked) {
  OnnxBuilder b = conv_head();
  b.weight("w2", {4, 4, 1, 1}, noise(16, 5)).node("Conv", {"c", "w2"}, {"d"});
  b.node("Relu", {"d"}, {"r"}).node("Add", {"c", "r"}, {"y"}).output("y", {});
  const Graph graph = lower(b);
  EXPECT_EQ(kinds(graph), "Conv Conv");
  EXPECT_TRUE(std::get<Conv>(graph.ops[1].operation).activation_first);
  expect_same_as_unoptimized(b);
}

TEST(Graph, ConvolutionMovesBehindTheResidualItNeeds) {
  OnnxBuilder b = conv_head();
  b.weight("w2", {4, 3, 1, 1}, noise(12, 5)).node("Conv", {"x", "w2"}, {"d"}).node("Relu", {"d"}, {"r"});
  b.node("Sigmoid", {"r"}, {"r2"}).node("Add", {"c", "r2"}, {"y"}).output("y", {});
  const Graph graph = lower(b);
  EXPECT_EQ(kinds(graph), "Conv Unary Conv");
  expect_same_as_unoptimized(b);
}

TEST(Graph, SigmoidTimesItsArgumentIsSilu) {
  OnnxBuilder b = conv_head();
  b.node("Sigmoid", {"c"}, {"s"}).node("Mul", {"c", "s"}, {"y"}).output("y", {});
  const Graph graph = lower(b);
  EXPECT_EQ(kinds(graph), "Conv");
  EXPECT_EQ(graph.ops[0].activation.function, Function::kSilu);
  expect_same_as_unoptimized(b);
}

TEST(Graph, HardSwishIsRecognisedInItsThreeSpellings) {
  for (const int spelling : {0, 1, 2}) {
    OnnxBuilder b = conv_head();
    b.weight("three", {}, {3.0F}).weight("zero", {}, {0.0F}).weight("six", {}, {6.0F});
    if (spelling < 2) b.node("Add", {"c", "three"}, {"t"}).node("Clip", {"t", "zero", "six"}, {"h"});
    if (spelling == 0) b.node("Div", {"h", "six"}, {"g"}).node("Mul", {"g", "c"}, {"y"});
    if (spelling == 1) b.node("Mul", {"c", "h"}, {"g"}).node("Div", {"g", "six"}, {"y"});
    if (spelling == 2) b.node("HardSigmoid", {"c"}, {"g"}).number("alpha", 1.0F / 6).node("Mul", {"c", "g"}, {"y"});
    b.output("y", {});
    const Graph graph = lower(b);
    EXPECT_EQ(kinds(graph), "Conv") << spelling;
    EXPECT_EQ(graph.ops[0].activation.function, Function::kHardSwish) << spelling;
    expect_same_as_unoptimized(b);
  }
}

TEST(Graph, GeluIsRecognisedInItsFourSpellings) {
  for (const int spelling : {0, 1, 2, 3}) {
    OnnxBuilder b = conv_head();
    b.weight("root", {}, {1.41421356F}).weight("inverse", {}, {0.70710678F});
    b.weight("one", {}, {1.0F}).weight("half", {}, {0.5F});
    b.node(spelling == 3 ? "Mul" : "Div", {"c", spelling == 3 ? "inverse" : "root"}, {"d"});
    b.node("Erf", {"d"}, {"e"}).node("Add", {"e", "one"}, {"g"});
    if (spelling == 0 || spelling == 3) b.node("Mul", {"c", "g"}, {"m"}).node("Mul", {"m", "half"}, {"y"});
    if (spelling == 1) b.node("Mul", {"c", "half"}, {"m"}).node("Mul", {"m", "g"}, {"y"});
    if (spelling == 2) b.node("Mul", {"half", "g"}, {"m"}).node("Mul", {"m", "c"}, {"y"});
    b.output("y", {});
    const Graph graph = lower(b);
    EXPECT_EQ(kinds(graph), "Conv") << spelling;
    EXPECT_EQ(graph.ops[0].activation.function, Function::kGelu) << spelling;
    expect_same_as_unoptimized(b);
  }
}

TEST(Graph, ErfOfAnotherMultipleIsNoGelu) {
  OnnxBuilder b = conv_head();
  b.weight("root", {}, {1.5F}).weight("one", {}, {1.0F}).weight("half", {}, {0.5F});
  b.node("Div", {"c", "root"}, {"d"}).node("Erf", {"d"}, {"e"}).node("Add", {"e", "one"}, {"g"});
  b.node("Mul", {"c", "g"}, {"m"}).node("Mul", {"m", "half"}, {"y"}).output("y", {});
  EXPECT_NE(kinds(lower(b)), "Conv");
  expect_same_as_unoptimized(b);
}

TEST(Graph, ZeroPaddingGoesIntoConvolutionAndAveragePooling) {
  OnnxBuilder b;
  b.input("x", {1, 3, 8, 8}).integers("p", {8}, {0, 0, 1, 2, 0, 0, 0, 1}).weight("w", {2, 3, 3, 3}, noise(54));
  b.node("Pad", {"x", "p"}, {"q"}).node("Conv", {"q", "w"}, {"y"}).output("y", {});
  b.node("AveragePool", {"q"}, {"z"}).ints("kernel_shape", {2, 2}).ints("strides", {2, 2}).output("z", {});
  const Graph graph = lower(b);
  EXPECT_EQ(kinds(graph), "Conv Pool");
  EXPECT_EQ(std::get<Conv>(graph.ops[0].operation).pads, (Pads{1, 2, 0, 1}));
  expect_same_as_unoptimized(b);
}

TEST(Graph, PaddingByTheLowestNumberGoesIntoMaxPooling) {
  OnnxBuilder b = conv_head("c", 3);
  b.integers("p", {8}, {0, 0, 0, 0, 0, 0, 1, 1}).weight("lowest", {}, {-std::numeric_limits<float>::infinity()});
  b.node("Pad", {"c", "p", "lowest"}, {"q"})
      .node("MaxPool", {"q"}, {"y"})
      .ints("kernel_shape", {3, 3})
      .ints("strides", {2, 2});
  b.output("y", {});
  const Graph graph = lower(b);
  EXPECT_EQ(kinds(graph), "Conv Pool");
  EXPECT_EQ(std::get<Pool>(graph.ops[1].operation).pads, (Pads{0, 0, 1, 1}));
  expect_same_as_unoptimized(b);
}

TEST(Graph, PaddingByZeroStaysBesideMaxPoolingBecauseItCanBeTheLargest) {
  OnnxBuilder b = conv_head("c", 3);
  b.integers("p", {8}, {0, 0, 0, 0, 0, 0, 1, 1});
  b.node("Pad", {"c", "p"}, {"q"}).node("MaxPool", {"q"}, {"y"}).ints("kernel_shape", {3, 3}).ints("strides", {2, 2});
  b.output("y", {});
  EXPECT_EQ(kinds(lower(b)), "Conv Pad Pool");
  expect_same_as_unoptimized(b);
}

TEST(Graph, SumOfAWeightedStackBecomesAdditionsOfPictures) {
  OnnxBuilder b = conv_head("c", 3);
  b.integers("last", {1}, {4}).weight("shares", {2}, {0.25F, 0.75F});
  b.node("Sigmoid", {"c"}, {"s"}).node("Unsqueeze", {"c", "last"}, {"c5"}).node("Unsqueeze", {"s", "last"}, {"s5"});
  b.node("Concat", {"c5", "s5"}, {"stack"}).integer("axis", 4).node("Mul", {"stack", "shares"}, {"m"});
  b.node("ReduceSum", {"m", "last"}, {"y"}).integer("keepdims", 0).output("y", {});
  EXPECT_EQ(kinds(lower(b)), "Conv Unary Binary Binary Binary");
  expect_same_as_unoptimized(b);
}

TEST(Graph, LargestOfAStackBecomesMaximaOfItsParts) {
  OnnxBuilder b = conv_head("c", 3);
  b.integers("second", {1}, {1}).node("Sigmoid", {"c"}, {"s"}).node("Tanh", {"c"}, {"t"});
  for (const char* part : {"c", "s", "t"}) b.node("Unsqueeze", {part, "second"}, {std::string(part) + "5"});
  b.node("Concat", {"c5", "s5", "t5"}, {"stack"}).integer("axis", 1);
  b.node("ReduceMax", {"stack"}, {"y"}).ints("axes", {1}).integer("keepdims", 0).output("y", {});
  EXPECT_EQ(kinds(lower(b)), "Conv Unary Unary Binary Binary");
  expect_same_as_unoptimized(b);
}

TEST(Graph, AStackThatIsReadTwiceStays) {
  OnnxBuilder b = conv_head("c", 3);
  b.integers("last", {1}, {4}).node("Sigmoid", {"c"}, {"s"});
  b.node("Unsqueeze", {"c", "last"}, {"c5"}).node("Unsqueeze", {"s", "last"}, {"s5"});
  b.node("Concat", {"c5", "s5"}, {"stack"}).integer("axis", 4);
  b.node("ReduceSum", {"stack", "last"}, {"y"}).integer("keepdims", 0).output("y", {}).output("stack", {});
  EXPECT_EQ(kinds(lower(b)), "Conv Unary Reshape Reshape Concat Reduce Reshape");
  expect_same_as_unoptimized(b);
}

TEST(Graph, ChannelShuffleBecomesOneGather) {
  OnnxBuilder b = conv_head("c", 6);
  b.integers("five", {5}, {1, 2, 3, 8, 8}).integers("four", {4}, {1, 6, 8, 8});
  b.node("Reshape", {"c", "five"}, {"r"}).node("Transpose", {"r"}, {"t"}).ints("perm", {0, 2, 1, 3, 4});
  b.node("Reshape", {"t", "four"}, {"y"}).output("y", {});
  const Graph graph = lower(b);
  EXPECT_EQ(kinds(graph), "Conv Gather");
  EXPECT_THAT(std::get<Gather>(graph.ops[1].operation).indices, ::testing::ElementsAre(0, 3, 1, 4, 2, 5));
  expect_same_as_unoptimized(b);
}

TEST(Graph, EverySecondChannelBecomesOneSlice) {
  OnnxBuilder b = conv_head("c", 6);
  b.integers("pairs", {3}, {3, 2, 64}).integers("back", {5}, {2, -1, 3, 8, 8}).integers("one", {}, {1});
  b.node("Reshape", {"c", "pairs"}, {"r"}).node("Transpose", {"r"}, {"t"}).ints("perm", {1, 0, 2});
  b.node("Reshape", {"t", "back"}, {"u"}).node("Gather", {"u", "one"}, {"y"}).integer("axis", 0).output("y", {});
  const Graph graph = lower(b);
  EXPECT_EQ(kinds(graph), "Conv Slice");
  EXPECT_THAT(std::get<Slice>(graph.ops[1].operation).start, ::testing::ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(std::get<Slice>(graph.ops[1].operation).step, ::testing::ElementsAre(1, 2, 1, 1));
  expect_same_as_unoptimized(b);
}

TEST(Graph, ShapeArithmeticFoldsAway) {
  OnnxBuilder b = conv_head();
  b.integers("zero", {}, {0}).integers("axes", {1}, {0}).integers("rest", {1}, {-1});
  b.node("Shape", {"c"}, {"s"}).node("Gather", {"s", "zero"}, {"n"}).node("Unsqueeze", {"n", "axes"}, {"n1"});
  b.node("Concat", {"n1", "rest"}, {"to"}).integer("axis", 0).node("Reshape", {"c", "to"}, {"y"}).output("y", {});
  const Graph graph = lower(b);
  EXPECT_EQ(kinds(graph), "Conv Reshape");
  EXPECT_EQ(to_string(graph.shape(graph.outputs[0])), "[1,256]");
}

TEST(Graph, NoOperationsVanish) {
  OnnxBuilder b = conv_head();
  b.integers("same", {4}, {0, 0, 0, 0}).node("Reshape", {"c", "same"}, {"r"}).node("Identity", {"r"}, {"i"});
  b.node("Transpose", {"i"}, {"t"})
      .ints("perm", {0, 2, 3, 1})
      .node("Transpose", {"t"}, {"u"})
      .ints("perm", {0, 3, 1, 2});
  b.node("Dropout", {"u"}, {"d"}).node("Relu", {"d"}, {"y"}).output("y", {});
  EXPECT_EQ(kinds(lower(b)), "Conv");
  expect_same_as_unoptimized(b);
}

TEST(Graph, DeadEndsAreNotEvenLookedAt) {
  OnnxBuilder b = conv_head();
  b.node("FlyToTheMoon", {"c"}, {"moon"}).node("Relu", {"c"}, {"y"}).output("y", {});
  EXPECT_EQ(kinds(lower(b)), "Conv");
}

TEST(Graph, UnknownOperatorIsNamedWithItsNode) {
  OnnxBuilder b = conv_head();
  b.node("FlyToTheMoon", {"c"}, {"y"}, "apollo").output("y", {});
  EXPECT_EQ(refusal(b), "test.onnx: FlyToTheMoon (node 'apollo'): camd's own engines do not have this operator");
}

TEST(Graph, WeightsThatThePictureDecidesAreRefused) {
  OnnxBuilder b;
  b.input("x", {1, 3, 8, 8}).node("Relu", {"x"}, {"w"}).node("Conv", {"x", "w"}, {"y"}, "odd").output("y", {});
  EXPECT_THAT(refusal(b), HasSubstr("Conv (node 'odd'): its weight depends on the picture"));
}

TEST(Graph, ShapesThatDoNotFitAreRefused) {
  OnnxBuilder b = conv_head();
  b.weight("k", {1, 5, 1, 1}, noise(5)).node("Mul", {"c", "k"}, {"y"}, "m").output("y", {});
  EXPECT_THAT(refusal(b), HasSubstr("Mul (node 'm'): [1,4,8,8] and [1,5,1,1] do not broadcast"));
  EXPECT_THAT(refusal(conv_head().output("c", {}), {1, 5, 8, 8}), HasSubstr("do not fit its input [1,5,8,8]"));
}

TEST(Graph, HugeResultsAreRefusedBeforeTheyAreMade) {
  OnnxBuilder b = conv_head();
  b.weight("s", {4}, {1, 1, 8192, 8192}).node("Resize", {"c", "", "s"}, {"y"}).output("y", {});
  EXPECT_THAT(refusal(b), HasSubstr("more than 134217728 elements"));
  OnnxBuilder c = conv_head();
  c.integers("n", {3}, {1 << 20, 1 << 20, 1 << 20})
      .node("ConstantOfShape", {"n"}, {"k"})
      .node("Add", {"c", "k"}, {"y"});
  EXPECT_THAT(refusal(c.output("y", {})), HasSubstr("out of bounds"));
}

TEST(Graph, OutputsThatDoNotDependOnThePictureAreServed) {
  OnnxBuilder b = conv_head();
  b.weight("numbers", {2, 2}, {1.5F, -2, 0, 4}).integers("strides", {3}, {8, 16, 32}).weight("one", {}, {7});
  b.node("Identity", {"numbers"}, {"a"}).node("Identity", {"strides"}, {"s"}).node("Identity", {"one"}, {"o"});
  b.output("a", {2, 2}).output("c", {1, 4, 8, 8}).output("s", {3}).output("o", {});
  const auto got = run_reference(lower(b), noise(3 * 8 * 8));
  ASSERT_EQ(got.size(), 4U);
  EXPECT_EQ(got[0].f32, (std::vector<float>{1.5F, -2, 0, 4}));
  EXPECT_EQ(got[2].f32, (std::vector<float>{8, 16, 32}));
  EXPECT_EQ(got[3].f32, (std::vector<float>{7}));
  EXPECT_EQ(got[3].shape, Shape{});
}

TEST(Graph, OutputsMayAllBeIndependentOfThePicture) {
  OnnxBuilder b;
  b.input("x", {1, 3, 8, 8}).weight("numbers", {2}, {3, 4}).node("Identity", {"numbers"}, {"y"}).output("y", {2});
  EXPECT_EQ(run_reference(lower(b), noise(3 * 8 * 8))[0].f32, (std::vector<float>{3, 4}));
}

TEST(Graph, OutputThatIsTheInputGetsAnOpOfItsOwn) {
  OnnxBuilder b = conv_head();
  b.output("c", {}).node("Identity", {"x"}, {"y"}).output("y", {});
  EXPECT_EQ(kinds(lower(b)), "Conv Reshape");
}

TEST(Graph, ExternalWeightsAreReadFromTheModelsFolderOnly) {
  const test::TemporaryFolder folder;
  OnnxBuilder b = conv_head();
  b.output("c", {});
  const std::vector<float> values = noise(108, 77);
  (void)folder.write("weights.bin",
                     "1234" + std::string(reinterpret_cast<const char*>(values.data()), values.size() * 4));
  auto* w = b.proto().mutable_graph()->mutable_initializer(0);
  w->clear_float_data();
  w->set_data_location(onnx::TensorProto::EXTERNAL);
  const auto locate = [&](const std::string& location) {
    w->clear_external_data();
    for (const auto& [key, value] : {std::pair<std::string, std::string>{"location", location}, {"offset", "4"}}) {
      auto* entry = w->add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    return read_onnx_file(folder.write("m.onnx", b.bytes()));
  };
  const Graph graph = lower_model(locate("weights.bin"), input_spec({1, 3, 8, 8}));
  EXPECT_EQ(graph.value(graph.ops[0].inputs[1]).constant->f32, values);
  for (const char* bad : {"../weights.bin", "/etc/passwd", "absent.bin", ""}) {
    const OnnxFile file = locate(bad);
    EXPECT_THROW((void)lower_model(file, input_spec({1, 3, 8, 8})), base::Error) << bad;
  }
}

TEST(Graph, BitFlippedModelsAreRefusedOrLoweredButNeverHarm) {
  OnnxBuilder b = conv_head();
  b.integers("four", {4}, {1, -1, 4, 16}).node("Reshape", {"c", "four"}, {"r"});
  b.node("MaxPool", {"r"}, {"p"}).ints("kernel_shape", {2, 2}).ints("strides", {2, 2});
  b.node("Softmax", {"p"}, {"s"}).integer("axis", 1).node("Transpose", {"s"}, {"y"}).ints("perm", {0, 2, 3, 1});
  const std::string bytes = b.output("y", {}).bytes();
  std::mt19937 random(11);
  for (int round = 0; round < 5000; ++round) {
    std::string broken = bytes;
    for (int flips = 0; flips < 1 + round % 3; ++flips)
      broken[random() % broken.size()] ^= static_cast<char>(1U << (random() % 8));
    try {
      (void)lower_model(parse_onnx(broken, "m"), input_spec({1, 3, 8, 8}));
    } catch (const base::Error&) {
    }
  }
}

TEST(Graph, HalfNumbersConvertBothWays) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = half_to_float(half);
    if (std::isnan(value)) continue;
    ASSERT_EQ(float_to_half(value), half) << bits;
  }
  EXPECT_EQ(float_to_half(65520.0F), 0x7C00);            // rounds to infinity
  EXPECT_EQ(float_to_half(1.0F + 1.0F / 2048), 0x3C00);  // halves to even
  EXPECT_EQ(float_to_half(1.0F + 3.0F / 2048), 0x3C02);
}

// Real models: graph and reference against OpenCV, and what the passes leave.
class RealModel : public ::testing::TestWithParam<test::SharedModel> {};

TEST_P(RealModel, GraphAgreesWithOpenCv) {
  const auto& shared = GetParam();
  const std::string path = camd::test::shared_dir() + "/models/" + shared.file;
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here";
  const auto device = device::make_host_device(base::system_clock());
  EngineOptions options;
  options.kind = EngineKind::kOpenCv;
  options.input.width = shared.width;
  options.input.height = shared.height;
  const auto engine = make_engine(path, options, *device);
  const auto execution = engine->make_execution();
  const auto stream = device->make_stream("compute");
  auto* input = static_cast<float*>(execution->input().data);
  std::vector<float> x = noise(element_count(engine->input().shape));
  for (float& v : x) v = 128.0F + 100.0F * v;
  std::copy(x.begin(), x.end(), input);
  ASSERT_TRUE(execution->enqueue_network(stream));
  ASSERT_TRUE(device->synchronize(stream));
  const Graph graph = lower_model(read_onnx_file(path), engine->input());
  const auto outputs = run_reference(graph, x);
  ASSERT_EQ(outputs.size(), engine->outputs().size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_EQ(outputs[i].shape, engine->outputs()[i].shape);
    const auto* opencv = static_cast<const float*>(execution->output(i).data);
    float largest = 0, worst = 0;
    for (std::size_t k = 0; k < outputs[i].f32.size(); ++k) {
      largest = std::max(largest, std::abs(outputs[i].f32[k]));
      worst = std::max(worst, std::abs(outputs[i].f32[k] - opencv[k]));
    }
    EXPECT_LE(worst, 1e-4F * largest) << shared.file << " " << engine->outputs()[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(Shared, RealModel, ::testing::ValuesIn(test::shared_models()), [](const auto& parameter) {
  std::string name = parameter.param.file;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
