// Operators that are several others in one: each against a graph of those others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "infer/graph/reference.hpp"
#include "lowered.hpp"
#include "onnx_builder.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::lower;
using test::OnnxBuilder;
using test::refusal;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using Floats = std::vector<float>;

constexpr const char* kRuntime = "com.microsoft";
const Shape kIn{1, 3, 2, 4};

// x is spread around 0, as t [1,6,4].
OnnxBuilder rows(int opset = 17) {
  OnnxBuilder b;
  b.opset(opset).input("x", kIn).integers("to", {3}, {1, 6, 4}).node("Reshape", {"x", "to"}, {"t"});
  return b;
}

Floats result(const OnnxBuilder& builder, std::size_t output = 0) {
  Floats picture(24);
  for (std::size_t i = 0; i < picture.size(); ++i) picture[i] = static_cast<float>(i * 7 % 24) / 6 - 2;
  return run_reference(lower(builder, kIn), picture).at(output).f32;
}

Floats steps(std::size_t count) {
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i * 5 % 11) / 8 - 0.6F;
  return values;
}

MATCHER(Close, "") { return std::abs(std::get<0>(arg) - std::get<1>(arg)) <= 1e-5F; }

TEST(Fused, ConvolutionAddsWhatItIsGivenBeforeItsActivation) {
  const auto weights = [](OnnxBuilder& b) {
    b.input("x", kIn).weight("w", {3, 3, 1, 1}, steps(9)).weight("b", {3}, {0.1F, -0.2F, 0.3F});
  };
  OnnxBuilder fused, plain;
  weights(fused);
  fused.node("FusedConv", {"x", "w", "b", "x"}, {"y"}).domain(kRuntime).text("activation", "Relu").output("y", {});
  weights(plain);
  plain.node("Conv", {"x", "w", "b"}, {"c"}).node("Add", {"c", "x"}, {"s"}).node("Relu", {"s"}, {"y"}).output("y", {});
  EXPECT_EQ(result(fused), result(plain));
}

TEST(Fused, AnActivationThatNobodyKnowsIsRefused) {
  OnnxBuilder b;
  b.input("x", kIn).weight("w", {3, 3, 1, 1}, steps(9));
  b.node("FusedConv", {"x", "w"}, {"y"}).domain(kRuntime).text("activation", "Sine").output("y", {});
  EXPECT_THAT(refusal(b, kIn), EndsWith("its activation 'Sine' is not supported"));
}

TEST(Fused, ProductTurnsAndScalesItsOperands) {
  OnnxBuilder fused = rows(), plain = rows();
  fused.node("FusedMatMul", {"t", "t"}, {"y"}).domain(kRuntime).integer("transA", 1).number("alpha", 0.5F);
  plain.node("Transpose", {"t"}, {"a"}).ints("perm", {0, 2, 1}).node("MatMul", {"a", "t"}, {"p"});
  plain.weight("half", {}, {0.5F}).node("Mul", {"p", "half"}, {"y"});
  EXPECT_EQ(result(fused.output("y", {})), result(plain.output("y", {})));
}

TEST(Fused, SkipLayerNormalizationPutsOutItsSumAsWell) {
  OnnxBuilder fused = rows(), plain = rows();
  for (OnnxBuilder* b : {&fused, &plain}) {
    b->weight("skip", {1, 6, 4}, steps(24)).weight("gain", {4}, steps(4)).weight("shift", {4}, steps(4));
    b->weight("bias", {4}, {1, 2, 3, 4});
  }
  fused.node("SkipLayerNormalization", {"t", "skip", "gain", "shift", "bias"}, {"y", "", "", "sum"}).domain(kRuntime);
  plain.node("Add", {"t", "skip"}, {"s"}).node("Add", {"s", "bias"}, {"sum"});
  plain.node("LayerNormalization", {"sum", "gain", "shift"}, {"y"});
  for (OnnxBuilder* b : {&fused, &plain}) b->output("y", {}).output("sum", {});
  for (const std::size_t output : {0U, 1U}) EXPECT_EQ(result(fused, output), result(plain, output));
}

// In steps of 1/8, with a bias in steps of both scales, and the result in steps of 1/4.
TEST(Fused, QuantizedGemmIsThatOfItsNumbers) {
  OnnxBuilder fused, plain;
  for (OnnxBuilder* b : {&fused, &plain}) {
    b->input("x", kIn).integers("to", {2}, {6, 4}).node("Reshape", {"x", "to"}, {"t"});
    b->weight("eighth", {}, {0.125F}).weight("quarter", {}, {0.25F}).weight("step", {}, {0.015625F});
    b->integers("zero", {}, {100}, onnx::TensorProto::UINT8).integers("none", {}, {0}, onnx::TensorProto::INT8);
    b->integers("w", {4, 2}, {1, -2, 3, 4, -5, 6, 7, -8}, onnx::TensorProto::INT8);
    b->integers("c", {2}, {64, -640}, onnx::TensorProto::INT32).node("QuantizeLinear", {"t", "eighth", "zero"}, {"q"});
  }
  fused.node("QGemm", {"q", "eighth", "zero", "w", "eighth", "none", "c", "quarter", "zero"}, {"r"}).domain(kRuntime);
  plain.node("DequantizeLinear", {"q", "eighth", "zero"}, {"a"}).node("DequantizeLinear", {"w", "eighth"}, {"b"});
  plain.node("DequantizeLinear", {"c", "step"}, {"d"}).node("Gemm", {"a", "b", "d"}, {"g"});
  plain.node("QuantizeLinear", {"g", "quarter", "zero"}, {"r"});
  for (OnnxBuilder* b : {&fused, &plain}) b->node("DequantizeLinear", {"r", "quarter", "zero"}, {"y"}).output("y", {});
  EXPECT_EQ(result(fused), result(plain));
}

// "" names an input that is left out, and an output that is not wanted: they are not the same.
TEST(Fused, AnOutputWithoutANameIsNotReadByAnInputThatIsLeftOut) {
  OnnxBuilder b = rows();
  b.weight("gain", {4}, {1, 1, 1, 1}).node("SkipLayerNormalization", {"t", "t", "gain", ""}, {"s", "", ""});
  b.domain(kRuntime).node("Clip", {"s", "", ""}, {"y"}).output("y", {});
  EXPECT_EQ(result(b).size(), 24U);
}

// What makes steps of eight bits of the picture, with channels in front or behind, puts it through `node` and hands on
// the channels in front.
OnnxBuilder in_steps(bool last, const std::function<void(OnnxBuilder&, const std::string&)>& node) {
  OnnxBuilder b;
  b.opset(17).input("x", kIn).weight("s", {}, {0.05F}).integers("z", {}, {128}, onnx::TensorProto::UINT8);
  b.node("QuantizeLinear", {"x", "s", "z"}, {"q"});
  if (last) b.node("Transpose", {"q"}, {"turned"}).ints("perm", {0, 2, 3, 1});
  node(b, last ? "turned" : "q");
  b.node("DequantizeLinear", {"r", "s", "z"}, {last ? "behind" : "y"});
  if (last) b.node("Transpose", {"behind"}, {"y"}).ints("perm", {0, 3, 1, 2});
  return b.output("y", {});
}

TEST(Fused, BytesWhoseChannelsComeLastAreThoseWhoseChannelsComeFirst) {
  const auto convolution = [](bool last) {
    return in_steps(last, [&](OnnxBuilder& b, const std::string& from) {
      b.integers("w", {3, 3, 1, 2}, {9, -8, 7, -6, 5, -4, 3, -2, 1, 2, -3, 4, -5, 6, -7, 8, -9, 10},
                 onnx::TensorProto::INT8);
      b.integers("wz", {}, {0}, onnx::TensorProto::INT8).weight("ws", {}, {0.1F});
      b.node("QLinearConv", {from, "s", "z", "w", "ws", "wz", "s", "z"}, {"r"}).ints("strides", {1, 2});
      if (last) b.domain(kRuntime).integer("channels_last", 1);
    });
  };
  EXPECT_EQ(result(convolution(true)), result(convolution(false)));
  const auto pool = [](bool last) {
    return in_steps(last, [&](OnnxBuilder& b, const std::string& from) {
      b.node(last ? "NhwcMaxPool" : "MaxPool", {from}, {"r"}).ints("kernel_shape", {2, 3});
      if (last) b.domain(kRuntime);
    });
  };
  EXPECT_EQ(result(pool(true)), result(pool(false)));
  const auto mean = [](bool last) {
    return in_steps(last, [&](OnnxBuilder& b, const std::string& from) {
      b.node("QLinearGlobalAveragePool", {from, "s", "z", "s", "z"}, {"r"}).domain(kRuntime);
      b.integer("channels_last", last ? 1 : 0);
    });
  };
  EXPECT_EQ(result(mean(true)), result(mean(false)));
  const auto enlarged = [](bool last) {
    return in_steps(last, [&](OnnxBuilder& b, const std::string& from) {
      b.weight("scales", {4}, last ? Floats{1, 2, 3, 1} : Floats{1, 1, 2, 3});
      b.node("Resize", {from, "", "scales"}, {"r"}).text("mode", "linear");
    });
  };
  EXPECT_EQ(result(enlarged(true)), result(enlarged(false)));
}

TEST(Fused, CurvesOfRuntimesAreThoseOfTheStandard) {
  OnnxBuilder quick = rows(), gate = rows(), biased = rows(20), gelu = rows(20);
  quick.node("QuickGelu", {"t"}, {"y"}).domain(kRuntime).number("alpha", 1.0F);
  gate.node("Sigmoid", {"t"}, {"s"}).node("Mul", {"t", "s"}, {"y"});
  EXPECT_THAT(result(quick.output("y", {})), Pointwise(Close(), result(gate.output("y", {}))));
  for (OnnxBuilder* b : {&biased, &gelu}) b->weight("bias", {4}, {1, 2, -1, 0});
  biased.node("FastGelu", {"t", "bias"}, {"y"}).domain(kRuntime);
  gelu.node("Add", {"t", "bias"}, {"s"}).node("Gelu", {"s"}, {"y"}).text("approximate", "tanh");
  EXPECT_EQ(result(biased.output("y", {})), result(gelu.output("y", {})));
}

TEST(Fused, RmsNormalizationDividesByTheRootOfTheMeanOfSquares) {
  OnnxBuilder fused = rows(23), plain = rows(17);
  for (OnnxBuilder* b : {&fused, &plain}) b->weight("gain", {4}, steps(4));
  fused.node("RMSNormalization", {"t", "gain"}, {"y"}).number("epsilon", 0.25F);
  plain.node("Mul", {"t", "t"}, {"q"}).node("ReduceMean", {"q"}, {"m"}).ints("axes", {-1});
  plain.weight("e", {}, {0.25F}).node("Add", {"m", "e"}, {"v"}).node("Sqrt", {"v"}, {"d"});
  plain.node("Div", {"t", "d"}, {"n"}).node("Mul", {"n", "gain"}, {"y"});
  EXPECT_THAT(result(fused.output("y", {})), Pointwise(Close(), result(plain.output("y", {}))));
}

// Attention of t [1,6,4] with itself, by two heads of two numbers each, as its parts; `mask` is added to the scores.
OnnxBuilder by_parts(const std::string& mask) {
  OnnxBuilder b = rows();
  b.integers("heads", {4}, {1, 6, 2, 2}).node("Reshape", {"t", "heads"}, {"h"});
  b.node("Transpose", {"h"}, {"q"})
      .ints("perm", {0, 2, 1, 3})
      .node("Transpose", {"h"}, {"k"})
      .ints("perm", {0, 2, 3, 1});
  b.weight("scale", {}, {0.70710678F}).node("MatMul", {"q", "k"}, {"s"}).node("Mul", {"s", "scale"}, {"scaled"});
  std::string scores = "scaled";
  if (!mask.empty()) {
    b.weight("mask", {1, 6}, {0, -1e30F, 0, 0, 0, 0}).node("Add", {"scaled", "mask"}, {"masked"});
    scores = "masked";
  }
  b.node("Softmax", {scores}, {"p"}).integer("axis", 3).node("MatMul", {"p", "q"}, {"o"});
  b.node("Transpose", {"o"}, {"a"}).ints("perm", {0, 2, 1, 3}).node("Reshape", {"a", "to"}, {"y"}).output("y", {});
  return b;
}

TEST(Attention, OfTheStandardIsItsParts) {
  OnnxBuilder b = rows(23);
  b.node("Attention", {"t", "t", "t"}, {"y"}).integer("q_num_heads", 2).integer("kv_num_heads", 2).output("y", {});
  EXPECT_THAT(result(b), Pointwise(Close(), result(by_parts(""))));
}

TEST(Attention, TakesAMaskOfTruths) {
  OnnxBuilder b = rows(23);
  b.integers("mask", {6, 6}, std::vector<std::int64_t>(36, 1), onnx::TensorProto::BOOL);
  auto* mask = b.proto().mutable_graph()->mutable_initializer(1);
  for (int row = 0; row < 6; ++row) mask->set_int32_data(row * 6 + 1, 0);
  b.node("Attention", {"t", "t", "t", "mask"}, {"y"}).integer("q_num_heads", 2).integer("kv_num_heads", 2);
  EXPECT_THAT(result(b.output("y", {})), Pointwise(Close(), result(by_parts("mask"))));
}

TEST(Attention, OfRuntimesIsTheSame) {
  OnnxBuilder several = rows(), packed = rows();
  several.node("MultiHeadAttention", {"t", "t", "t"}, {"y"}).domain(kRuntime).integer("num_heads", 2);
  Floats thrice(48, 0.0F);  // three unit matrices side by side
  for (std::size_t row = 0; row < 4; ++row) {
    for (std::size_t part = 0; part < 3; ++part) thrice[row * 12 + part * 4 + row] = 1;
  }
  packed.weight("w", {4, 12}, thrice).node("Attention", {"t", "w"}, {"y"}).domain(kRuntime).integer("num_heads", 2);
  for (OnnxBuilder* b : {&several, &packed}) {
    EXPECT_THAT(result(b->output("y", {})), Pointwise(Close(), result(by_parts(""))));
  }
}

TEST(Attention, ThatLooksBackIsRefused) {
  OnnxBuilder b = rows(23);
  b.node("Attention", {"t", "t", "t"}, {"y"}, "a").integer("q_num_heads", 2).integer("kv_num_heads", 2);
  b.integer("is_causal", 1).output("y", {});
  EXPECT_THAT(refusal(b, kIn), EndsWith("Attention (node 'a'): a causal mask is not supported"));
}

TEST(Fused, CastLikeTakesTheTypeOfItsSecondInput) {
  OnnxBuilder b = rows(20), plain = rows(20);
  b.integers("whole", {}, {7}).node("CastLike", {"t", "whole"}, {"w"}).node("CastLike", {"w", "t"}, {"y"});
  plain.node("Cast", {"t"}, {"w"}).integer("to", 7).node("Cast", {"w"}, {"y"}).integer("to", 1);
  EXPECT_EQ(result(b.output("y", {})), result(plain.output("y", {})));
}

// As PyTorch's exporter writes chunk() and stack() where its optimiser does not run.
TEST(Sequences, AreTakenApartWhereTheirLengthsAreKnown) {
  OnnxBuilder b = rows(20), plain = rows(20);
  b.integers("four", {}, {4}).integers("last", {}, {-1}).integers("first", {}, {0});
  b.node("SplitToSequence", {"t", "four"}, {"s"}).integer("axis", 1).node("SequenceAt", {"s", "last"}, {"two"});
  b.node("SequenceConstruct", {"two", "two"}, {"both"});
  b.node("ConcatFromSequence", {"both"}, {"y"}).integer("axis", 1).integer("new_axis", 1).output("y", {});
  plain.integers("from", {1}, {4}).integers("until", {1}, {6}).integers("axis", {1}, {1});
  plain.node("Slice", {"t", "from", "until", "axis"}, {"two"}).node("Unsqueeze", {"two", "axis"}, {"u"});
  plain.node("Concat", {"u", "u"}, {"y"}).integer("axis", 1).output("y", {});
  EXPECT_EQ(result(b), result(plain));
  EXPECT_EQ(lower(b, kIn).shape(lower(b, kIn).outputs[0]), (Shape{1, 2, 2, 4}));
}

// As OWL-ViT compares what it sees with what it is asked for. t is [1,6,4], w [2,1,5,4].
TEST(Einsum, DotsStandForDimensionsThatAreAlignedAtTheirEnds) {
  OnnxBuilder b = rows(), plain = rows();
  b.weight("w", {2, 1, 5, 4}, steps(40)).node("Einsum", {"t", "w"}, {"y"}).text("equation", "...pd,...qd->...pq");
  plain.weight("w", {2, 1, 5, 4}, steps(40)).node("Transpose", {"w"}, {"v"}).ints("perm", {0, 1, 3, 2});
  plain.node("MatMul", {"t", "v"}, {"y"});
  EXPECT_THAT(result(b.output("y", {})), Pointwise(Close(), result(plain.output("y", {}))));
  EXPECT_EQ(lower(b, kIn).shape(lower(b, kIn).outputs[0]), (Shape{2, 1, 6, 5}));
  OnnxBuilder sum = rows(), reduced = rows();
  sum.node("Einsum", {"t"}, {"y"}).text("equation", "...d->...").output("y", {});
  reduced.integers("last", {1}, {-1}).node("ReduceSum", {"t", "last"}, {"y"}).integer("keepdims", 0).output("y", {});
  EXPECT_THAT(result(sum), Pointwise(Close(), result(reduced)));
}

TEST(Einsum, WithDotsForMoreDimensionsThanThereAreIsRefused) {
  OnnxBuilder b = rows();
  b.node("Einsum", {"t"}, {"y"}).text("equation", "...abcd->...a").output("y", {});
  EXPECT_THAT(refusal(b, kIn), EndsWith("its equation does not fit its inputs"));
}

TEST(Foreign, FilesForOneProcessorSayWhatToTakeInstead) {
  OnnxBuilder b;
  b.input("x", kIn).node("Conv", {"x"}, {"y"}).domain("com.microsoft.nchwc").output("y", {});
  EXPECT_THAT(refusal(b, kIn), HasSubstr("ONNX Runtime made this file for one machine's processor; take the model that "
                                         "it was made from"));
}

TEST(OneHot, OfADepthThatIsNoCountIsRefused) {
  for (const float depth : {1.8e20F, -1.0F, 0.5F, std::nanf(""), std::numeric_limits<float>::infinity()}) {
    OnnxBuilder b;
    b.input("x", kIn).weight("depth", {1}, {depth}).weight("values", {2}, {0, 1}).integers("i", {2}, {0, 1});
    b.node("OneHot", {"i", "depth", "values"}, {"y"}).output("y", {});
    EXPECT_THAT(refusal(b, kIn), HasSubstr("its depth is out of range")) << depth;
  }
}

TEST(Sequences, OfMorePartsThanAnybodyNeedsAreRefused) {
  const Shape large{1, 3, 64, 64};
  for (const bool sized : {false, true}) {
    OnnxBuilder b;
    b.input("x", large).integers("to", {1}, {-1}).node("Reshape", {"x", "to"}, {"t"});
    b.integers("each", {}, {2}).integers("first", {}, {0});
    b.node("SplitToSequence", sized ? std::vector<std::string>{"t", "each"} : std::vector<std::string>{"t"}, {"s"},
           "s");
    b.node("SequenceAt", {"s", "first"}, {"y"}).output("y", {});
    EXPECT_THAT(refusal(b, large), HasSubstr("it makes more than 4096 parts"));
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
