// What exporters write and ONNX's own cases do not show: inputs of other forms, indices, branches, 8-bit networks, and
// models that would take all time or memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "base/error.hpp"
#include "infer/graph/lower_model.hpp"
#include "infer/graph/reference.hpp"
#include "infer/onnx/input.hpp"
#include "lowered.hpp"
#include "onnx_builder.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::count_up;
using test::lower;
using test::OnnxBuilder;
using test::refusal;
using test::result_of_counts;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Floats = std::vector<float>;

TensorSpec resolved(const OnnxBuilder& builder, InputOptions options) {
  return resolve_input(describe_model(builder.file()), options);
}

InputOptions pixels() {
  InputOptions options;
  options.scale = {1, 1, 1};
  return options;
}

TEST(Inputs, ChannelsLastAreTurnedRoundInTheGraph) {
  OnnxBuilder b;
  b.input("x", {1, 2, 4, 3}, onnx::TensorProto::UINT8);
  b.node("Cast", {"x"}, {"f"}).integer("to", onnx::TensorProto::FLOAT);
  b.node("Transpose", {"f"}, {"y"}).ints("perm", {0, 3, 1, 2}).output("y", {});
  const TensorSpec input = resolved(b, pixels());
  EXPECT_EQ(input.shape, (Shape{1, 3, 2, 4}));
  EXPECT_EQ(input.type, DataType::kF32);
  const Graph graph = lower_model(b.file(), input);
  EXPECT_EQ(graph.ops.size(), 1U) << "the model's own transposition meets ours and both vanish";
  EXPECT_EQ(run_reference(graph, count_up(24))[0].f32, count_up(24));
}

TEST(Inputs, BytesNeedPixelsThatWereNotScaled) {
  OnnxBuilder b;
  b.input("x", {1, 3, 4, 4}, onnx::TensorProto::UINT8);
  b.node("Cast", {"x"}, {"y"}).integer("to", onnx::TensorProto::FLOAT);
  b.output("y", {});
  try {
    (void)resolved(b, {});
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("set model.input.scale to 1"));
  }
  EXPECT_EQ(resolved(b, pixels()).type, DataType::kF32);
  InputOptions unwritten;
  unwritten.scale_by_type = true;
  EXPECT_EQ(resolve_input(describe_model(b.file()), unwritten).type, DataType::kF32);
  EXPECT_EQ(unwritten.scale, pixels().scale);
}

// As converters from TensorFlow Lite and tools for chips have them.
TEST(Inputs, WholeNumbersAreBytesAndThoseOfEightBitsWithASignBeginAtMinus128) {
  using T = onnx::TensorProto;
  for (const auto type : {T::INT32, T::INT64, T::UINT16, T::INT8}) {
    OnnxBuilder b;
    b.input("x", {1, 3, 1, 2}, type).node("Cast", {"x"}, {"f"}).integer("to", T::FLOAT);
    b.weight("half", {}, {0.5F}).node("Mul", {"f", "half"}, {"y"}).output("y", {});
    InputOptions unwritten;
    unwritten.scale_by_type = true;
    EXPECT_EQ(resolve_input(describe_model(b.file()), unwritten).type, DataType::kF32);
    EXPECT_EQ(unwritten.scale, pixels().scale);
    const float least = type == T::INT8 ? 128.0F : 0.0F;
    EXPECT_EQ(unwritten.mean, (std::array<float, 3>{least, least, least}));
    EXPECT_THAT(result_of_counts(b, {1, 3, 1, 2}), ElementsAre(0, 0.5F, 1, 1.5F, 2, 2.5F));
  }
  OnnxBuilder b;
  b.input("x", {1, 3, 4, 4}, T::INT8).node("Cast", {"x"}, {"y"}).integer("to", T::FLOAT).output("y", {});
  EXPECT_THAT([&] { (void)resolved(b, pixels()); },
              ThrowsMessage<base::Error>(
                  EndsWith("it takes pixels of -128 to 127: set model.input.scale to 1 and mean to 128")));
}

TEST(Inputs, NumbersOfOtherSizesAreFedInF32) {
  for (const auto type : {onnx::TensorProto::DOUBLE, onnx::TensorProto::BFLOAT16}) {
    OnnxBuilder b;
    b.input("x", {1, 3, 1, 2}, type).node("Relu", {"x"}, {"y"}).output("y", {}, type);
    EXPECT_EQ(resolved(b, {}).type, DataType::kF32);
    EXPECT_THAT(result_of_counts(b, {1, 3, 1, 2}), ElementsAre(0, 1, 2, 3, 4, 5));
  }
}

TEST(Inputs, HalfPrecisionModelsAreFedAndComputedInF32) {
  OnnxBuilder b;
  b.input("x", {1, 3, 1, 2}, onnx::TensorProto::FLOAT16);
  b.weight("half", {}, {0.5F}).node("Mul", {"x", "half"}, {"y"}).output("y", {}, onnx::TensorProto::FLOAT16);
  auto* weight = b.proto().mutable_graph()->mutable_initializer(0);
  weight->clear_float_data();
  weight->set_data_type(onnx::TensorProto::FLOAT16);
  weight->set_raw_data(std::string("\x00\x38", 2));
  EXPECT_EQ(resolved(b, {}).type, DataType::kF32);
  EXPECT_THAT(result_of_counts(b, {1, 3, 1, 2}), ElementsAre(0, 0.5F, 1, 1.5F, 2, 2.5F));
}

// As OWL-ViT, Grounding DINO and OmDet are exported.
TEST(Inputs, TextsAreRefusedWithWhatToExportInstead) {
  OnnxBuilder b;
  b.input("input_ids", {2, 16}, onnx::TensorProto::INT64).input("x", {1, 3, 4, 4});
  b.node("Cast", {"input_ids"}, {"t"}).integer("to", onnx::TensorProto::FLOAT).node("Relu", {"x"}, {"y"});
  b.output("y", {}).output("t", {});
  EXPECT_THAT(
      [&] { (void)resolved(b, pixels()); },
      ThrowsMessage<base::Error>(EndsWith(
          ": its input 'input_ids' is a text's, and camd knows no texts: export it for a fixed list of classes, so "
          "that the graph holds what was made of their names (as Ultralytics exports YOLO-World and YOLOE)")));
}

TEST(Inputs, MoreThanMemoryShouldHoldAreRefused) {
  OnnxBuilder b;
  b.input("x", {1, 3, -1, -1}).node("Relu", {"x"}, {"y"}).output("y", {});
  InputOptions options;
  options.width = options.height = 16384;
  EXPECT_THROW((void)resolved(b, options), base::Error);
}

// Engines take one picture at a time; the CUDA engine read the second as if it were not there.
TEST(Batches, InsideANetworkBecomeAnOperatorForEachPicture) {
  OnnxBuilder b;
  b.input("x", {1, 2, 1, 3}).integers("two", {4}, {2, 1, 1, 3}).weight("w", {1, 1, 1, 1}, {2});
  b.node("Reshape", {"x", "two"}, {"r"}).node("Conv", {"r", "w"}, {"c"});
  b.node("MaxPool", {"c"}, {"y"}).ints("kernel_shape", {1, 2}).output("y", {});
  const Graph graph = lower(b, {1, 2, 1, 3});
  for (const Op& op : graph.ops) {
    const bool on_picture = std::holds_alternative<Conv>(op.operation) || std::holds_alternative<Pool>(op.operation);
    EXPECT_TRUE(!on_picture || graph.shape(op.output)[0] == 1) << op.origin;
  }
  EXPECT_EQ(graph.shape(graph.outputs[0]), (Shape{2, 1, 1, 2}));
  EXPECT_THAT(result_of_counts(b, {1, 2, 1, 3}), ElementsAre(2, 4, 8, 10));
}

TEST(Indexing, ElementsAndTuplesOfIndicesBecomePickedRows) {
  OnnxBuilder elements;
  elements.input("x", {1, 2, 3}).integers("i", {1, 2, 2}, {2, -3, 1, 1});
  elements.node("GatherElements", {"x", "i"}, {"y"}).integer("axis", 2).output("y", {});
  EXPECT_THAT(result_of_counts(elements, {1, 2, 3}), ElementsAre(2, 0, 4, 4));

  OnnxBuilder tuples;
  tuples.input("x", {2, 2, 2}).integers("i", {2, 2}, {0, 1, -1, 0});
  tuples.node("GatherND", {"x", "i"}, {"y"}).output("y", {});
  EXPECT_THAT(result_of_counts(tuples, {2, 2, 2}), ElementsAre(2, 3, 4, 5));

  OnnxBuilder batched;
  batched.input("x", {2, 2, 2}).integers("i", {2, 1}, {1, 0});
  batched.node("GatherND", {"x", "i"}, {"y"}).integer("batch_dims", 1).output("y", {});
  EXPECT_THAT(result_of_counts(batched, {2, 2, 2}), ElementsAre(2, 3, 4, 5));
}

// y[..., 0:2] = 2 * x[..., 0:2]: how older exporters write YOLO's decoding.
TEST(Indexing, WritingIntoASliceTakesTheRestFromWhatWasThere) {
  OnnxBuilder b;
  b.input("x", {1, 2, 3}).weight("two", {}, {2}).integers("first", {1}, {0}).integers("end", {1}, {2});
  b.integers("last", {1}, {2}).integers("i", {1, 2, 2, 3}, {0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 1});
  b.node("Slice", {"x", "first", "end", "last"}, {"xy"}).node("Mul", {"xy", "two"}, {"new"});
  b.node("ScatterND", {"x", "i", "new"}, {"y"}).output("y", {});
  EXPECT_THAT(result_of_counts(b, {1, 2, 3}), ElementsAre(0, 2, 2, 6, 8, 5));
}

// Sums of the picture's planes, all 1, times what camd tells of its size.
Floats told(const std::string& name, const Shape& shape, int type, const Shape& picture) {
  OnnxBuilder b;
  b.input("x", {1, 3, -1, -1}).input(name, shape, type).node("Cast", {name}, {"size"}).integer("to", 1);
  b.weight("zero", {}, {0})
      .node("ReduceSum", {"x"}, {"sum"})
      .integer("keepdims", 0)
      .node("Mul", {"sum", "zero"}, {"none"});
  b.node("Add", {"none", "size"}, {"y"}).output("y", {});
  return result_of_counts(b, picture);
}

TEST(SizeInputs, AreFilledWithTheNetworksSizeAsTheirNamesSay) {
  EXPECT_THAT(told("orig_target_sizes", {-1, 2}, onnx::TensorProto::INT64, {1, 3, 2, 4}), ElementsAre(4, 2));
  EXPECT_THAT(told("im_shape", {1, 2}, onnx::TensorProto::FLOAT, {1, 3, 2, 4}), ElementsAre(2, 4));
  EXPECT_THAT(told("image_shape", {2}, onnx::TensorProto::INT32, {1, 3, 2, 4}), ElementsAre(2, 4));
  EXPECT_THAT(told("scale_factor", {1, 2}, onnx::TensorProto::FLOAT, {1, 3, 2, 4}), ElementsAre(1, 1));
}

// As DETR and its kind are exported from Hugging Face's transformers.
TEST(SizeInputs, AMaskOfThePictureIsFilledWithOnes) {
  const std::vector<float> ones(6, 1);
  EXPECT_EQ(told("pixel_mask", {1, 2, 3}, onnx::TensorProto::INT64, {1, 3, 8, 4}), ones);
  EXPECT_EQ(told("pixel_mask", {-1, -1, -1}, onnx::TensorProto::INT64, {1, 3, 2, 3}), ones);
}

TEST(SizeInputs, AreNotTakenForThePicture) {
  OnnxBuilder b;
  b.input("orig_target_sizes", {1, 2}, onnx::TensorProto::INT64).input("x", {1, 3, 2, 4});
  b.node("Relu", {"x"}, {"y"}).output("y", {});
  const ModelDescription model = describe_model(b.file());
  ASSERT_EQ(model.inputs.size(), 1U);
  EXPECT_EQ(model.inputs[0].name, "x");
  EXPECT_EQ(model.size_inputs[0].name, "orig_target_sizes");
}

TEST(SizeInputs, OfOtherFormsAreRefusedAsSecondInputs) {
  OnnxBuilder b;
  b.input("x", {1, 3, 2, 4}).input("im_shape", {1, 3}).node("Relu", {"x"}, {"y"}).output("y", {});
  EXPECT_THAT([&] { static_cast<void>(resolved(b, {})); },
              ThrowsMessage<base::Error>(HasSubstr("2 inputs ('x', 'im_shape'), camd feeds exactly one picture")));
}

// Ultralytics slices the columns behind the classes, of which a detector without masks or keypoints has none.
TEST(Indexing, ASliceOfNothingIsLeftOutOfAConcatenation) {
  OnnxBuilder b;
  b.input("x", {1, 2, 3}).integers("three", {1}, {3}).integers("last", {1}, {2}).integers("two", {1}, {2});
  b.node("Slice", {"x", "three", "three", "last"}, {"extra"}).node("Slice", {"x", "two", "three", "last"}, {"column"});
  b.node("Concat", {"column", "extra"}, {"y"}).integer("axis", 2).output("y", {});
  EXPECT_THAT(result_of_counts(b, {1, 2, 3}), ElementsAre(2, 5));
}

TEST(Indexing, ASliceOfNothingIsNoOutput) {
  OnnxBuilder b;
  b.input("x", {1, 2, 3}).integers("three", {1}, {3}).integers("last", {1}, {2});
  b.node("Slice", {"x", "three", "three", "last"}, {"y"}).output("y", {});
  EXPECT_THAT(refusal(b, {1, 2, 3}), HasSubstr("output 'y' has no elements"));
}

TEST(Indexing, AConditionThatIsKnownChoosesElementByElement) {
  OnnxBuilder b;
  b.input("x", {2, 2}).integers("c", {2, 1}, {1, 0}).weight("low", {1}, {-INFINITY});
  b.node("Where", {"c", "x", "low"}, {"y"}).output("y", {});
  EXPECT_THAT(result_of_counts(b, {2, 2}), ElementsAre(0, 1, -INFINITY, -INFINITY));
}

TEST(Indexing, IndicesOutsideAreRefusedByNode) {
  OnnxBuilder b;
  b.input("x", {1, 2, 3}).integers("i", {1, 1}, {7}).node("GatherND", {"x", "i"}, {"y"}, "pick").output("y", {});
  EXPECT_THAT(refusal(b, {1, 2, 3}), HasSubstr("GatherND (node 'pick'): its index 7 is outside 1"));
}

// As tf2onnx writes TensorFlow's combined choice among the boxes of all classes.
TEST(Indexing, AMatrixOfOnesOnADiagonalIsOfNumbersOrOfWholeOnes) {
  for (const int type : {0, 1, 7}) {
    OnnxBuilder b;
    b.input("x", {2, 3}).node("EyeLike", {"x"}, {"eye"}, "eye").integer("k", 1);
    if (type != 0) b.integer("dtype", type);
    b.weight("half", {}, {2.5F}).integers("two", {}, {2}).node("Mul", {"eye", type == 7 ? "two" : "half"}, {"m"});
    b.node("Cast", {"m"}, {"n"}).integer("to", 1).node("Mul", {"x", "n"}, {"y"}).output("y", {});
    const float by = type == 7 ? 2.0F : 2.5F;
    EXPECT_THAT(result_of_counts(b, {2, 3}), ElementsAre(0, 1 * by, 0, 0, 0, 5 * by));
  }
}

TEST(Indexing, ADiagonalThatIsNotOneNumberIsRefusedByNode) {
  OnnxBuilder b;
  b.input("x", {1, 2, 3}).integers("k", {0}, {}).node("Trilu", {"x", "k"}, {"y"}, "cut").output("y", {});
  EXPECT_THAT(refusal(b, {1, 2, 3}), HasSubstr("Trilu (node 'cut'): its k is not one number"));
}

TEST(Control, TheBranchThatAShapeChoosesIsLoweredAndTheOtherIsNotLookedAt) {
  OnnxBuilder b;
  b.input("x", {1, 2}).node("Shape", {"x"}, {"s"}).integers("two", {}, {2}).integers("at", {}, {1});
  b.node("Gather", {"s", "at"}, {"width"}).node("Equal", {"width", "two"}, {"c"});
  b.node("If", {"c"}, {"y"}, "if").output("y", {});
  auto* node = b.proto().mutable_graph()->mutable_node(b.proto().graph().node_size() - 1);
  for (const char* name : {"then_branch", "else_branch"}) {
    auto* branch = node->add_attribute();
    branch->set_name(name);
    branch->set_type(onnx::AttributeProto::GRAPH);
    auto* inner = branch->mutable_g()->add_node();
    inner->set_op_type(std::string(name) == "then_branch" ? "Neg" : "FlyToTheMoon");
    inner->add_input("x");
    inner->add_output("inside");
    branch->mutable_g()->add_output()->set_name("inside");
  }
  EXPECT_THAT(result_of_counts(b, {1, 2}), ElementsAre(0, -1));
  EXPECT_THAT(refusal(b, {1, 3}), HasSubstr("FlyToTheMoon (node that makes 'inside'): camd's own engines do not have"));
}

TEST(Quantized, ActivationsAreRoundedAsTheirPairsSay) {
  OnnxBuilder b;
  b.input("x", {1, 1, 1, 5}).weight("s", {}, {0.75F}).integers("z", {}, {-1});
  auto* zero = b.proto().mutable_graph()->mutable_initializer(1);
  zero->set_data_type(onnx::TensorProto::INT8);
  zero->clear_int64_data();
  zero->add_int32_data(-1);
  b.node("QuantizeLinear", {"x", "s", "z"}, {"q"}).node("DequantizeLinear", {"q", "s", "z"}, {"y"}).output("y", {});
  EXPECT_THAT(result_of_counts(b, {1, 1, 1, 5}), ElementsAre(0, 0.75F, 2.25F, 3, 3.75F));
}

TEST(Quantized, WeightsOfEightBitsBecomeNumbersChannelByChannel) {
  OnnxBuilder b;
  b.input("x", {1, 1, 1, 2}).weight("s", {2}, {0.5F, 2}).integers("q", {2, 1, 1, 1}, {3, -4});
  auto* weight = b.proto().mutable_graph()->mutable_initializer(1);
  weight->set_data_type(onnx::TensorProto::INT8);
  weight->clear_int64_data();
  weight->add_int32_data(3);
  weight->add_int32_data(-4);
  b.node("DequantizeLinear", {"q", "s"}, {"w"}).integer("axis", 0);
  b.node("Conv", {"x", "w"}, {"y"}).output("y", {});
  EXPECT_THAT(result_of_counts(b, {1, 1, 1, 2}), ElementsAre(0, 1.5F, 0, -8));
}

// Two operators of 8 bits, as onnxruntime's quantizer writes them: with the pairs inside, or as nodes of their own.
OnnxBuilder eight_bits(bool pairs_inside) {
  using T = onnx::TensorProto;
  OnnxBuilder b;
  b.input("x", {1, 2, 1, 3}).weight("xs", {}, {0.5F}).integers("xz", {}, {3}, T::UINT8);
  b.integers("w", {2, 2, 1, 1}, {3, -4, 5, 1}, T::INT8)
      .weight("ws", {2}, {0.5F, 2})
      .integers("wz", {2}, {1, 0}, T::INT8);
  b.integers("bias", {2}, {4, -3}, T::INT32).weight("bs", {2}, {0.25F, 1});
  b.weight("ys", {}, {0.25F})
      .integers("yz", {}, {40}, T::UINT8)
      .weight("zs", {}, {0.75F})
      .integers("zz", {}, {9}, T::UINT8);
  b.node("QuantizeLinear", {"x", "xs", "xz"}, {"q"});
  if (pairs_inside) {
    b.node("QLinearConv", {"q", "xs", "xz", "w", "ws", "wz", "ys", "yz", "bias"}, {"c"});
    b.node("QLinearAdd", {"c", "ys", "yz", "q", "xs", "xz", "zs", "zz"}, {"sum"}).domain("com.microsoft");
    b.node("QLinearConcat", {"ys", "yz", "sum", "zs", "zz", "c", "ys", "yz"}, {"both"}).integer("axis", 1);
    b.domain("com.microsoft");
  } else {
    b.node("DequantizeLinear", {"q", "xs", "xz"}, {"f"});
    b.node("DequantizeLinear", {"w", "ws", "wz"}, {"wf"}).integer("axis", 0);
    b.node("DequantizeLinear", {"bias", "bs"}, {"bf"}).integer("axis", 0).node("Conv", {"f", "wf", "bf"}, {"cf"});
    b.node("QuantizeLinear", {"cf", "ys", "yz"}, {"c"}).node("DequantizeLinear", {"c", "ys", "yz"}, {"d"});
    b.node("Add", {"d", "f"}, {"df"}).node("QuantizeLinear", {"df", "zs", "zz"}, {"sum"});
    b.node("DequantizeLinear", {"sum", "zs", "zz"}, {"e"}).node("Concat", {"e", "d"}, {"g"}).integer("axis", 1);
    b.node("QuantizeLinear", {"g", "ys", "yz"}, {"both"});
  }
  return b.node("DequantizeLinear", {"both", "ys", "yz"}, {"y"}).output("y", {});
}

TEST(Quantized, OperatorsWithTheirPairsInsideEqualThoseWithNodesForThem) {
  const Floats inside = result_of_counts(eight_bits(true), {1, 2, 1, 3});
  EXPECT_EQ(inside, result_of_counts(eight_bits(false), {1, 2, 1, 3}));
  EXPECT_EQ(inside.size(), 12U);
  // The convolution's result is read twice and taken out of its steps once.
  EXPECT_EQ(lower(eight_bits(true), {1, 2, 1, 3}).ops.size(), lower(eight_bits(false), {1, 2, 1, 3}).ops.size());
}

TEST(Quantized, OtherOperatorsOfRuntimesAreForeign) {
  OnnxBuilder b;
  b.input("x", {1, 1, 1, 2}).node("FusedThing", {"x"}, {"y"}).domain("com.microsoft").output("y", {});
  EXPECT_EQ(refusal(b, {1, 1, 1, 2}),
            "test.onnx: com.microsoft::FusedThing (node that makes 'y'): camd's own engines do not have this operator");
}

TEST(Quantized, WeightsOfFourBitsBecomeNumbersBlockByBlock) {
  OnnxBuilder b;
  b.input("x", {1, 1, 1, 3}).weight("s", {1, 1, 1, 2}, {0.5F, 2});
  auto* weight = b.proto().mutable_graph()->add_initializer();
  weight->set_name("q");
  weight->set_data_type(kInt4);
  for (const int d : {1, 1, 1, 3}) weight->add_dims(d);
  weight->set_raw_data(std::string("\x7F\x08", 2));  // -1, 7, -8
  b.node("DequantizeLinear", {"q", "s"}, {"w"}).integer("axis", 3).integer("block_size", 2);
  b.node("Add", {"x", "w"}, {"y"}).output("y", {});
  EXPECT_THAT(result_of_counts(b, {1, 1, 1, 3}), ElementsAre(-0.5F, 4.5F, -14));
}

// Nine boxes side by side, and behind them one beside each that the box hides, wherever among the others that is.
TEST(NonMaxSuppression, EachKeptBoxHidesTheOneThatCoversTheSame) {
  constexpr std::int64_t kBoxes = 9;
  std::vector<float> boxes, scores, want;
  for (int shift = 0; shift < 2; ++shift) {
    for (int i = 0; i < static_cast<int>(kBoxes); ++i) {
      const auto left = static_cast<float>(i * 10 + shift);
      boxes.insert(boxes.end(), {0, left, 10, left + 10});
      scores.push_back(1 - static_cast<float>(shift * 16 + i) / 32);
      if (shift == 0) want.insert(want.end(), {0, 0, static_cast<float>(i)});
    }
  }
  OnnxBuilder b;
  b.input("x", {1, 1, kBoxes, 3}).weight("boxes", {1, 2 * kBoxes, 4}, boxes);
  b.weight("scores", {1, 1, 2 * kBoxes}, scores).integers("most", {1}, {100}).weight("iou", {1}, {0.5F});
  b.node("NonMaxSuppression", {"boxes", "scores", "most", "iou"}, {"chosen"});
  b.node("Cast", {"chosen"}, {"numbers"}).integer("to", 1).weight("zero", {}, {0});
  b.node("Mul", {"x", "zero"}, {"nothing"}).node("Add", {"nothing", "numbers"}, {"y"}).output("y", {});
  EXPECT_EQ(result_of_counts(b, {1, 1, kBoxes, 3}), want);
}

// As torchvision's SSDs choose: the boxes of 80 classes, each class beside the last one, all compared with all. Each
// class has 300 boxes, and behind them one that covers the half of two.
TEST(NonMaxSuppression, TakesTheBoxesOfAllClassesSideBySide) {
  constexpr int kClasses = 80, kColumns = 20, kRows = 15, kEach = kColumns * kRows + 1;
  constexpr std::int64_t kAll = std::int64_t{kClasses} * kEach, kChosen = std::int64_t{kClasses} * kColumns * kRows;
  std::vector<float> boxes, scores, want;
  for (int c = 0; c < kClasses; ++c) {
    for (int i = 0; i < kEach; ++i) {
      const bool last = i + 1 == kEach;
      const auto left = static_cast<float>(c * 1000) + (last ? 5.0F : static_cast<float>(i % kColumns * 10));
      const int row = i / kColumns;
      const auto top = last ? 0.0F : static_cast<float>(row * 10);
      boxes.insert(boxes.end(), {top, left, top + 10, left + 10});
      scores.push_back(1 - static_cast<float>(c * kEach + i) / 65536);
      if (!last) want.insert(want.end(), {0, 0, static_cast<float>(c * kEach + i)});
    }
  }
  const Shape in{1, 1, kChosen, 3};
  OnnxBuilder b;
  b.input("x", in).weight("boxes", {1, kAll, 4}, boxes);
  b.weight("scores", {1, 1, kAll}, scores).integers("most", {1}, {100'000}).weight("iou", {1}, {0.3F});
  b.node("NonMaxSuppression", {"boxes", "scores", "most", "iou"}, {"chosen"});
  b.node("Cast", {"chosen"}, {"numbers"}).integer("to", 1).weight("zero", {}, {0});
  b.node("Mul", {"x", "zero"}, {"nothing"}).node("Add", {"nothing", "numbers"}, {"y"}).output("y", {});
  EXPECT_EQ(result_of_counts(b, in), want);
}

TEST(Hostile, ALoopWithoutAGraphIsRefusedByName) {
  OnnxBuilder b;
  b.input("x", {1, 3, 4, 4}).integers("n", {}, {2}).node("Loop", {"n", "", "x"}, {"y"}, "again").output("y", {});
  EXPECT_THAT(refusal(b, {1, 3, 4, 4}), EndsWith("Loop (node 'again'): its graph is missing"));
}

// A choice of boxes, which the host could do, in front of what nothing can.
TEST(Lowering, AModelIsRefusedByTheOperatorThatNoEngineHas) {
  OnnxBuilder b;
  b.input("x", {1, 3, 4, 4}).node("NonZero", {"x"}, {"chosen"}, "choose");
  b.node("Cast", {"chosen"}, {"boxes"}).integer("to", onnx::TensorProto::FLOAT);
  b.node("MaxRoiPool", {"x", "boxes"}, {"y"}, "second").output("y", {});
  EXPECT_THAT(refusal(b, {1, 3, 4, 4}),
              EndsWith("MaxRoiPool (node 'second'): camd's own engines do not have this operator"));
}

TEST(Hostile, FoldingThatWouldTakeForeverIsRefused) {
  OnnxBuilder b;
  b.integers("size", {4}, {1, 1, 2048, 2048}).node("ConstantOfShape", {"size"}, {"c"});
  b.node("MaxPool", {"c"}, {"p"}).ints("kernel_shape", {1000, 1000});
  b.input("x", {1, 1, 1, 1}).node("Add", {"x", "p"}, {"y"}).output("y", {});
  EXPECT_THAT(refusal(b, {1, 1, 1, 1}), HasSubstr("folding the model's constants up to here takes too long"));
}

// As many steps as the decoders of Conditional and Deformable DETR take for what they make of their learned queries.
TEST(Lowering, ProductsOfLargeConstantsAreFolded) {
  OnnxBuilder b;
  b.input("x", {1, 1, 1, 1}).weight("a", {320, 1024}, std::vector<float>(std::size_t{320} * 1024, 0.25F));
  b.weight("b", {1024, 512}, std::vector<float>(std::size_t{1024} * 512, 2.0F));
  b.node("MatMul", {"a", "b"}, {"p"}).node("ReduceMax", {"p"}, {"largest"}).node("ReduceMin", {"p"}, {"smallest"});
  b.node("Add", {"x", "largest"}, {"sum"}).node("Sub", {"sum", "smallest"}, {"zero"});
  b.node("Add", {"zero", "largest"}, {"y"}).output("y", {});
  EXPECT_THAT(result_of_counts(b, {1, 1, 1, 1}), ElementsAre(512.0F));
}

TEST(Hostile, ManyLargeConstantsAreRefusedTogether) {
  OnnxBuilder b;
  b.input("x", {1, 1, 1, 1}).integers("n", {1}, {1 << 24});
  for (int i = 0; i < 40; ++i) {
    b.node("ConstantOfShape", {"n"}, {"c" + std::to_string(i)});
    b.node("ReduceMax", {"c" + std::to_string(i)}, {"m" + std::to_string(i)}).integer("keepdims", 0);
    b.node("Add", {i == 0 ? "x" : "y" + std::to_string(i - 1), "m" + std::to_string(i)}, {"y" + std::to_string(i)});
  }
  b.output("y39", {});
  EXPECT_THAT(refusal(b, {1, 1, 1, 1}), HasSubstr("the model's constants up to here"));
}

TEST(Hostile, TheSameLargeOutputManyTimesIsRefused) {
  OnnxBuilder b;
  b.input("x", {1, 3, 1024, 1024}).node("Relu", {"x"}, {"y"});
  for (int i = 0; i < 100; ++i) b.output("y", {});
  EXPECT_THAT(refusal(b, {1, 3, 1024, 1024}), HasSubstr("its outputs have more than"));
}

TEST(Hostile, ResizingToAnAbsurdSizeIsRefused) {
  OnnxBuilder b;
  b.opset(13).input("x", {1, 1, 1, 1}).integers("sizes", {4}, {1, 1, 1, 1 << 26});
  b.node("Resize", {"x", "", "", "sizes"}, {"y"}, "grow").output("y", {});
  EXPECT_THAT(refusal(b, {1, 1, 1, 1}), HasSubstr("Resize (node 'grow'): its output would be"));
}

// The fuzzer's: nothing to resize, but not nearest, so that the last dimension of none was looked at.
TEST(Hostile, ResizingANumberChangesNothing) {
  OnnxBuilder b;
  b.input("x", {1}).weight("scales", {0}, {});
  b.node("Squeeze", {"x"}, {"number"}).node("Resize", {"number", "", "scales"}, {"y"}).text("mode", "cubic");
  b.output("y", {});
  EXPECT_EQ(result_of_counts(b, {1}), Floats{0});
}

TEST(Resize, AScaleThatLeavesTheSizeAsItIsStillMovesWhatIsShown) {
  for (const char* const mode : {"nearest", "linear"}) {
    OnnxBuilder b;
    b.input("x", {1, 1, 1, 4}).weight("scales", {4}, {1, 1, 1, 1.2F}).node("Resize", {"x", "", "scales"}, {"y"});
    b.text("mode", mode)
        .text("coordinate_transformation_mode", "asymmetric")
        .text("nearest_mode", "floor")
        .output("y", {});
    const Floats got = result_of_counts(b, {1, 1, 1, 4});
    const Floats want = std::string(mode) == "nearest" ? Floats{0, 0, 1, 2} : Floats{0, 0.8333333F, 1.6666666F, 2.5F};
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4) << mode << " " << i;
  }
}

// The shape of one input was read through a reference while another input was looked up: a weight, whose value made the
// list of values move. The sanitizers see it.
TEST(Indexing, LookingUpAWeightLeavesWhatIsKnownOfOtherInputsInPlace) {
  for (const int others : {0, 1, 2, 3, 4, 5, 6, 7, 8}) {
    OnnxBuilder b;
    b.input("x", {1, 3});
    std::string last = "x";
    for (int i = 0; i < others; ++i) {
      b.node("Neg", {last}, {"n" + std::to_string(i)});
      last = "n" + std::to_string(i);
    }
    b.integers("to", {2}, {2, 3}).node("Expand", {last, "to"}, {"y"}).output("y", {});
    EXPECT_EQ(result_of_counts(b, {1, 3}).size(), 6U);
  }
}

// The fuzzer's: a position of 1e23 as an integer.
TEST(Hostile, RegionsBeyondAllNumbersAreOutside) {
  for (const float far : {1e23F, INFINITY, NAN}) {
    OnnxBuilder b;
    b.input("x", {1, 1, 2, 2}).weight("roi", {8}, {0, 0, far, far, 1, 1, far, far}).integers("to", {4}, {1, 1, 3, 3});
    b.node("Resize", {"x", "roi", "", "to"}, {"y"}).text("mode", "cubic");
    b.text("coordinate_transformation_mode", "tf_crop_and_resize").output("y", {});
    EXPECT_EQ(result_of_counts(b, {1, 1, 2, 2}), Floats(9, 0.0F)) << far;
  }
}

TEST(Hostile, NegativeSizesOfExpandAndRangesBeyondIntegersAreRefused) {
  OnnxBuilder expand;
  expand.input("x", {1, 1}).integers("to", {2}, {1, -5}).node("Expand", {"x", "to"}, {"y"}).output("y", {});
  EXPECT_THAT(refusal(expand, {1, 1}), HasSubstr("its shape is out of bounds"));
  OnnxBuilder range;
  range.input("x", {1, 1}).weight("a", {}, {0}).weight("b", {}, {INFINITY}).weight("c", {}, {INFINITY});
  range.node("Range", {"a", "b", "c"}, {"r"}).node("Add", {"x", "r"}, {"y"}).output("y", {});
  EXPECT_THAT(refusal(range, {1, 1}), HasSubstr("its range is out of bounds"));
}

// The fuzzer's: 133 bytes that became thousands of steps, one for each repetition.
TEST(Hostile, ATileIsOneStepADimensionHoweverOftenItRepeats) {
  OnnxBuilder b;
  b.input("x", {1, 2}).integers("repeats", {2}, {1000, 3000}).node("Tile", {"x", "repeats"}, {"y"}).output("y", {});
  const Graph graph = lower(b, {1, 2});
  EXPECT_EQ(graph.ops.size(), 2U);
  EXPECT_EQ(graph.shape(graph.outputs[0]), (Shape{1000, 6000}));
}

TEST(Hostile, ExternalDataOfAbsurdSizeIsNotRead) {
  const test::TemporaryFolder folder;
  OnnxBuilder b;
  b.input("x", {1, 1, 1, 1}).weight("w", {1}, {1}).node("Add", {"x", "w"}, {"y"}).output("y", {});
  auto* w = b.proto().mutable_graph()->mutable_initializer(0);
  w->clear_float_data();
  w->set_dims(0, std::int64_t{1} << 29);
  w->set_data_location(onnx::TensorProto::EXTERNAL);
  auto* entry = w->add_external_data();
  entry->set_key("location");
  entry->set_value("w.bin");
  const std::string path = folder.write("m.onnx", b.bytes());
  { std::ofstream(folder.path() / "w.bin") << "x"; }
  std::filesystem::resize_file(folder.path() / "w.bin", std::uintmax_t{1} << 31U);  // a hole, not bytes
  try {
    (void)lower_model(read_onnx_file(path), {"x", {1, 1, 1, 1}, DataType::kF32});
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("camd reads at most"));
  }
}

TEST(Hostile, GraphsInGraphsCostNoMoreThanTheirFile) {
  // A copy of the names for each inner graph would be 20,000 times 20,000 of them.
  OnnxBuilder b;
  b.input("x", {1, 1, 1, 1});
  for (int i = 0; i < 20000; ++i) b.weight("w" + std::to_string(i), {1}, {1});
  b.node("If", {"w0"}, {"y"}).output("y", {});
  auto* node = b.proto().mutable_graph()->mutable_node(0);
  for (int i = 0; i < 20000; ++i) {
    auto* branch = node->add_attribute();
    branch->set_name("b" + std::to_string(i));
    branch->set_type(onnx::AttributeProto::GRAPH);
    branch->mutable_g()->set_name("g");
  }
  EXPECT_THAT(refusal(b, {1, 1, 1, 1}), HasSubstr("its condition depends on the picture"));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
