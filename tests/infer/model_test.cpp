#include "infer/model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>

#include "base/error.hpp"
#include "infer/onnx/wire.hpp"
#include "onnx_builder.hpp"
#include "tests/support/paths.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::OnnxBuilder;
using test::TemporaryFolder;
using test::tiny_conv;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string refusal(const std::string& path) {
  try {
    (void)describe_model(path);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind(), base::ErrorKind::kModel);
    return error.what();
  }
  return "accepted";
}

std::string refusal_of(const OnnxBuilder& builder) {
  const TemporaryFolder folder;
  return refusal(folder.write("m.onnx", builder.bytes()));
}

std::string file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Model, DescribesInputsOutputsOperatorsAndParameters) {
  const TemporaryFolder folder;
  const ModelDescription m = describe_model(folder.write("tiny.onnx", tiny_conv({1, 3, -1, 8}).bytes()));
  ASSERT_EQ(m.inputs.size(), 1U);
  EXPECT_EQ(m.inputs[0].name, "x");
  EXPECT_EQ(to_string(m.inputs[0].shape), "[1,3,?,8]");
  EXPECT_EQ(m.inputs[0].type, DataType::kF32);
  ASSERT_EQ(m.outputs.size(), 1U);
  EXPECT_EQ(m.outputs[0].name, "y");
  ASSERT_EQ(m.operators.size(), 2U);
  EXPECT_EQ(m.operators[0].type, "Conv");
  EXPECT_EQ(m.operators[1].type, "Relu");
  EXPECT_EQ(m.parameter_count, 56);
  EXPECT_EQ(m.opset, 13);
  EXPECT_EQ(m.ir_version, 8);
  EXPECT_EQ(m.producer, "test");
  EXPECT_EQ(m.sha256.size(), 64U);
}

TEST(Model, WeightsListedAsInputsAreNotInputs) {
  OnnxBuilder b = tiny_conv();
  b.input("w", {2, 3, 3, 3}).input("b", {2});
  const TemporaryFolder folder;
  const ModelDescription m = describe_model(folder.write("ir3.onnx", b.bytes()));
  ASSERT_EQ(m.inputs.size(), 1U);
  EXPECT_EQ(m.inputs[0].name, "x");
}

TEST(Model, MissingFileIsNamed) { EXPECT_EQ(refusal("/nowhere/m.onnx"), "/nowhere/m.onnx: no such model file"); }

TEST(Model, FolderIsRefused) {
  const TemporaryFolder folder;
  EXPECT_THAT(refusal(folder.path().string()), HasSubstr("not a regular file"));
}

TEST(Model, EmptyFileIsRefused) {
  const TemporaryFolder folder;
  const std::string path = folder.write("m.onnx", "");
  EXPECT_EQ(refusal(path), path + ": the model file is empty");
}

TEST(Model, TextIsNotAModel) {
  const TemporaryFolder folder;
  EXPECT_THAT(refusal(folder.write("m.onnx", "cameras:\n  - name: door\n")), HasSubstr("not an ONNX"));
}

TEST(Model, AModelOfAnotherFormatIsNamedAndIsToBeExported) {
  const TemporaryFolder folder;
  const std::string torch = folder.write("best.pt", tiny_conv().bytes());
  EXPECT_EQ(refusal(torch), torch +
                                ": a model of PyTorch, and camd reads ONNX: export it to a file that ends in .onnx "
                                "(one of Ultralytics: yolo export format=onnx model=FILE)");
  EXPECT_THAT(refusal(folder.write("best.tflite", "x")), HasSubstr("a model of TensorFlow Lite, and camd reads ONNX"));
}

TEST(Model, WhatADownloadOrACloneLeavesInItsPlaceIsNamed) {
  const TemporaryFolder folder;
  EXPECT_THAT(refusal(folder.write("a.onnx", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9\n")),
              HasSubstr("a.onnx: a pointer of Git LFS and not the model itself: fetch it with git lfs pull"));
  EXPECT_THAT(refusal(folder.write("b.onnx", "<!DOCTYPE html><html></html>")), HasSubstr("b.onnx: a web page"));
  EXPECT_THAT(refusal(folder.write("c.onnx", "PK\x03\x04more")), HasSubstr("c.onnx: a zip archive"));
}

TEST(Model, EveryTruncationIsRefusedInOneLine) {
  const std::string bytes = tiny_conv().bytes();
  for (std::size_t n = 1; n < bytes.size(); ++n) {
    std::string message = "accepted";
    try {
      (void)parse_onnx(std::string_view(bytes).substr(0, n), "m.onnx");
    } catch (const base::Error& error) {
      message = error.what();
    }
    // A cut exactly between two fields of the model leaves a well-formed, incomplete one.
    EXPECT_THAT(message, AllOf(HasSubstr("m.onnx: "), Not(HasSubstr("\n")))) << n;
  }
}

TEST(Model, RandomBitFlipsAreRefusedOrReadButNeverHarm) {
  const std::string bytes = tiny_conv().bytes();
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string broken = bytes;
    for (int flips = 0; flips < 1 + round % 4; ++flips) {
      broken[random() % broken.size()] ^= static_cast<char>(1U << (random() % 8));
    }
    try {
      (void)describe_model(parse_onnx(broken, "m.onnx"));
    } catch (const base::Error& error) {
      ++refused;
      ASSERT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  }
  EXPECT_GT(refused, 5000);
}

TEST(Model, TinyMessagesByTheMillionAreRefusedBeforeTheyAreAllocated) {
  // graph (field 7) full of empty nodes (field 1, length 0): 2 bytes each in the file, some 150 in memory.
  std::string nodes;
  for (int i = 0; i < 3; ++i) nodes += std::string("\x0a\x00", 2);
  std::string graph = "\x3a\x06" + nodes;
  EXPECT_EQ(check_onnx_wire(graph, 4), "");
  EXPECT_THAT(check_onnx_wire(graph, 3), HasSubstr("too complex"));
}

TEST(Model, NestingDeeperThanTheReaderIsRefused) {
  std::string inner;
  for (int i = 0; i < 40; ++i) {  // graph { node { attribute { g ...
    const auto wrap = [&inner](char tag) {
      std::string length;
      for (std::size_t n = inner.size();; n >>= 7U) {
        length += static_cast<char>((n & 0x7FU) | (n > 0x7F ? 0x80U : 0U));
        if (n <= 0x7F) break;
      }
      length.insert(length.begin(), tag);
      inner.insert(0, length);
    };
    wrap('\x32');  // attribute.g
    wrap('\x2a');  // node.attribute
    wrap('\x0a');  // graph.node
  }
  EXPECT_THAT(check_onnx_wire("\x3a" + std::string(1, static_cast<char>(0)), 10), "");
  std::string model = inner;
  std::string length;
  for (std::size_t n = model.size();; n >>= 7U) {
    length += static_cast<char>((n & 0x7FU) | (n > 0x7F ? 0x80U : 0U));
    if (n <= 0x7F) break;
  }
  EXPECT_THAT(check_onnx_wire("\x3a" + length + model, kMaxModelFields), HasSubstr("nested deeper"));
}

TEST(Model, OperatorsOfAForeignDomainAreCalledByItAndAreNoStandardOnes) {
  OnnxBuilder b = tiny_conv();
  b.node("Relu", {"y"}, {"z"}, "late").domain("com.example").output("z", {});
  EXPECT_EQ(refusal_of(b), "accepted");
  EXPECT_EQ(b.file().proto.graph().node(2).op_type(), "com.example::Relu");
}

TEST(Model, CycleIsRefused) {
  OnnxBuilder b;
  b.input("x", {1, 3, 4, 4}).node("Add", {"x", "b"}, {"a"}, "n1").node("Relu", {"a"}, {"b"}).output("a", {});
  EXPECT_THAT(refusal_of(b), HasSubstr("Add (node 'n1') reads 'b', which is made only after it (a cycle"));
}

TEST(Model, NameThatNothingMakesIsRefused) {
  OnnxBuilder b;
  b.input("x", {1, 3, 4, 4}).node("Add", {"x", "ghost"}, {"a"}).output("a", {});
  EXPECT_THAT(refusal_of(b), HasSubstr("Add (node that makes 'a') reads 'ghost', which nothing makes"));
}

TEST(Model, OutputThatNothingMakesIsRefused) {
  EXPECT_THAT(refusal_of(tiny_conv().output("ghost", {1})), HasSubstr("output 'ghost' is made by no node"));
}

TEST(Model, WeightWithMissingBytesIsRefused) {
  OnnxBuilder b = tiny_conv();
  b.proto().mutable_graph()->mutable_initializer(0)->mutable_float_data()->Truncate(50);
  EXPECT_THAT(refusal_of(b), HasSubstr("weight 'w' needs 54 elements, the file holds 50"));
}

TEST(Model, WeightWhoseShapeOverflowsIsRefused) {
  OnnxBuilder b = tiny_conv();
  auto* w = b.proto().mutable_graph()->mutable_initializer(0);
  w->set_dims(0, std::int64_t{1} << 40);
  w->set_dims(1, std::int64_t{1} << 40);
  EXPECT_THAT(refusal_of(b), HasSubstr("weight 'w' has more than"));
  w->set_dims(0, -2);
  EXPECT_THAT(refusal_of(b), HasSubstr("weight 'w' has a negative dimension"));
}

TEST(Model, InputOfAnotherTypeIsRefused) {
  OnnxBuilder b;
  b.input("x", {1, 3, 4, 4}, onnx::TensorProto::BOOL).node("Relu", {"x"}, {"y"}).output("y", {});
  EXPECT_THAT(refusal_of(b), HasSubstr("input 'x' is of type BOOL, camd handles tensors of numbers"));
}

TEST(Model, OutputsOfOtherTypesAreNumbersOrWholeNumbers) {
  OnnxBuilder b;
  b.input("x", {1, 3, 4, 4}).node("Relu", {"x"}, {"y"}).node("Relu", {"x"}, {"z"});
  b.output("y", {}, onnx::TensorProto::DOUBLE).output("z", {}, onnx::TensorProto::BOOL);
  const ModelDescription model = describe_model(b.file());
  EXPECT_EQ(model.outputs[0].type, DataType::kF32);
  EXPECT_EQ(model.outputs[1].type, DataType::kI64);
}

TEST(Model, NamesWithControlCharactersStayOnOneLine) {
  OnnxBuilder b;
  b.input("x", {1, 3, 4, 4}).node("Bad\nOp", {"ghost\x1b[2J"}, {"y"}).output("y", {});
  EXPECT_THAT(refusal_of(b), AllOf(Not(HasSubstr("\n")), Not(HasSubstr("\x1b"))));
}

TEST(Model, EveryRealModelIsDescribed) {
  for (const auto& shared : test::shared_models()) {
    const std::string path = camd::test::shared_dir() + "/models/" + shared.file;
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here";
    const ModelDescription m = describe_model(path);
    EXPECT_EQ(m.inputs.size(), 1U) << path;
    EXPECT_EQ(m.outputs.size(), shared.outputs) << path;
    EXPECT_GT(m.parameter_count, 50'000) << path;
  }
}

TEST(Model, RealModelsCutOffAreRefused) {
  for (const auto& shared : test::shared_models()) {
    const std::string path = camd::test::shared_dir() + "/models/" + shared.file;
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here";
    const std::string bytes = file_bytes(path);
    for (const std::size_t part : {1U, 10U, 50U, 99U}) {
      EXPECT_THROW((void)parse_onnx(std::string_view(bytes).substr(0, bytes.size() * part / 100), path), base::Error)
          << path << " " << part;
    }
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
